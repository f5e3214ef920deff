"""RAM over the actions of a step: what fills it, the budget, the peak by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from poet_mcu.ir.schedule import ActionKind
from poet_mcu.report.axis import Key, byte_ticks, bytes_label, index_ticks, legend
from poet_mcu.report.svg import Svg, shown
from poet_mcu.report.trace import Moment, Trace
from poet_mcu.units import format_bytes

WIDTH, HEIGHT = 1100.0, 360.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 20.0, 44.0, 62.0
_LISTED = 8  # values named in a hover title
_STRIP = {
    ActionKind.PAGE_IN: "pagein",
    ActionKind.PAGE_OUT: "pageout",
}


@dataclass(frozen=True, slots=True)
class Levels:
    """Bytes below the values: stack and statics, parameters and optimizer state; and the budget."""

    runtime_bytes: int
    parameter_bytes: int
    ram_bytes: int

    @property
    def fixed_bytes(self) -> int:
        """What is always there."""
        return self.runtime_bytes + self.parameter_bytes


class _Chart:
    """The scales of one drawing."""

    def __init__(self, traced: Trace, levels: Levels) -> None:
        self.moments = traced.moments
        self.levels = levels
        top = max((m.values_bytes + m.workspace_bytes for m in self.moments), default=0)
        self.highest = max(levels.ram_bytes, levels.fixed_bytes + top)
        if levels.ram_bytes > 2.5 * (levels.fixed_bytes + top):  # a roomy budget hides the plan
            self.highest = int(1.25 * (levels.fixed_bytes + top))
        self.step = (WIDTH - LEFT - RIGHT) / max(1, len(self.moments))

    def x(self, action: int) -> float:
        return LEFT + action * self.step

    def y(self, size_bytes: int) -> float:
        return HEIGHT - BOTTOM - size_bytes / (self.highest * 1.04) * (HEIGHT - TOP - BOTTOM)

    def band(self, svg: Svg, lower: list[int], upper: list[int], css: str, title: str) -> None:
        """A staircase between two levels."""
        up = [(self.x(k + d), self.y(v)) for k, v in enumerate(upper) for d in (0, 1)]
        down = [(self.x(k + d), self.y(v)) for k, v in enumerate(lower) for d in (0, 1)]
        for layer in css.split():
            svg.polygon([*up, *reversed(down)], layer, title)


def memory_figure(traced: Trace, levels: Levels, names: Mapping[int, tuple[str, int]]) -> Svg:
    """``names``: (name, bytes) by tensor id."""
    chart = _Chart(traced, levels)
    svg = Svg(WIDTH, HEIGHT, "RAM over the actions of a step")
    _axes(svg, chart)
    count = len(chart.moments)
    zero, runtime = [0] * count, [levels.runtime_bytes] * count
    fixed = [levels.fixed_bytes] * count
    values = [levels.fixed_bytes + m.values_bytes for m in chart.moments]
    total = [v + m.workspace_bytes for v, m in zip(values, chart.moments, strict=True)]
    chart.band(svg, zero, runtime, "runtime", f"runtime: {levels.runtime_bytes} bytes")
    chart.band(svg, runtime, fixed, "param dots", f"parameters: {levels.parameter_bytes} bytes")
    chart.band(svg, fixed, values, "value", "values")
    chart.band(svg, values, total, "work hatch", "workspace")
    for moment in chart.moments:
        _hover(svg, chart, moment, names)
    _budget(svg, chart)
    _peak(svg, chart, total)
    legend(svg, LEFT, 10, _keys(levels))
    return svg


def _keys(levels: Levels) -> list[Key]:
    return [
        ("value", "", "", "values"),
        ("work", "hatch", "", "workspace"),
        ("param", "dots", "", f"parameters {format_bytes(levels.parameter_bytes)}"),
        ("runtime", "", "", f"stack and statics {format_bytes(levels.runtime_bytes)}"),
        ("recompute", "", "R", "recompute"),
        ("pageout", "", "O", "page-out"),
        ("pagein", "", "I", "page-in"),
    ]


def _axes(svg: Svg, chart: _Chart) -> None:
    for tick in byte_ticks(chart.highest):
        svg.line(LEFT, chart.y(tick), WIDTH - RIGHT, chart.y(tick), "rule")
        svg.text(LEFT - 8, chart.y(tick), bytes_label(tick), "middle muted", anchor="end")
    for action in index_ticks(len(chart.moments)):
        svg.text(chart.x(action) + chart.step / 2, HEIGHT - 30, str(action), "muted",
                 anchor="middle")  # fmt: skip
    svg.text(WIDTH - RIGHT, HEIGHT - 10, "action of the schedule", "muted", anchor="end")
    svg.line(LEFT, chart.y(0), WIDTH - RIGHT, chart.y(0), "axis")


def _hover(svg: Svg, chart: _Chart, moment: Moment, names: Mapping[int, tuple[str, int]]) -> None:
    total = chart.levels.fixed_bytes + moment.values_bytes + moment.workspace_bytes
    inside = sorted((names[i] for i in moment.resident), key=lambda pair: (-pair[1], pair[0]))
    listed = ", ".join(f"{name} {size}" for name, size in inside[:_LISTED])
    more = f" and {len(inside) - _LISTED} more" if len(inside) > _LISTED else ""
    workspace = f", workspace {moment.workspace_bytes}" if moment.workspace_bytes else ""
    title = f"action {moment.index}: {moment.name}: {total} bytes; {listed}{more}{workspace}"
    x, strip = chart.x(moment.index), chart.y(0) + 4
    css = _STRIP.get(moment.action.kind)
    if moment.action.kind is ActionKind.COMPUTE:
        css = "recompute" if moment.action.recompute else "compute"
    if css:
        svg.rect(x + chart.step * 0.06, strip, chart.step * 0.88, 10, css)
        letter = {"recompute": "R", "pagein": "I", "pageout": "O"}.get(css, "")
        if letter and chart.step >= 7:
            svg.text(x + chart.step / 2, strip + 5.5, letter, f"on-{css} middle strong",
                     anchor="middle", size=8)  # fmt: skip
    svg.rect(x, TOP, chart.step, strip + 10 - TOP, "hit", title)


def _budget(svg: Svg, chart: _Chart) -> None:
    budget = chart.levels.ram_bytes
    words = f"budget {format_bytes(budget)}"
    if budget > chart.highest:
        svg.text(WIDTH - RIGHT, TOP - 4, f"{words}, above this picture", "alarm", anchor="end")
        return
    svg.line(LEFT, chart.y(budget), WIDTH - RIGHT, chart.y(budget), "budget")
    svg.text(WIDTH - RIGHT, chart.y(budget) - 5, words, "alarm", anchor="end")


def _peak(svg: Svg, chart: _Chart, total: list[int]) -> None:
    if not total:
        return
    peak = max(total)
    action = total.index(peak)
    x, y = chart.x(action) + chart.step / 2, chart.y(peak)
    left = x < (LEFT + WIDTH) / 2
    svg.circle(x, y, 4, "mark", f"peak: {peak} bytes at action {action}")
    name = shown(chart.moments[action].name)
    svg.text(x + (8 if left else -8), y + 16, f"peak {format_bytes(peak)}, action {action}: {name}",
             "strong halo", anchor="start" if left else "end")  # fmt: skip
