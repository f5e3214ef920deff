"""The schedule as figure 2 of POET (arXiv 2207.07697) draws it: stages down, values across."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from poet_mcu.ir.schedule import Schedule
from poet_mcu.report.axis import Key, legend
from poet_mcu.report.svg import Svg, shorten
from poet_mcu.report.trace import Event, State, Trace, trace
from poet_mcu.schedule.problem import Problem, Tensor
from poet_mcu.units import format_bytes

CSS = {
    State.PAGED_IN: "pagein",
    State.COMPUTED: "compute",
    State.RECOMPUTED: "recompute",
    State.PAGED_OUT: "pageout",
}
WORDS = {
    State.PAGED_IN: "paged in",
    State.COMPUTED: "computed",
    State.RECOMPUTED: "recomputed",
    State.PAGED_OUT: "paged out",
}
KEYS: tuple[Key, ...] = (
    ("compute", "", "C", "computed"),
    ("recompute", "", "R", "recomputed"),
    ("held", "", "", "held in RAM"),
    ("pageout", "", "O", "paged out"),
    ("pagein", "", "I", "paged in"),
    ("card", "", "", "on the card only"),
)
_LABEL_CHARS = 30
_TURN = -60.0  # degrees of the column labels


@dataclass(frozen=True, slots=True)
class Grid:
    """The four parts, for a page that keeps rows and columns labelled while it scrolls."""

    corner: Svg
    columns: Svg
    rows: Svg
    body: Svg


class _Grid:
    """One drawing: sizes and the order of the columns."""

    def __init__(self, problem: Problem, traced: Trace) -> None:
        self.problem = problem
        self.traced = traced
        count = max(len(problem.ops), len(problem.tensors))
        self.cell = 26.0 if count <= 24 else 20.0 if count <= 60 else 16.0
        self.tensors = columns_of(problem)
        longest = max((len(shorten(op.name, _LABEL_CHARS)) for op in problem.ops), default=0)
        self.left = 16 + 26 + longest * 6.4
        names = [len(shorten(t.name, _LABEL_CHARS)) for t in self.tensors]
        self.top = 14 + max(names, default=0) * 5.6
        self.right = 8 + max(names, default=0) * 3.4
        self.width = self.cell * len(self.tensors)
        self.height = self.cell * len(problem.ops)

    def columns(self, svg: Svg) -> None:
        for k, tensor in enumerate(self.tensors):
            svg.text(
                (k + 0.6) * self.cell,
                self.top - 6,
                shorten(tensor.name, _LABEL_CHARS),
                turn=_TURN,
                title=f"{tensor.name}, {tensor.nbytes} bytes",
            )

    def rows(self, svg: Svg) -> None:
        for stage, op in enumerate(self.problem.ops):
            y = (stage + 0.5) * self.cell
            svg.text(self.left - 8, y, shorten(op.name, _LABEL_CHARS), "middle", anchor="end",
                     title=self.op_title(stage))  # fmt: skip
            svg.text(18, y, str(stage + 1), "middle muted", anchor="end", size=9)

    def op_title(self, stage: int) -> str:
        op = self.problem.ops[stage]
        names = {t.id: t.name for t in self.problem.tensors}
        reads = ", ".join(names[i] for i in op.inputs) or "nothing"
        return f"stage {stage + 1}: {op.name}, reads {reads}, {op.compute_s:.3g} s"

    def body(self, svg: Svg) -> None:
        for k, tensor in enumerate(self.tensors):
            self.runs(svg, k, tensor)
        for stage in range(len(self.problem.ops) + 1):
            svg.line(0, stage * self.cell, self.width, stage * self.cell, "rule")
        for k in range(len(self.tensors) + 1):
            svg.line(k * self.cell, 0, k * self.cell, self.height, "rule")
        for k, tensor in enumerate(self.tensors):
            for stage in range(len(self.problem.ops)):
                events = self.traced.events.get((stage, tensor.id), ())
                if events:
                    self.events(svg, k, stage, events)
        first = next((k for k, op in enumerate(self.problem.ops) if op.backward), 0)
        if first:
            svg.line(0, first * self.cell, self.width, first * self.cell, "divide")

    def runs(self, svg: Svg, column: int, tensor: Tensor) -> None:
        """One bar for each stretch of stages in which the value stays where it is."""
        x, cell = column * self.cell, self.cell
        for first, last in runs(self.traced.held[tensor.id]):
            title = f"{tensor.name}, {format_bytes(tensor.nbytes)}: in RAM, "
            title += _stages(first, last)
            svg.rect(x, first * cell, cell, (last - first + 1) * cell, "held", title)
        for first, last in runs(self.traced.on_card.get(tensor.id, ())):
            middle = x + cell / 2
            svg.line(middle, first * cell + 2, middle, (last + 1) * cell - 2, "card")
            title = f"{tensor.name}: on the card only, {_stages(first, last)}"
            svg.rect(x, first * cell, cell, (last - first + 1) * cell, "hit", title)

    def events(self, svg: Svg, column: int, stage: int, events: tuple[Event, ...]) -> None:
        """The cell split among what happens to the value in this stage."""
        share = (self.cell - 2) / len(events)
        for k, event in enumerate(events):
            x, y = column * self.cell + 1 + k * share, stage * self.cell + 1
            css = CSS[event.state]
            svg.rect(x, y, share, self.cell - 2, css, self.event_title(column, stage, event))
            size = min(self.cell * 0.55, share * 0.95)
            svg.text(x + share / 2, y + self.cell / 2 - 0.5, event.state.value,
                     f"on-{css} middle strong quiet", anchor="middle", size=size)  # fmt: skip

    def event_title(self, column: int, stage: int, event: Event) -> str:
        tensor = self.tensors[column]
        return (
            f"{tensor.name}, {format_bytes(tensor.nbytes)} ({tensor.nbytes} bytes): "
            f"{WORDS[event.state]}, action {event.action}, "
            f"stage {stage + 1} ({self.problem.ops[stage].name})"
        )


def columns_of(problem: Problem) -> list[Tensor]:
    """The values in the order in which they come to be: given ones first."""
    made = {i: k for k, op in enumerate(problem.ops, 1) for i in reversed(op.outputs)}
    return sorted(problem.tensors, key=lambda t: (made.get(t.id, 0), t.id))


def runs(stages: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """(first, last) of each stretch of consecutive numbers."""
    for _, found in itertools.groupby(enumerate(stages), key=lambda pair: pair[1] - pair[0]):
        stretch = [stage for _, stage in found]
        yield stretch[0], stretch[-1]


def _stages(first: int, last: int) -> str:
    return f"stage {first + 1}" if first == last else f"stages {first + 1} to {last + 1}"


def schedule_parts(problem: Problem, traced: Trace) -> Grid:
    """The drawing in parts, for a scrolling page."""
    grid = _Grid(problem, traced)
    parts = Grid(
        Svg(grid.left, grid.top, "stages down, values across"),
        Svg(grid.width + grid.right, grid.top, "values"),
        Svg(grid.left, grid.height + 1, "stages"),
        Svg(grid.width + grid.right, grid.height + 1, "what each stage does with each value"),
    )
    parts.corner.text(grid.left - 8, grid.top - 6, "stage \\ value", "muted", anchor="end")
    grid.columns(parts.columns)
    grid.rows(parts.rows)
    grid.body(parts.body)
    return parts


def schedule_figure(problem: Problem, schedule: Schedule, title: str) -> Svg:
    """The drawing as one picture with title and legend, from problem and schedule alone."""
    grid = _Grid(problem, trace(problem, schedule))
    wide = legend(Svg(0, 0, ""), 0, 0, KEYS)
    width = max(grid.left + grid.width + grid.right, wide + 32)
    svg = Svg(width, grid.top + grid.height + 84, title)
    svg.text(16, 24, title, "strong", size=14)
    with svg.shifted(grid.left, 36):
        grid.columns(svg)
    with svg.shifted(0, 36 + grid.top):
        grid.rows(svg)
    with svg.shifted(grid.left, 36 + grid.top):
        grid.body(svg)
    legend(svg, 16, 36 + grid.top + grid.height + 20, KEYS)
    return svg
