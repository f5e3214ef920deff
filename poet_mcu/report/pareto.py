"""Curves over the RAM budget: the plans, what paging or recompute alone give, the baselines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from poet_mcu.report.axis import byte_ticks, bytes_label, scaled, ticks
from poet_mcu.report.svg import Svg
from poet_mcu.units import format_bytes, format_si

WIDTH = 1100.0
LEFT, RIGHT, TOP, BOTTOM = 72.0, 200.0, 46.0, 44.0
_PANEL = 300.0
#: above this ratio of largest to smallest an axis is logarithmic
_LOG_RATIO = 12.0
_SHAPES = ("circle", "square", "diamond", "triangle")


@dataclass(frozen=True, slots=True)
class Point:
    """A plan: RAM in bytes, joules or seconds, and the words of its hover title."""

    ram_bytes: int
    value: float
    title: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Points by RAM; ``joined`` with a staircase (a plan serves any larger budget too)."""

    name: str
    points: tuple[Point, ...]
    joined: bool = True


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram. ``impossible``: budgets without a plan. ``limit``: the least RAM that works."""

    title: str
    unit: str
    curves: tuple[Curve, ...]
    impossible: tuple[int, ...] = ()
    least_bytes: int | None = None
    budgets: tuple[int, ...] = ()


class _Scales:
    """From bytes and values to the picture."""

    def __init__(self, panel: Panel, top: float) -> None:
        points = [point for curve in panel.curves for point in curve.points]
        sizes = [point.ram_bytes for point in points] + list(panel.budgets)
        self.low, self.high = min(sizes, default=0), max(sizes, default=1)
        pad = max(1, (self.high - self.low) // 25)
        self.low, self.high = max(0, self.low - pad), self.high + pad
        values = [point.value for point in points if point.value > 0]
        self.most, self.least = max(values, default=1.0), min(values, default=0.1)
        self.log = self.most > _LOG_RATIO * self.least
        self.bottom, self.top = top + _PANEL - BOTTOM, top + TOP

    def x(self, size_bytes: int) -> float:
        share = (size_bytes - self.low) / max(1, self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        if self.log:
            low, high = math.log(self.least / 1.25), math.log(self.most * 1.5)
            share = (math.log(value) - low) / (high - low) if value > 0 else 0.0
        else:
            share = value / (self.most * 1.15)
        return self.bottom - share * (self.bottom - self.top)

    def value_ticks(self) -> list[float]:
        if not self.log:
            factor, _ = scaled(self.most)
            return [tick * factor for tick in ticks(self.most / factor)]
        first = math.floor(math.log10(self.least / 1.25))
        last = math.ceil(math.log10(self.most * 1.5))
        every = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
        return [t for t in every if self.least / 1.25 <= t <= self.most * 1.5]


def pareto_figure(title: str, panels: Sequence[Panel]) -> Svg:
    """The panels one below the other."""
    svg = Svg(WIDTH, 44 + _PANEL * len(panels), title)
    svg.text(16, 26, title, "strong", size=15)
    for k, panel in enumerate(panels):
        _panel(svg, panel, 34 + k * _PANEL)
    return svg


def _panel(svg: Svg, panel: Panel, top: float) -> None:
    scales = _Scales(panel, top)
    svg.text(16, top + 26, panel.title, "strong", size=12)
    _axes(svg, panel, scales)
    _impossible(svg, panel, scales)
    for k, curve in reversed(list(enumerate(panel.curves))):
        if curve.points:
            _curve(svg, curve, k, scales)
    _names(svg, panel, scales)


def _axes(svg: Svg, panel: Panel, scales: _Scales) -> None:
    right = WIDTH - RIGHT
    for tick in scales.value_ticks():
        svg.line(LEFT, scales.y(tick), right, scales.y(tick), "rule")
        svg.text(LEFT - 8, scales.y(tick), format_si(tick, panel.unit), "middle muted",
                 anchor="end")  # fmt: skip
    for size in byte_ticks(scales.high, 12):
        if size >= scales.low:
            svg.line(scales.x(size), scales.bottom, scales.x(size), scales.bottom + 4, "axis")
            svg.text(scales.x(size), scales.bottom + 17, bytes_label(size), "muted",
                     anchor="middle")  # fmt: skip
    svg.line(LEFT, scales.bottom, right, scales.bottom, "axis")
    svg.text(right + 10, scales.bottom + 17, "RAM", "muted")


def _impossible(svg: Svg, panel: Panel, scales: _Scales) -> None:
    """Hatched below the least RAM that works, a cross at each budget without a plan."""
    edge = panel.least_bytes
    if edge is None and panel.impossible:
        edge = max(panel.impossible)
    if edge is not None and edge > scales.low:
        width = min(scales.x(edge), WIDTH - RIGHT) - LEFT
        title = f"no plan found below {edge} bytes"
        svg.rect(LEFT, scales.top, width, scales.bottom - scales.top, "none", title)
    for size in panel.impossible:
        x, y, title = scales.x(size), scales.bottom - 6, f"budget {size} bytes: no plan found"
        svg.text(x, y, "\u00d7", "alarm strong", anchor="middle", size=15, title=title)
    if panel.least_bytes is not None and panel.least_bytes > scales.low:
        svg.line(scales.x(panel.least_bytes), scales.top, scales.x(panel.least_bytes),
                 scales.bottom, "budget")  # fmt: skip
        svg.text(scales.x(panel.least_bytes), scales.top - 5,
                 f"least that works: {format_bytes(panel.least_bytes)}", "alarm",
                 anchor="middle" if scales.x(panel.least_bytes) > 170 else "start")  # fmt: skip


def _curve(svg: Svg, curve: Curve, k: int, scales: _Scales) -> None:
    corners: list[tuple[float, float]] = []
    for point in curve.points:
        x, y = scales.x(point.ram_bytes), scales.y(point.value)
        if curve.joined and corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    if curve.joined:
        svg.polyline(corners, f"curve s{k}" if k == 0 else f"curve s{k} thin")
    mark = _MARKS[_shape(k)]
    for (x, y), point in zip(
        [(scales.x(p.ram_bytes), scales.y(p.value)) for p in curve.points],
        curve.points,
        strict=True,
    ):
        mark(svg, x, y, f"f{min(k, 4)} gap", point.title)
        if not curve.joined:
            left = x > WIDTH - RIGHT - 130
            svg.text(x - 8 if left else x + 8, y - 6, point.title.split(":")[0], "muted halo",
                     anchor="end" if left else "start", size=10)  # fmt: skip


def _names(svg: Svg, panel: Panel, scales: _Scales) -> None:
    """Each curve's mark and name, to the right; a curve without points says so."""
    x, y = WIDTH - RIGHT + 18, scales.top + 10
    for k, curve in enumerate(panel.curves):
        name = curve.name if curve.points else f"{curve.name}: no plan"
        _MARKS[_shape(k)](svg, x, y, f"f{min(k, 4)} gap", name)
        svg.text(x + 12, y, name, "middle strong" if k == 0 else "middle")
        y += 19


def _shape(k: int) -> str:
    return _SHAPES[min(k, len(_SHAPES) - 1)]


def _circle(svg: Svg, x: float, y: float, css: str, title: str) -> None:
    svg.circle(x, y, 5, css, title)


def _square(svg: Svg, x: float, y: float, css: str, title: str) -> None:
    svg.rect(x - 4, y - 4, 8, 8, css, title)


def _diamond(svg: Svg, x: float, y: float, css: str, title: str) -> None:
    svg.polygon([(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)], css, title)


def _triangle(svg: Svg, x: float, y: float, css: str, title: str) -> None:
    svg.polygon([(x, y - 5), (x + 5, y + 4), (x - 5, y + 4)], css, title)


_MARKS: dict[str, Callable[[Svg, float, float, str, str], None]] = {
    "circle": _circle,
    "square": _square,
    "diamond": _diamond,
    "triangle": _triangle,
}
