"""The search over large graphs: neighbourhoods, starts, what its programs leave out."""

import math
from dataclasses import replace

import pulp
import pytest
from test_schedule_oracle import random_problem
from test_schedule_planner import linear

from poet_mcu.schedule import (
    SolveOptions,
    SolveStatus,
    check_budget,
    free_early,
    ilp,
    page_all,
    planner,
    recompute_all,
    search_large,
    simulate,
    solve,
    thrifty,
)
from poet_mcu.schedule.backend import Limits
from poet_mcu.schedule.decode import decode
from poet_mcu.schedule.goals import Switches
from poet_mcu.schedule.highs import Highs
from poet_mcu.schedule.ilp import formulate
from poet_mcu.schedule.improve import affordable, latest, rens, restrict, rins, used, window
from poet_mcu.schedule.start import decisions_of, point_of
from poet_mcu.schedule.touch import layout


@pytest.mark.parametrize("backend", [None, Highs()], ids=["beside", "in turn"])
@pytest.mark.parametrize(
    ("platform", "best"), [("m4", 0.000460715593), ("a72", 0.006599977253)], ids=["m4", "a72"]
)
def test_large_graphs_reach_a_proven_gap(monkeypatch, platform, best, backend):
    """With the full program in a second process, and (with a solver of ours) in turn."""
    monkeypatch.setattr(planner, "EXACT_SLOTS", 0)
    monkeypatch.setattr(planner, "DESCENT_SLOTS", 0)
    told = []
    found = solve(linear(platform, 0.5), SolveOptions(progress=told.append), backend=backend)
    assert found.status is SolveStatus.OPTIMAL
    assert found.lower_bound_j <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= found.objective_j <= best * 1.01
    assert found.overhead_gap <= 0.05 or found.gap <= 1e-6
    bounds = [p.lower_bound_j for p in told]
    assert bounds == sorted(bounds)


def test_plans_of_less_memory_are_starts_and_never_lost():
    small = linear("a72", 0.5)
    before = solve(small)
    roomy = replace(small, memory_bytes=small.memory_bytes * 2)
    for options in (SolveOptions(time_limit_s=0.0), SolveOptions(remat=False, time_limit_s=0.0)):
        plain = solve(roomy, options)
        begun = solve(roomy, replace(options, starts=(before.schedule,)))
        if options.remat:
            assert begun.objective_j <= before.objective_j
        else:  # the plan recomputes, so it is no start here
            assert begun.objective_j == plain.objective_j


def test_starts_and_neighbourhoods_map_to_columns():
    problem = linear("m4", 0.5)
    slots = layout(problem, remat=True, forward=True)
    form = formulate(problem, slots, Switches())
    for make in (free_early, page_all, recompute_all):
        decisions = decisions_of(slots, make(problem))
        assert decode(slots, decisions) == make(problem)
        point = point_of(slots, form, decisions)
        assert set(point) == {v.name for v in form.model.variables() if v.cat == pulp.LpInteger}
    halves = dict.fromkeys(point, 0.5)
    assert rens(form, halves) == {}
    decided = {v.name for group in (form.R, form.z, form.p, form.h) for v in group.values()}
    assert rens(form, point).keys() == decided
    assert rins(form, point, point) == rens(form, point)
    assert rins(form, halves, point) == {}
    without_paging = formulate(problem, slots, Switches(paging=False))
    assert point_of(slots, without_paging, decisions_of(slots, page_all(problem))) is None


@pytest.mark.parametrize("seed", range(12))
def test_a_start_holds_every_row(seed):
    """All columns of a plan together are a point of the program, with the plan's energy."""
    problem = replace(random_problem(seed), deadline_s=None, max_write_bytes=None)
    found = solve(problem)
    if found.schedule is None:
        return
    slots, _ = planner.full_layout(problem, SolveOptions())
    form = formulate(problem, slots, Switches())
    point = point_of(slots, form, decisions_of(slots, found.schedule))
    answer = Highs().solve(form.model, Limits(20.0), fixed=point)
    assert answer.status is SolveStatus.OPTIMAL
    assert form.amount(answer.objective) == pytest.approx(found.objective_j, rel=1e-7)


@pytest.mark.parametrize("seed", range(16))
def test_the_search_of_large_graphs_bounds_the_optimum(monkeypatch, seed):
    """Programs without dear runs, without memory rows, without a deadline: no bound too high."""
    problem = random_problem(1000 + seed)
    if problem.overlap:
        problem = replace(problem, overlap=False)
    exact = solve(problem)
    for tight in (0, 10**6):
        monkeypatch.setattr(planner, "EXACT_SLOTS", 0)
        monkeypatch.setattr(search_large, "TIGHT_SLOTS", tight)
        monkeypatch.setattr(search_large, "STALE_WINDOWS", 1)
        found = solve(problem, SolveOptions(forward_recompute=True, time_limit_s=20.0))
        assert (found.schedule is None) == (exact.schedule is None)
        if exact.objective_j is not None:
            assert found.lower_bound_j <= exact.objective_j * (1 + 1e-7)
            assert found.objective_j >= exact.objective_j * (1 - 1e-7)
            assert found.gap <= 0.01


