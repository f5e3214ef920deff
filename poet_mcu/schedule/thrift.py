"""A plan with less page-ins and recomputes than a given one."""

from __future__ import annotations

from collections.abc import Callable

from poet_mcu.errors import InternalError
from poet_mcu.ir.schedule import Schedule
from poet_mcu.schedule.decode import Decisions, decode
from poet_mcu.schedule.executor import fits, simulate
from poet_mcu.schedule.options import SolveOptions
from poet_mcu.schedule.planner import full_layout
from poet_mcu.schedule.problem import Problem
from poet_mcu.schedule.start import decisions_of
from poet_mcu.schedule.touch import Layout


def thrifty(
    problem: Problem,
    schedule: Schedule,
    options: SolveOptions,
    keep: Callable[[Schedule], bool],
) -> None:
    """Leaves page-ins and recomputes out of ``schedule``, dearest first, where ``keep`` agrees.

    ``keep`` is asked for valid plans within budget and deadline that need less energy than the one
    it agreed to last. What is left out is held in memory instead.
    """
    slots, _ = full_layout(problem, options)
    decisions = decisions_of(slots, schedule)
    if decisions is None:
        return
    energy_j = simulate(problem, schedule).energy_j
    for omission in _dearest(slots, decisions):
        fewer = Decisions(
            decisions.recompute - omission.recompute, decisions.page_in - omission.page_in
        )
        try:
            plan = decode(slots, fewer)
        except InternalError:
            continue  # a value whose home is the card comes from nowhere else
        metrics = simulate(problem, plan)
        if metrics.energy_j < energy_j and fits(problem, metrics) and keep(plan):
            decisions, energy_j = fewer, metrics.energy_j


def _dearest(slots: Layout, decisions: Decisions) -> list[Decisions]:
    """Each page-in and each recompute alone, by its joules."""
    tensors, steps = slots.steps.tensors, slots.steps.steps
    costs: list[tuple[float, Decisions]] = []
    for i, s in sorted(decisions.page_in):
        costs.append((tensors[i].page_in_j, Decisions(frozenset(), frozenset({(i, s)}))))
    for s in sorted(decisions.recompute):
        joules = steps[slots.slots[s].step].compute_j
        costs.append((joules, Decisions(frozenset({s}), frozenset())))
    return [alone for _, alone in sorted(costs, key=lambda each: -each[0])]
