"""What happens in a step, action by action: for drawing. Problem and schedule are all it needs.

A stage is the base run of one op, in the order of the problem, with the page-ins and recomputes
that prepare it and the page-outs and frees that follow it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from poet_mcu.ir.schedule import Action, ActionKind, Schedule
from poet_mcu.schedule.problem import Problem, Tensor


class State(enum.Enum):
    """What a stage does with a value; the value is the letter that the pictures show."""

    PAGED_IN = "I"
    COMPUTED = "C"
    RECOMPUTED = "R"
    PAGED_OUT = "O"


class Kind(enum.Enum):
    """What a lane is busy with."""

    COMPUTE = "compute"
    RECOMPUTE = "recompute"
    STALL = "stall"
    READ = "read"
    WRITE = "write"


class Lane(enum.Enum):
    """What can be busy at the same time."""

    CPU = "CPU"
    BUS = "SD bus"


@dataclass(frozen=True, slots=True)
class Span:
    """A lane busy in [start_s, end_s) because of the action ``action``."""

    lane: Lane
    kind: Kind
    start_s: float
    end_s: float
    name: str
    action: int


@dataclass(frozen=True, slots=True)
class Moment:
    """One action. ``resident``: ids of the tensors that occupy RAM during it.

    ``values_bytes`` counts them as the planner does: an in-place pair once.
    """

    index: int
    action: Action
    stage: int
    name: str
    values_bytes: int
    workspace_bytes: int
    resident: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """A state that a stage gave a value, by which action."""

    state: State
    action: int


@dataclass(frozen=True, slots=True)
class OpEnergy:
    """Joules of a stage: its op, what was computed again for it, the transfers around it."""

    name: str
    compute_j: float
    recompute_j: float
    read_j: float
    write_j: float

    @property
    def total_j(self) -> float:
        """All of it."""
        return self.compute_j + self.recompute_j + self.read_j + self.write_j


@dataclass(frozen=True, slots=True)
class Trace:
    """``events[stage, tensor id]``, ``held[tensor id]``: the stages in which it is in RAM.

    ``on_card[tensor id]``: stages in which the value is on the card only, and will be read again.
    """

    moments: tuple[Moment, ...]
    spans: tuple[Span, ...]
    events: dict[tuple[int, int], tuple[Event, ...]]
    held: dict[int, tuple[int, ...]]
    on_card: dict[int, tuple[int, ...]]
    energies: tuple[OpEnergy, ...]

    @property
    def end_s(self) -> float:
        """When everything is done."""
        return max((span.end_s for span in self.spans), default=0.0)


@dataclass(slots=True)
class _Recorder:
    """Walks the actions. Transfers hold the CPU: each is a span of both lanes."""

    problem: Problem
    tensors: dict[int, Tensor]
    now_s: float = 0.0
    stage: int = -1
    closed: bool = True
    resident: dict[int, None] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    events: dict[tuple[int, int], list[Event]] = field(default_factory=dict)
    held: dict[int, set[int]] = field(default_factory=dict)
    joules: dict[tuple[int, Kind], float] = field(default_factory=dict)

    def enter(self, action: Action) -> None:
        """Open the next stage with the first action that prepares or runs its op."""
        prepares = action.kind in (ActionKind.PAGE_IN, ActionKind.COMPUTE)
        last = len(self.problem.ops) - 1
        if self.stage < 0 or (self.closed and prepares and self.stage < last):
            self.stage += 1
            self.closed = False
        if action.kind is ActionKind.COMPUTE and not action.recompute:
            self.closed = True

    def hold(self) -> None:
        for i in self.resident:
            self.held[i].add(self.stage)

    def note(self, tensor: int, state: State, index: int) -> None:
        self.events.setdefault((self.stage, tensor), []).append(Event(state, index))

    def spend(self, lane: Lane, kind: Kind, seconds: float, name: str, index: int) -> None:
        span = Span(lane, kind, self.now_s, self.now_s + seconds, name, index)
        self.spans.append(span)

    def charge(self, kind: Kind, joules: float) -> None:
        key = self.stage, kind
        self.joules[key] = self.joules.get(key, 0.0) + joules

    def compute(self, index: int, action: Action) -> Moment:
        op = next(op for op in self.problem.ops if op.id == action.subject)
        before = sum(self.tensors[i].nbytes for i in self.resident)
        saved = sum(
            min(self.tensors[out].nbytes, self.tensors[taken].nbytes)
            for out, taken in action.in_place
        )
        outputs = sum(self.tensors[i].nbytes for i in op.outputs)
        self.resident |= dict.fromkeys(op.outputs)
        self.hold()
        during = tuple(self.resident)
        for _, taken in action.in_place:
            del self.resident[taken]
        state = State.RECOMPUTED if action.recompute else State.COMPUTED
        kind = Kind.RECOMPUTE if action.recompute else Kind.COMPUTE
        for i in op.outputs:
            self.note(i, state, index)
        self.spend(Lane.CPU, kind, op.compute_s, op.name, index)
        self.charge(kind, op.compute_j)
        self.now_s += op.compute_s
        name = f"{op.name} again" if action.recompute else op.name
        used = before + outputs - saved
        return Moment(index, action, self.stage, name, used, op.workspace_bytes, during)

    def transfer(self, index: int, action: Action) -> None:
        tensor = self.tensors[action.subject]
        if action.kind is ActionKind.PAGE_IN:
            self.resident[tensor.id] = None
            state, kind = State.PAGED_IN, Kind.READ
            seconds, joules = tensor.page_in_s, tensor.page_in_j
        else:
            state, kind = State.PAGED_OUT, Kind.WRITE
            seconds, joules = tensor.page_out_s, tensor.page_out_j
        self.note(tensor.id, state, index)
        self.spend(Lane.BUS, kind, seconds, tensor.name, index)
        self.spend(Lane.CPU, Kind.STALL, seconds, tensor.name, index)
        self.charge(kind, joules)
        self.now_s += seconds

    def run(self, index: int, action: Action) -> None:
        self.enter(action)
        if action.kind is ActionKind.COMPUTE:
            self.moments.append(self.compute(index, action))
            return
        tensor = self.tensors[action.subject]
        if action.kind in (ActionKind.PAGE_IN, ActionKind.PAGE_OUT):
            self.transfer(index, action)
        self.hold()
        used = sum(self.tensors[i].nbytes for i in self.resident)
        during = tuple(self.resident)
        name = f"{action.kind.value.replace('_', ' ')} {tensor.name}"
        self.moments.append(Moment(index, action, self.stage, name, used, 0, during))
        if action.kind is ActionKind.FREE:
            del self.resident[tensor.id]


def trace(problem: Problem, schedule: Schedule) -> Trace:
    """The trace of a valid schedule (``schedule.simulate`` checks validity)."""
    recorder = _Recorder(problem, {t.id: t for t in problem.tensors})
    recorder.held = {t.id: set() for t in problem.tensors}
    recorder.resident = {t.id: None for t in problem.tensors if t.at_start}
    for index, action in enumerate(schedule.actions):
        recorder.run(index, action)
    return Trace(
        tuple(recorder.moments),
        tuple(recorder.spans),
        {key: tuple(found) for key, found in recorder.events.items()},
        {i: tuple(sorted(stages)) for i, stages in recorder.held.items()},
        _on_card(recorder),
        tuple(_energy(recorder, stage, op.name) for stage, op in enumerate(problem.ops)),
    )


def _on_card(recorder: _Recorder) -> dict[int, tuple[int, ...]]:
    found = {}
    for i, held in recorder.held.items():
        moves: dict[State, list[int]] = {State.PAGED_OUT: [], State.PAGED_IN: []}
        for (stage, tensor), events in recorder.events.items():
            for event in events:
                if tensor == i and event.state in moves:
                    moves[event.state].append(stage)
        if moves[State.PAGED_OUT] and moves[State.PAGED_IN]:
            between = range(min(moves[State.PAGED_OUT]), max(moves[State.PAGED_IN]))
            found[i] = tuple(stage for stage in between if stage not in held)
    return found


def _energy(recorder: _Recorder, stage: int, name: str) -> OpEnergy:
    kinds = (Kind.COMPUTE, Kind.RECOMPUTE, Kind.READ, Kind.WRITE)
    return OpEnergy(name, *(recorder.joules.get((stage, kind), 0.0) for kind in kinds))