def test_the_relaxation_writes_pages_whole(monkeypatch):
    """Not a thirtieth of a tensor, to be read thirty times."""
    problem = linear("m0", 0.5)
    slots = layout(problem, remat=True, forward=False)

    def relaxed():
        form = formulate(problem, slots, Switches(loose=True))
        answer = Highs().solve(form.model, Limits(20.0), relax=True)
        return form.amount(answer.objective) - problem.base_j

    with_rows, best = relaxed(), solve(problem).objective_j - problem.base_j
    monkeypatch.setattr(ilp.Builder, "written_whole", lambda *_: None)
    assert relaxed() < 0.9 * with_rows
    assert with_rows <= best * (1 + 1e-9)


def test_runs_that_no_better_plan_has_are_left_out():
    problem = linear("m4", 0.5)
    slots = layout(problem, remat=True, forward=False)
    assert affordable(slots, math.inf, math.inf) == slots
    for nothing in (affordable(slots, 0.0, math.inf), affordable(slots, math.inf, 0.0)):
        runs = [slots.steps.steps[slot.step] for slot in nothing.slots if not slot.base]
        assert all(step.compute_j == step.compute_s == 0 for step in runs)  # the input, a view
    dearest = max(op.compute_j for op in problem.ops if op.recomputable)
    fewer = affordable(slots, 0.9 * dearest, math.inf)
    left = {slots.steps.steps[slot.step].compute_j for slot in fewer.slots if not slot.base}
    assert left
    assert max(left) < dearest
    best = solve(problem)
    needed = affordable(slots, best.objective_j - problem.floor_j, math.inf)
    assert used(slots, best.schedule) <= set(needed.slots)


def test_a_deadline_that_no_better_plan_meets_is_no_row():
    problem = linear("m4", 0.5)
    slots = layout(problem, remat=True, forward=False)
    best_j = solve(problem).objective_j

    def rows(problem, best_j=math.inf):
        return len(formulate(problem, slots, Switches(best_j=best_j)).model.constraints)

    endless = rows(replace(problem, deadline_s=None))
    assert rows(problem) == endless + 1
    assert rows(problem, best_j) == endless  # half the base time to spare is far more than it needs
    close = replace(problem, deadline_s=problem.base_s * (1 + 1e-6))
    assert rows(close, best_j) == endless + 1


def test_a_plan_loses_what_it_does_not_need():
    problem = replace(linear("a72", 0.9), memory_bytes=10**9, deadline_s=None)
    kept = [page_all(problem)]
    thrifty(problem, kept[0], SolveOptions(), lambda plan: kept.append(plan) is None)
    costs = [simulate(problem, plan).energy_j for plan in kept]
    assert costs == sorted(costs, reverse=True)
    last = simulate(problem, kept[-1])
    assert last.page_ins == last.page_outs == last.recomputes == 0
    tight = replace(problem, memory_bytes=simulate(problem, page_all(problem)).peak_bytes)
    asked = []
    thrifty(tight, page_all(tight), SolveOptions(), lambda plan: asked.append(plan) is not None)
    assert asked
    for plan in asked:
        check_budget(tight, simulate(tight, plan))


def test_neighbourhoods_are_layouts_that_hold_the_plan():
    problem = linear("m4", 0.5)
    slots = layout(problem, remat=True, forward=False)
    optional = {slot for slot in slots.slots if not slot.base}
    best = solve(problem).schedule
    runs = used(slots, best)
    assert runs <= optional
    small = restrict(slots, runs)
    assert decode(small, decisions_of(small, best)) == decode(slots, decisions_of(slots, best))
    assert restrict(slots, optional) == slots
    assert used(small, recompute_all(problem)) == set()  # it needs slots that are not there
    for depth in (1, 3):
        near = latest(slots, depth)
        for stage in {slot.stage for slot in optional}:
            steps = sorted(slot.step for slot in optional if slot.stage == stage)
            assert sorted(s.step for s in near if s.stage == stage) == steps[-depth:]
    windows = [window(slots, number, len(optional) // 4) for number in range(12)]
    assert set().union(*windows) == optional
    for inside in windows:
        stages = {slot.stage for slot in inside}
        assert inside == {slot for slot in optional if slot.stage in stages}
