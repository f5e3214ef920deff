"""Slots and touches: the places where the integer program may decide something.

Steps are the ops with a start step (which writes what is resident when the step begins) in front
and an end step (which reads what must be resident when it ends) behind. A slot is one possible
run of a step: at stage t the optional slots (t, k) of its recompute candidates k < t, ascending,
then the base slot (t, t). A touch of a tensor is a slot whose step reads or writes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from poet_mcu.errors import InternalError
from poet_mcu.schedule.problem import Problem, Tensor


@dataclass(frozen=True, slots=True)
class Step:
    """One op, or the start or the end of the step; tensors are positions, not ids."""

    name: str
    op_id: int | None
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    compute_s: float
    compute_j: float
    workspace_bytes: int
    recomputable: bool
    backward: bool
    in_place: tuple[tuple[int, int], ...]
    mutates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Steps:
    """Start, ops, end; ``tensors[i]`` is the tensor at position i."""

    tensors: tuple[Tensor, ...]
    steps: tuple[Step, ...]

    @property
    def end(self) -> int:
        """Index of the end step."""
        return len(self.steps) - 1

    def producers(self) -> dict[int, int]:
        """Tensor position -> index of the step that writes it first.

        The start step for what is on the card when the step begins.
        """
        found = {i: 0 for i, tensor in enumerate(self.tensors) if tensor.at_start_paged}
        return found | {i: k for k, step in enumerate(self.steps) for i in step.writes}

    def changed_before(self, stage: int) -> set[int]:
        """Tensors that hold another content at ``stage`` than when they were first read."""
        return {i for step in self.steps[:stage] for i in step.mutates}

    def first_reads(self) -> dict[int, set[int]]:
        """Step -> the tensors that it has to read from the card, being the first to read them."""
        found: dict[int, set[int]] = {}
        for i, reads in enumerate(self.base_reads()):
            if self.tensors[i].at_start_paged and reads:
                found.setdefault(reads[0], set()).add(i)
        return found

    def base_reads(self) -> list[list[int]]:
        """For each tensor position the steps that read it, ascending."""
        reads: list[list[int]] = [[] for _ in self.tensors]
        for k, step in enumerate(self.steps):
            for i in step.reads:
                reads[i].append(k)
        return reads


@dataclass(frozen=True, slots=True)
class Slot:
    """A possible run of ``step`` before (or, when both are equal, as) base step ``stage``."""

    stage: int
    step: int

    @property
    def base(self) -> bool:
        """Whether the slot always runs."""
        return self.stage == self.step


@dataclass(frozen=True, slots=True)
class Touch:
    """Slot ``slot`` reads (or else writes) a tensor."""

    slot: int
    read: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """All slots in order, and for each tensor position its touches up to the last read."""

    steps: Steps
    slots: tuple[Slot, ...]
    touches: tuple[tuple[Touch, ...], ...]

    @property
    def optional(self) -> list[Slot]:
        """The slots that a plan need not run, in order."""
        return [slot for slot in self.slots if not slot.base]


def expand(problem: Problem) -> Steps:
    """Steps of the problem. Raises InternalError when it is not well formed."""
    position = {tensor.id: i for i, tensor in enumerate(problem.tensors)}
    at_start = tuple(i for i, t in enumerate(problem.tensors) if t.at_start)
    at_end = tuple(i for i, t in enumerate(problem.tensors) if t.at_end)
    steps = [Step("start", None, (), at_start, 0.0, 0.0, 0, False, False, ())]
    for op in problem.ops:
        _check_ids(problem, op.name, (*op.inputs, *op.outputs), position)
        pairs = tuple((position[out], position[taken]) for out, taken in op.in_place)
        steps.append(
            Step(
                op.name,
                op.id,
                tuple(position[i] for i in op.inputs),
                tuple(position[i] for i in op.outputs),
                op.compute_s,
                op.compute_j,
                op.workspace_bytes,
                op.recomputable,
                op.backward,
                pairs,
                tuple(position[i] for i in op.mutates),
            )
        )
    steps.append(Step("end", None, at_end, (), 0.0, 0.0, 0, False, True, ()))
    expanded = Steps(problem.tensors, tuple(steps))
    _check_order(problem, expanded)
    return expanded


def _check_ids(problem: Problem, name: str, ids: tuple[int, ...], position: dict[int, int]) -> None:
    unknown = [i for i in ids if i not in position]
    if unknown or len(set(ids)) != len(ids):
        raise InternalError(
            f"{problem.name}: {name}: expected known tensors, each once, got {ids}; "
            "this is a bug in the maker of the problem"
        )


def _check_order(problem: Problem, expanded: Steps) -> None:
    written = {i for i, tensor in enumerate(expanded.tensors) if tensor.at_start_paged}
    stale: set[int] = set()

    def require(holds: bool, step: Step, i: int, expected: str, got: str) -> None:
        if not holds:
            raise InternalError(
                f"{problem.name}: {step.name}: expected {expected} {expanded.tensors[i].name}, "
                f"got {got}; this is a bug in the maker of the problem"
            )

    for step in expanded.steps:
        for i in step.reads:
            require(i in written, step, i, "a producer before the read of", "no producer")
            require(i not in stale, step, i, "no read behind the update of", "one")
        for i in step.writes:
            require(i not in written, step, i, "one producer of", "two")
            written.add(i)
        for i in step.mutates:
            home = expanded.tensors[i].at_start_paged and i in step.reads
            require(home and not step.recomputable, step, i, "one run that updates its input", "no")
            stale.add(i)


def candidates(expanded: Steps, stage: int) -> list[int]:
    """Steps worth running again just before base step ``stage``, ascending.

    Those whose tensor a base step >= stage reads, and their recomputable ancestors; none that
    reads what an update has changed by then.
    """
    producers, reads = expanded.producers(), expanded.base_reads()
    changed = expanded.changed_before(stage)
    found: set[int] = set()
    stack = [
        producers[i] for i, steps in enumerate(reads) if steps and steps[-1] >= stage > producers[i]
    ]
    while stack:
        k = stack.pop()
        step = expanded.steps[k]
        if k in found or not step.recomputable or changed.intersection(step.reads):
            continue
        found.add(k)
        stack.extend(producers[i] for i in step.reads)
    return sorted(found)


def layout(problem: Problem, *, remat: bool, forward: bool, rounds: int = 1) -> Layout:
    """Slots and touches. ``forward``: recompute candidates also before the first backward op.

    With ``rounds`` 2 the candidates of a stage may run twice, so that any order of recomputes
    within a stage that has at most one descent is a choice.
    """
    expanded = expand(problem)
    backward = [k for k, step in enumerate(expanded.steps) if step.backward]
    first = 1 if forward else backward[0]
    slots: list[Slot] = []
    for stage in range(len(expanded.steps)):
        if remat and stage >= first:
            again = candidates(expanded, stage)
            slots.extend(Slot(stage, k) for _ in range(rounds) for k in again)
        slots.append(Slot(stage, stage))
    return Layout(expanded, tuple(slots), touches_of(expanded, slots))


def touches_of(expanded: Steps, slots: list[Slot]) -> tuple[tuple[Touch, ...], ...]:
    """For each tensor position its touches in ``slots``, up to the last read."""
    touches: list[list[Touch]] = [
        [Touch(0, read=False)] if tensor.at_start_paged else [] for tensor in expanded.tensors
    ]
    for s, slot in enumerate(slots):
        step = expanded.steps[slot.step]
        for i in step.reads:
            touches[i].append(Touch(s, read=True))
        for i in step.writes:
            touches[i].append(Touch(s, read=False))
    for each in touches:
        while len(each) > 1 and not each[-1].read:
            each.pop()
    return tuple(tuple(each) for each in touches)
