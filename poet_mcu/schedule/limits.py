"""The smallest budget and the shortest deadline for which a plan exists."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from poet_mcu.errors import Infeasible
from poet_mcu.ir.schedule import Schedule
from poet_mcu.schedule.backend import Backend, Limits, SolveStatus
from poet_mcu.schedule.bounds import largest_working_set
from poet_mcu.schedule.decode import decode, prune, visits_of
from poet_mcu.schedule.executor import TIME_SLACK, Metrics, fits, simulate
from poet_mcu.schedule.goals import Goal, Switches
from poet_mcu.schedule.ilp import Formulation, formulate
from poet_mcu.schedule.options import SolveOptions
from poet_mcu.schedule.planner import (
    BACKENDS,
    feasible_baselines,
    full_layout,
    proven_infeasible,
)
from poet_mcu.schedule.problem import Problem
from poet_mcu.schedule.search_bus import fastest
from poet_mcu.schedule.start import start_of
from poet_mcu.schedule.touch import Layout


@dataclass(frozen=True, slots=True)
class MinimumMemory:
    """``bytes`` has a plan, fewer than ``proven_bytes`` has none; equal when proven smallest.

    ``op_name`` is the op with the largest working set; ``schedule`` is a plan of ``bytes``, not
    of least energy.
    """

    bytes: int
    proven_bytes: int
    op_name: str
    schedule: Schedule


def minimum_memory(
    problem: Problem, options: SolveOptions | None = None, *, backend: Backend | None = None
) -> MinimumMemory:
    """The smallest ``memory_bytes`` for which a plan exists that holds the deadline, if any.

    Raises Infeasible when the deadline is shorter than running every op once.
    """
    options = options or SolveOptions()
    began_s = time.monotonic()
    if problem.deadline_s is not None and problem.floor_s > problem.deadline_s * (1 + TIME_SLACK):
        raise Infeasible(
            f"{problem.name}: deadline: expected at least {problem.floor_s:.6g} s, the time of "
            f"every op once, got {problem.deadline_s:.6g} s; allow more time"
        )
    proven, name = largest_working_set(problem, paging=options.paging, remat=options.remat)
    endless = replace(problem, memory_bytes=sum(t.nbytes for t in problem.tensors) * 2 + proven)
    plans = feasible_baselines(endless, options)
    start = min(plans, key=lambda plan: plan.metrics.peak_bytes)
    best, schedule = start.metrics.peak_bytes, start.schedule
    if best <= proven:
        return MinimumMemory(best, proven, name, schedule)
    slots, _ = full_layout(problem, options)
    form = formulate(endless, slots, Switches(options.paging, Goal.MEMORY, floor_bytes=proven))
    grain = problem.grain_bytes
    left_s = options.time_limit_s - (time.monotonic() - began_s)
    limits = Limits(left_s, 0.0, 0.4 * grain * form.scale)
    answer = (backend or BACKENDS[options.solver]).solve(
        form.model, limits, start=_start(endless, options, slots, form)
    )
    if answer.values is not None:
        found = decode(slots, form.decisions(answer.values))
        metrics = simulate(endless, found)
        if fits(endless, metrics) and metrics.peak_bytes < best:
            best, schedule = metrics.peak_bytes, found
    if answer.bound is not None and full_layout(problem, options)[1]:
        # every peak is a multiple of the grain, so a bound just above one proves the next
        bound = form.amount(answer.bound)
        proven = max(proven, math.ceil(bound / grain - 0.45) * grain)
    return MinimumMemory(best, min(proven, best), name, schedule)


def _start(
    problem: Problem, options: SolveOptions, slots: Layout, form: Formulation
) -> dict[str, float] | None:
    plans = feasible_baselines(problem, options)
    for plan in sorted(plans, key=lambda each: each.metrics.peak_bytes):
        point = start_of(slots, form, plan.schedule)
        if point is not None:
            return point
    return None


def shortest_deadline(
    problem: Problem, options: SolveOptions | None = None, *, backend: Backend | None = None
) -> float | None:
    """Seconds of the fastest plan found within ``memory_bytes``; None when none was found.

    Proven shortest unless the solver stops at its limit or transfers overlap compute (then what
    runs again was chosen by a relaxation). ``problem.deadline_s`` is not used.
    """
    options = options or SolveOptions()
    patient = replace(problem, deadline_s=None)
    if proven_infeasible(patient, options):
        return None
    plans = feasible_baselines(patient, options)
    best: Metrics | None = min((p.metrics for p in plans), key=lambda m: m.time_s, default=None)
    if best is not None and best.time_s <= problem.floor_s * (1 + 1e-12):
        return best.time_s
    slots, _ = full_layout(problem, options)
    form = formulate(patient, slots, Switches(options.paging, Goal.TIME))
    answer = (backend or BACKENDS[options.solver]).solve(
        form.model,
        Limits(options.time_limit_s),
        start=_start(patient, options, slots, form),
    )
    if answer.status is SolveStatus.INFEASIBLE:
        return None
    if answer.values is not None:
        schedule = _fast_plan(patient, slots, form, answer.values, options, backend)
        metrics = simulate(patient, schedule)
        if fits(patient, metrics) and (best is None or metrics.time_s < best.time_s):
            best = metrics
    return None if best is None else best.time_s


def _fast_plan(
    problem: Problem,
    slots: Layout,
    form: Formulation,
    values: Mapping[str, float],
    options: SolveOptions,
    backend: Backend | None,
) -> Schedule:
    """The solver's plan; with overlap its transfers placed for the least time."""
    decisions = form.decisions(values)
    if problem.overlap:
        visits = prune(slots.steps, visits_of(slots, decisions))
        limits = Limits(options.time_limit_s)
        solver = backend or BACKENDS[options.solver]
        found = fastest(problem, slots, visits, solver, limits, paging=options.paging)
        if found is not None:
            return found
    return decode(slots, decisions)
