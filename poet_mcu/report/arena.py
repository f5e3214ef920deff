"""The arena over the actions of a step: one rectangle a slot, at its addresses."""

from __future__ import annotations

from poet_mcu.ir.graph import Graph, Role
from poet_mcu.ir.placement import Placement, Slot
from poet_mcu.report.axis import Key, byte_ticks, bytes_label, index_ticks, legend
from poet_mcu.report.svg import Svg, shorten

WIDTH, HEIGHT = 1100.0, 440.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 20.0, 40.0, 46.0
_CSS = {
    Role.INPUT: "given",
    Role.LABEL: "given",
    Role.PARAMETER: "param",
    Role.CONSTANT: "param",
    Role.STATE: "param",
    Role.STATISTIC: "param",
    Role.ACTIVATION: "value",
    Role.GRADIENT: "gradient",
    Role.LOSS: "loss",
}
_KEYS: tuple[Key, ...] = (
    ("given", "", "", "input, label"),
    ("value", "", "", "activation"),
    ("gradient", "", "", "gradient"),
    ("loss", "", "", "loss"),
    ("param", "dots", "", "parameter, optimizer state"),
    ("work", "hatch", "", "workspace"),
)


class _Map:
    """The scales of one drawing."""

    def __init__(self, placement: Placement, actions: int) -> None:
        self.step = (WIDTH - LEFT - RIGHT) / max(1, actions)
        self.height = (HEIGHT - TOP - BOTTOM) / max(1, placement.arena_bytes)

    def box(self, first: int, last: int, offset: int, nbytes: int) -> tuple[float, ...]:
        """x, y, width, height."""
        y = HEIGHT - BOTTOM - (offset + nbytes) * self.height
        return LEFT + first * self.step, y, (last - first) * self.step, nbytes * self.height


def arena_figure(graph: Graph, placement: Placement, actions: int) -> Svg:
    """Address 0 at the bottom; ``actions`` is the number of the schedule's actions."""
    scales = _Map(placement, actions)
    svg = Svg(WIDTH, HEIGHT, "the arena over the actions of a step")
    legend(svg, LEFT, 10, _KEYS)
    for tick in byte_ticks(placement.arena_bytes):
        y = HEIGHT - BOTTOM - tick * scales.height
        svg.line(LEFT, y, WIDTH - RIGHT, y, "rule")
        svg.text(LEFT - 8, y, bytes_label(tick), "middle muted", anchor="end")
    for part in placement.parts:
        if part.end < placement.arena_bytes:
            y = HEIGHT - BOTTOM - part.end * scales.height
            svg.line(LEFT, y, WIDTH - RIGHT, y, "budget")
            svg.text(WIDTH - RIGHT, y + 8, f"{part.name} below", "muted", anchor="end")
    for action in index_ticks(actions):
        x = LEFT + (action + 0.5) * scales.step
        svg.text(x, HEIGHT - BOTTOM + 16, str(action), "muted", anchor="middle")
    for slot in sorted(placement.slots, key=lambda s: (s.first, s.offset)):
        _slot(svg, graph, slot, scales)
    for scratch in placement.scratch:
        x, y, width, height = scales.box(
            scratch.action, scratch.action + 1, scratch.offset, scratch.nbytes
        )
        title = f"workspace, action {scratch.action}, "
        title += _range(scratch.offset, scratch.nbytes)
        svg.rect(x, y, width, height, "work box")
        svg.rect(x, y, width, height, "hatch", title)
    svg.text(WIDTH - RIGHT, HEIGHT - 8, "action of the schedule", "muted", anchor="end")
    return svg


def _range(offset: int, nbytes: int) -> str:
    return f"{nbytes} bytes at [{offset}, {offset + nbytes})"


def _slot(svg: Svg, graph: Graph, slot: Slot, scales: _Map) -> None:
    x, y, width, height = scales.box(slot.first, slot.last, slot.offset, slot.nbytes)
    value = graph.values[slot.value]
    title = (
        f"{value.name} ({value.role.value}): {_range(slot.offset, slot.nbytes)}, actions "
        f"{slot.first} to {slot.last - 1}"
    )
    css = _CSS[value.role]
    svg.rect(x, y, width, height, f"{css} box", title)
    if css == "param":
        svg.rect(x, y, width, height, "dots", title)
    letters = int((width - 8) / 5.8)
    if height >= 11 and letters >= 3:
        svg.text(x + 4, y + height / 2, shorten(value.name, letters), "middle quiet", size=10)
