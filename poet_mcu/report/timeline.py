"""CPU and SD bus over the seconds of a step.

Lanes are drawn as their spans say: one beside the other where transfers overlap compute, one
after the other where they hold the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from poet_mcu.report.axis import Key, legend, scaled, ticks
from poet_mcu.report.svg import Svg, shorten
from poet_mcu.report.trace import Kind, Lane, Span
from poet_mcu.units import format_si

WIDTH = 1100.0
LEFT, RIGHT = 72.0, 20.0
_LANE, _SPACE, _TOP = 34.0, 12.0, 40.0
_LAYERS = {
    Kind.COMPUTE: ("compute",),
    Kind.RECOMPUTE: ("recompute", "hatch"),
    Kind.STALL: ("stall", "dots"),
    Kind.READ: ("pagein",),
    Kind.WRITE: ("pageout", "hatch"),
}
_KEYS: tuple[Key, ...] = (
    ("compute", "", "", "compute"),
    ("recompute", "hatch", "", "recompute"),
    ("stall", "dots", "", "CPU waits for the card"),
    ("pageout", "hatch", "", "card writes"),
    ("pagein", "", "", "card reads"),
)


def busy_s(spans: Sequence[Span], *kinds: Kind) -> float:
    """Seconds of all spans of these kinds."""
    return sum(span.end_s - span.start_s for span in spans if span.kind in kinds)


def timeline_figure(spans: Sequence[Span], deadline_s: float | None) -> Svg:
    """Both lanes, the axis in seconds, the deadline where there is one."""
    end_s = max((span.end_s for span in spans), default=0.0)
    shown_s = max(end_s, deadline_s or 0.0) if (deadline_s or 0.0) < 2.5 * end_s else end_s
    scale = (WIDTH - LEFT - RIGHT) / (shown_s or 1.0)
    height = _TOP + 2 * (_LANE + _SPACE) + 38
    svg = Svg(WIDTH, height, "CPU and SD bus over time")
    legend(svg, LEFT, 10, _KEYS)
    _axis(svg, shown_s, scale, height)
    for lane, y in ((Lane.CPU, _TOP), (Lane.BUS, _TOP + _LANE + _SPACE)):
        svg.text(LEFT - 10, y + _LANE / 2, lane.value, "middle", anchor="end")
        svg.line(LEFT, y + _LANE, WIDTH - RIGHT, y + _LANE, "rule")
        for span in sorted(spans, key=lambda span: (span.start_s, span.action)):
            if span.lane is lane:
                _draw(svg, span, y, scale)
    if deadline_s is not None and deadline_s <= shown_s:
        x = LEFT + deadline_s * scale
        svg.line(x, _TOP - 8, x, height - 34, "budget")
        svg.text(x - 4, _TOP - 3, f"deadline {format_si(deadline_s, 's')}", "alarm", anchor="end")
    return svg


def _draw(svg: Svg, span: Span, y: float, scale: float) -> None:
    x, width = LEFT + span.start_s * scale, (span.end_s - span.start_s) * scale
    word = {Kind.STALL: "waits for"}.get(span.kind, span.kind.value)
    title = (
        f"action {span.action}: {word} {span.name}, {format_si(span.end_s - span.start_s, 's')}, "
        f"from {format_si(span.start_s, 's')}"
    )
    for css in _LAYERS[span.kind]:
        svg.rect(x, y, width, _LANE, css if width < 3 else f"{css} gap", title)
    letters = int((width - 8) / 6.2)
    if letters >= 4 and span.kind is not Kind.STALL:
        first = _LAYERS[span.kind][0]
        name, css = shorten(span.name, letters), f"on-{first} middle quiet"
        svg.text(x + width / 2, y + _LANE / 2, name, css, anchor="middle", size=10)


def _axis(svg: Svg, shown_s: float, scale: float, height: float) -> None:
    factor, prefix = scaled(shown_s)
    for tick in ticks(shown_s / factor, 10):
        x = LEFT + tick * factor * scale
        svg.line(x, _TOP - 4, x, height - 34, "rule")
        svg.text(x, height - 20, f"{tick:g}", "muted", anchor="middle")
    svg.text(WIDTH - RIGHT, height - 6, f"time in {prefix}s", "muted", anchor="end")
