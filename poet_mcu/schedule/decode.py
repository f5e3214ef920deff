"""Decisions to actions: which steps run again, what comes back from the card -> Schedule.

Residency is not taken from the solver: a tensor is held from a visit to the next one that reads
it without a page-in, and never longer. So any rounding of the solver's numbers gives a valid or
an impossible plan, never a subtly wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from poet_mcu.errors import InternalError
from poet_mcu.ir.schedule import Action, ActionKind, Schedule
from poet_mcu.schedule.touch import Layout, Step, Steps


@dataclass(frozen=True, slots=True)
class Decisions:
    """Optional slots that run, and the (tensor position, slot) pairs read from the card."""

    recompute: frozenset[int]
    page_in: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Visit:
    """One run of a step; ``page_in`` are the tensors read from the card just before it."""

    step: int
    page_in: frozenset[int]
    optional: bool


def visits_of(layout: Layout, decisions: Decisions) -> list[Visit]:
    """The runs that ``decisions`` ask for, in order."""
    paged: dict[int, set[int]] = {}
    for i, s in decisions.page_in:
        paged.setdefault(s, set()).add(i)
    return [
        Visit(slot.step, frozenset(paged.get(s, ())), optional=not slot.base)
        for s, slot in enumerate(layout.slots)
        if slot.base or s in decisions.recompute
    ]


def prune(expanded: Steps, visits: Sequence[Visit]) -> list[Visit]:
    """``visits`` without runs whose outputs nobody reads before the next run or page-in.

    A page-in of a dropped run moves to the next visit that counts on it.
    """
    reader: dict[int, int] = {}  # tensor -> the next kept visit that reads it from memory
    kept: list[Visit] = []
    for visit in reversed(visits):
        step = expanded.steps[visit.step]
        if visit.optional and not any(i in reader for i in step.writes):
            for i in sorted(visit.page_in.intersection(reader)):
                later = reader.pop(i)
                kept[later] = replace(kept[later], page_in=kept[later].page_in | {i})
            continue
        for i in (*step.writes, *visit.page_in):
            reader.pop(i, None)
        reader.update((i, len(kept)) for i in step.reads if i not in visit.page_in)
        kept.append(visit)
    return kept[::-1]


def best_pairs(
    expanded: Steps, pairs: Sequence[tuple[int, int]], dying: set[int]
) -> tuple[tuple[int, int], ...]:
    """The in-place pairs over dying inputs that save most bytes, each buffer in one pair."""
    usable = [pair for pair in pairs if pair[1] in dying]
    best: tuple[int, tuple[tuple[int, int], ...]] = (-1, ())
    for chosen in product((True, False), repeat=len(usable)):
        some = tuple(pair for pair, use in zip(usable, chosen, strict=True) if use)
        if len({o for o, _ in some}) < len(some) or len({i for _, i in some}) < len(some):
            continue
        saved = sum(min(expanded.tensors[o].nbytes, expanded.tensors[i].nbytes) for o, i in some)
        if saved > best[0]:
            best = (saved, some)
    return best[1]


def _kept_after(
    expanded: Steps, visits: Sequence[Visit], hold: Mapping[int, int]
) -> list[set[int]]:
    """For each visit the tensors that stay resident behind it."""
    steps = expanded.steps
    kept: list[set[int]] = [set() for _ in visits]
    last: dict[int, int] = {}
    for v, visit in enumerate(visits):
        for i in steps[visit.step].reads:
            if i not in visit.page_in:
                if i not in last:
                    raise InternalError(
                        f"schedule: {steps[visit.step].name}: expected "
                        f"{expanded.tensors[i].name} produced before, got nothing; "
                        "this is a bug in poet_mcu/schedule"
                    )
                for between in range(last[i], v):
                    kept[between].add(i)
            last[i] = v
        last.update((i, v) for i in steps[visit.step].writes)
        for i, until in hold.items():
            if i in last and visit.step < until:
                kept[v].add(i)
    return kept


def emit(
    expanded: Steps,
    visits: Sequence[Visit],
    *,
    in_place: bool = True,
    hold: Mapping[int, int] | None = None,
) -> Schedule:
    """The actions of ``visits``.

    ``hold`` keeps a tensor at least until the given step has run (only for plans that never
    recompute it). A tensor with a page-in is written to the card right after its first production,
    unless its home is there, and a home that an op has overwritten right after that op.
    Raises InternalError when a read has no source.
    """
    kept = _kept_after(expanded, visits, dict(hold or {}))
    paged = {i for visit in visits for i in visit.page_in}
    actions: list[Action] = []
    seen: set[int] = set()
    resident: set[int] = set()
    for v, visit in enumerate(visits):
        step = expanded.steps[visit.step]
        actions += _transfer(expanded, ActionKind.PAGE_IN, sorted(visit.page_in))
        dying = (resident | visit.page_in) - kept[v]
        resident |= visit.page_in
        if step.op_id is not None:
            pairs = best_pairs(expanded, step.in_place, dying) if in_place else ()
            actions.append(_compute(expanded, step, pairs, recompute=visit.step in seen))
            taken = {i for _, i in pairs}
            updated = sorted(i for i in step.mutates if expanded.tensors[i].at_end_paged)
            actions += _free(expanded, sorted(dying - taken - set(updated)))
            actions += _transfer(expanded, ActionKind.PAGE_OUT, updated)
            actions += _free(expanded, updated)
            resident -= dying
        fresh = () if visit.step in seen else step.writes
        actions += _transfer(expanded, ActionKind.PAGE_OUT, [i for i in fresh if i in paged])
        actions += _free(expanded, [i for i in step.writes if i not in kept[v]])
        resident |= kept[v].intersection(step.writes)
        seen.add(visit.step)
    return Schedule(tuple(actions))


def _compute(
    expanded: Steps, step: Step, pairs: tuple[tuple[int, int], ...], *, recompute: bool
) -> Action:
    if step.op_id is None:
        raise InternalError(f"schedule: {step.name}: expected an op, got none; this is a bug")
    ids = tuple((expanded.tensors[o].id, expanded.tensors[i].id) for o, i in pairs)
    return Action(ActionKind.COMPUTE, step.op_id, ids, recompute)


def _transfer(expanded: Steps, kind: ActionKind, positions: Sequence[int]) -> list[Action]:
    return [
        Action(each, expanded.tensors[i].id) for i in positions for each in (kind, ActionKind.WAIT)
    ]


def _free(expanded: Steps, positions: Sequence[int]) -> list[Action]:
    return [Action(ActionKind.FREE, expanded.tensors[i].id) for i in positions]


def decode(layout: Layout, decisions: Decisions) -> Schedule:
    """The schedule of ``decisions``: useless runs dropped, in place wherever the input dies."""
    return emit(layout.steps, prune(layout.steps, visits_of(layout, decisions)))


@dataclass(frozen=True, slots=True)
class Windows:
    """When transfers run: [first, last), visits that run beside them; first == last waits at once.

    ``ins`` by tensor position and the visit that reads it, ``outs`` by tensor position. A transfer
    starts in front of visit ``first`` and is waited for in front of visit ``last``.
    """

    ins: Mapping[tuple[int, int], tuple[int, int]]
    outs: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Transfer:
    kind: ActionKind
    tensor: int
    first: int
    last: int


def emit_windows(expanded: Steps, visits: Sequence[Visit], windows: Windows) -> Schedule:
    """The actions of ``visits`` with transfers beside them; one transfer is under way at a time.

    Raises InternalError when a read has no source.
    """
    paged = [{i for i, v in windows.ins if v == each} for each in range(len(visits))]
    visits = [replace(visit, page_in=frozenset(paged[v])) for v, visit in enumerate(visits)]
    kept = _kept_after(expanded, visits, {})
    until = _kept_for_transfers(expanded, visits, kept, windows)
    transfers = [_Transfer(ActionKind.PAGE_OUT, i, *w) for i, w in sorted(windows.outs.items())]
    transfers += [_Transfer(ActionKind.PAGE_IN, i, *w) for (i, _), w in sorted(windows.ins.items())]
    actions: list[Action] = []
    seen: set[int] = set()
    resident: set[int] = set()
    for v, visit in enumerate(visits):
        actions += _gap(expanded, transfers, v, kept[v - 1] if v else set(), resident)
        step = expanded.steps[visit.step]
        dying = resident - until[v]
        if step.op_id is not None:
            pairs = best_pairs(expanded, step.in_place, dying)
            actions.append(_compute(expanded, step, pairs, recompute=visit.step in seen))
            actions += _free(expanded, sorted(dying - {i for _, i in pairs}))
            resident -= dying
        actions += _free(expanded, [i for i in step.writes if i not in until[v]])
        resident |= until[v].intersection(step.writes)
        seen.add(visit.step)
    return Schedule(tuple(actions))


def _kept_for_transfers(
    expanded: Steps, visits: Sequence[Visit], kept: Sequence[set[int]], windows: Windows
) -> list[set[int]]:
    """``kept`` and what a transfer holds: a page-out from the last use in front of it."""
    until = [set(some) for some in kept]
    for (i, v), (first, _) in windows.ins.items():
        for between in range(first, v):
            until[between].add(i)
    for i, (first, last) in windows.outs.items():
        steps = [expanded.steps[visit.step] for visit in visits[:first]]
        used = max(v for v, step in enumerate(steps) if i in (*step.reads, *step.writes))
        for between in range(used, last):
            until[between].add(i)
    return until


def _gap(
    expanded: Steps, transfers: Sequence[_Transfer], v: int, kept: set[int], resident: set[int]
) -> list[Action]:
    """Actions in front of visit ``v``: ends, transfers waited for at once, a start."""
    actions: list[Action] = []

    def act(kind: ActionKind, i: int) -> None:
        actions.append(Action(kind, expanded.tensors[i].id))

    def end(transfer: _Transfer) -> None:
        act(ActionKind.WAIT, transfer.tensor)
        if transfer.kind is ActionKind.PAGE_OUT and transfer.tensor not in kept:
            act(ActionKind.FREE, transfer.tensor)
            resident.discard(transfer.tensor)

    def start(transfer: _Transfer) -> None:
        act(transfer.kind, transfer.tensor)
        resident.add(transfer.tensor)

    for transfer in transfers:
        if transfer.first < v == transfer.last:
            end(transfer)
    for transfer in transfers:
        if transfer.first == transfer.last == v:
            start(transfer)
            end(transfer)
    for transfer in transfers:
        if transfer.first == v < transfer.last:
            start(transfer)
    return actions
