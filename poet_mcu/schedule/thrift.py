"""Plans like a given one with one page-in or one recompute less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from poet_mcu.errors import InternalError
from poet_mcu.ir.schedule import Schedule
from poet_mcu.schedule.decode import Decisions, decode
from poet_mcu.schedule.executor import fits, simulate
from poet_mcu.schedule.options import SolveOptions
from poet_mcu.schedule.planner import full_layout
from poet_mcu.schedule.problem import Problem
from poet_mcu.schedule.start import decisions_of
from poet_mcu.schedule.touch import Layout


def thriftier(problem: Problem, schedule: Schedule, options: SolveOptions) -> Iterator[Schedule]:
    """Valid plans that need less energy than ``schedule``, dearest omission first.

    What is left out is held in memory instead.
    """
    slots, _ = full_layout(problem, options)
    decisions = decisions_of(slots, schedule)
    if decisions is None:
        return
    energy_j = simulate(problem, schedule).energy_j
    for fewer in _without_one(slots, decisions):
        try:
            plan = decode(slots, fewer)
        except InternalError:
            continue  # a value whose home is the card comes from nowhere else
        metrics = simulate(problem, plan)
        if fits(problem, metrics) and metrics.energy_j < energy_j:
            yield plan


def _without_one(slots: Layout, decisions: Decisions) -> Iterator[Decisions]:
    tensors, steps = slots.steps.tensors, slots.steps.steps
    costs: list[tuple[float, Decisions]] = []
    for key in sorted(decisions.page_in):
        fewer = replace(decisions, page_in=decisions.page_in - {key})
        costs.append((tensors[key[0]].page_in_j, fewer))
    for s in sorted(decisions.recompute):
        fewer = replace(decisions, recompute=decisions.recompute - {s})
        costs.append((steps[slots.slots[s].step].compute_j, fewer))
    for _, fewer in sorted(costs, key=lambda each: -each[0]):
        yield fewer
