"""Neighbourhoods for graphs too large for plain branch and bound.

A neighbourhood is a layout of fewer optional slots: its integer program is small, since a slot that
is not there has no columns. RENS (relaxation enforced neighbourhood search, Berthold 2014) also
fixes what the LP relaxation leaves integral; RINS (Danna, Rothberg, Le Pape 2005) fixes where the
LP and the best plan agree. All of them give plans only; bounds come from the LP over all slots and
from the full program.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from poet_mcu.ir.schedule import Schedule
from poet_mcu.schedule.ilp import Formulation
from poet_mcu.schedule.start import decisions_of
from poet_mcu.schedule.touch import Layout, Slot, Steps, candidates, touches_of

#: how far from an integer a column of the LP may be and still count as integral
INTEGRAL = 1e-6
#: fraction of the golden section: its multiples spread evenly over [0, 1)
GOLDEN = 0.6180339887498949


def _decided(form: Formulation) -> list[str]:
    groups = (form.R, form.z, form.p, form.h)
    return [var.name for group in groups for var in group.values()]


def rens(form: Formulation, lp: Mapping[str, float]) -> dict[str, float]:
    """Columns that the relaxation leaves integral, at their values."""
    fixed: dict[str, float] = {}
    for name in _decided(form):
        nearest = float(round(lp[name]))
        if abs(lp[name] - nearest) <= INTEGRAL:
            fixed[name] = nearest
    return fixed


def rins(form: Formulation, lp: Mapping[str, float], best: Mapping[str, float]) -> dict[str, float]:
    """Columns on which the relaxation and the best plan agree."""
    return {
        name: best[name]
        for name in _decided(form)
        if name in best and abs(lp[name] - best[name]) <= INTEGRAL
    }


def restrict(slots: Layout, chosen: Collection[Slot]) -> Layout:
    """``slots`` without the optional ones that are not ``chosen``."""
    kept = [slot for slot in slots.slots if slot.base or slot in chosen]
    return Layout(slots.steps, tuple(kept), touches_of(slots.steps, kept))


def affordable(slots: Layout, most_j: float, most_s: float) -> Layout:
    """``slots`` without the runs that cost more joules or seconds than a plan may have above base.

    A plan that beats the best one has none of them, nor those that would only lead to one.
    """
    cheap = tuple(
        replace(step, recomputable=step.recomputable and step.compute_j <= most_j
                and step.compute_s <= most_s)
        for step in slots.steps.steps
    )  # fmt: skip
    steps = Steps(slots.steps.tensors, cheap)
    stages = {slot.stage for slot in slots.optional}
    worth = {Slot(stage, k) for stage in stages for k in candidates(steps, stage)}
    return restrict(slots, worth)


def support(slots: Layout, form: Formulation, lp: Mapping[str, float]) -> set[Slot]:
    """Optional slots that the relaxation runs, be it in part."""
    return {slots.slots[s] for s, var in form.R.items() if lp[var.name] > INTEGRAL}


def used(slots: Layout, schedule: Schedule | None) -> set[Slot]:
    """Optional slots that ``schedule`` runs; none when it needs others than there are."""
    decisions = None if schedule is None else decisions_of(slots, schedule)
    return set() if decisions is None else {slots.slots[s] for s in decisions.recompute}


def latest(slots: Layout, depth: int) -> set[Slot]:
    """At each stage the ``depth`` last candidates, those nearest to what the stage reads."""
    found: set[Slot] = set()
    behind = 0
    for slot in reversed(slots.slots):
        behind = 0 if slot.base else behind + 1
        if 0 < behind <= depth:
            found.add(slot)
    return found


def window(slots: Layout, number: int, count: int) -> set[Slot]:
    """About ``count`` optional slots, all of neighbouring stages.

    Windows of successive ``number`` spread evenly over the stages; the last ones are shorter.
    """
    optional = slots.optional
    first = 0 if count >= len(optional) else int(number * GOLDEN % 1.0 * len(optional))
    stages = {slot.stage for slot in optional[first : first + count]}
    return {slot for slot in optional if slot.stage in stages}
