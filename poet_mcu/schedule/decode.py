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
    recompute it). A tensor with a page-in is written to the card right after its first production.
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
            actions += _free(expanded, sorted(dying - taken))
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
