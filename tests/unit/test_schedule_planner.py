"""The planner as a whole: known optima, switches, monotonicity, limits, stability."""

import importlib.util
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_schedule_oracle import Oracle, assert_optimal, random_problem

from poet_mcu.errors import Infeasible
from poet_mcu.ir.schedule import ActionKind
from poet_mcu.schedule import (
    SolveOptions,
    SolveStatus,
    check_budget,
    fits,
    free_early,
    keep_all,
    largest_working_set,
    minimum_memory,
    page_all,
    planner,
    recompute_all,
    shortest_deadline,
    simulate,
    solve,
)
from poet_mcu.schedule.decode import Decisions, decode
from poet_mcu.schedule.problem import Op, Problem, Tensor
from poet_mcu.schedule.touch import layout

HERE = Path(__file__).resolve().parent


def zoo():
    """The loader of tools/poet_zoo.py."""
    path = HERE.parents[1] / "tools" / "poet_zoo.py"
    spec = importlib.util.spec_from_file_location("poet_zoo", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def linear(platform, fraction):
    data = json.loads((HERE / "test_schedule_linear.json").read_text(encoding="utf-8"))
    return zoo().problem_of(data[platform], fraction)


def figure_two(memory_bytes=470):
    """Eight layers and their backward pass, after figure 2 of POET (arXiv 2207.07697).

    Layers 2 and 3 are cheap and large, 5 and 6 expensive. Backward op k reads the activation of
    layer k and the gradient that comes down.
    """
    sizes = {1: 20, 2: 200, 3: 200, 4: 20, 5: 200, 6: 200, 7: 120, 8: 160}
    cheap = {2, 3}
    tensors = [Tensor(0, "x", 20, False, 0, 0, 0, 0, at_start=True)]
    ops = []
    for k, nbytes in sizes.items():
        cost = nbytes / 20
        tensors.append(Tensor(k, f"y{k}", nbytes, True, cost, cost, cost, cost))
        joules = 1.0 if k in cheap else 200.0
        ops.append(Op(k, f"layer{k}", (k - 1,), (k,), joules, joules, 0, True, False))
    for k in reversed(sizes):
        last = k == 1
        tensors.append(Tensor(10 + k, f"g{k}", 20, True, 2, 2, 2, 2, at_end=last))
        reads = (k,) if k == 8 else (k, 11 + k)
        ops.append(Op(20 + k, f"back{k}", reads, (10 + k,), 5.0, 5.0, 0, False, True))
    return Problem("figure2", tuple(tensors), tuple(ops), memory_bytes)


@pytest.mark.parametrize(
    ("platform", "joules"),
    [("m4", 0.000460715593), ("a72", 0.006599977253), ("m0", 0.104861702758)],
)
@pytest.mark.parametrize("solver", ["highs", "cbc"])
def test_golden_optima_of_the_linear_model(platform, joules, solver):
    problem = linear(platform, 0.5)
    found = solve(problem, SolveOptions(solver=solver))
    assert found.status is SolveStatus.OPTIMAL
    assert found.objective_j == pytest.approx(joules, rel=1e-6)
    assert found.lower_bound_j == pytest.approx(joules, rel=1e-6)
    assert found.gap <= 1e-6
    check_budget(problem, simulate(problem, found.schedule))


def test_figure_two_recomputes_cheap_layers_and_pages_expensive_ones():
    found = solve(figure_two())
    assert found.status is SolveStatus.OPTIMAL
    again = {a.subject for a in found.schedule.actions if a.recompute}
    paged = {a.subject for a in found.schedule.actions if a.kind is ActionKind.PAGE_OUT}
    assert again == {2, 3}
    assert paged == {5, 6}
    # the write of layer 6 stands before layer 7 runs
    kinds = [(a.kind, a.subject) for a in found.schedule.actions]
    assert kinds.index((ActionKind.PAGE_OUT, 6)) < kinds.index((ActionKind.COMPUTE, 7))
    alone = [solve(figure_two(), SolveOptions(paging=p, remat=not p)) for p in (True, False)]
    assert all(s.objective_j is None or s.objective_j > found.objective_j for s in alone)


def test_enough_memory_needs_no_solver_and_no_overhead():
    problem = figure_two(10_000)
    found = solve(problem, backend=None)
    assert (found.status, found.gap, found.overhead_gap) == (SolveStatus.OPTIMAL, 0.0, 0.0)
    assert found.objective_j == found.lower_bound_j == problem.base_j
    assert found.schedule == free_early(problem)


def test_switches_change_the_plan():
    problem = figure_two()
    both = solve(problem).metrics
    paging = solve(problem, SolveOptions(remat=False)).metrics
    remat = solve(problem, SolveOptions(paging=False)).metrics
    assert both.recomputes
    assert both.page_ins
    assert paging.recomputes == 0 < paging.page_ins
    assert remat.page_ins == remat.page_outs == 0 < remat.recomputes
    neither = solve(problem, SolveOptions(paging=False, remat=False))
    assert neither.status is SolveStatus.INFEASIBLE


def test_more_memory_or_time_never_costs_more():
    for base in (figure_two(), linear("a72", 0.6), random_problem(12, ops=7)):
        floor = minimum_memory(replace(base, deadline_s=None)).bytes
        top = simulate(base, free_early(base)).peak_bytes
        budgets = [floor + (top - floor) * n // 6 for n in range(7)]
        joules = [
            solve(replace(base, memory_bytes=m, deadline_s=None)).objective_j for m in budgets
        ]
        assert joules == sorted(joules, reverse=True)
        tight = replace(base, memory_bytes=budgets[2])
        shortest = shortest_deadline(tight)
        deadlines = [shortest * f for f in (1.0, 1.02, 1.1, 1.3, 2.0)]
        joules = [solve(replace(tight, deadline_s=d)).objective_j for d in deadlines]
        assert all(a >= b - 1e-9 * a for a, b in itertools.pairwise(joules))


def test_never_worse_than_a_baseline_that_fits():
    for memory_bytes in range(300, 700, 40):
        problem = figure_two(memory_bytes)
        found = solve(problem)
        for make in (keep_all, free_early, page_all, recompute_all):
            metrics = simulate(problem, make(problem))
            if metrics.peak_bytes <= memory_bytes:
                assert found.objective_j <= metrics.energy_j * (1 + 1e-12)


def test_infeasible_below_the_working_set_without_a_solver():
    problem = figure_two()
    need, name = largest_working_set(problem)
    assert (need, name) == (400, "layer3")
    found = solve(replace(problem, memory_bytes=need - 1), backend=None)
    assert found.status is SolveStatus.INFEASIBLE
    assert (found.schedule, found.objective_j, found.gap) == (None, None, None)
    assert minimum_memory(problem).op_name == "layer3"


def test_deadline_below_one_run_of_every_op():
    problem = replace(figure_two(), deadline_s=10.0)
    assert solve(problem).status is SolveStatus.INFEASIBLE
    with pytest.raises(Infeasible, match=r"figure2: deadline: expected at least .* got 10 s"):
        minimum_memory(problem)
    assert shortest_deadline(replace(problem, memory_bytes=100)) is None
    relaxed = replace(problem, memory_bytes=10_000)
    assert shortest_deadline(relaxed) == pytest.approx(problem.base_s)


def test_at_its_own_minimum_and_deadline_a_plan_exists():
    problem = linear("m4", 0.5)
    smallest = minimum_memory(problem)
    assert smallest.bytes == smallest.proven_bytes
    assert solve(replace(problem, memory_bytes=smallest.bytes)).status is SolveStatus.OPTIMAL
    tight = replace(problem, deadline_s=shortest_deadline(problem))
    found = solve(tight)
    assert found.status is SolveStatus.OPTIMAL
    check_budget(tight, found.metrics)


def test_two_runs_in_two_processes_give_the_same_plan():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_schedule_oracle import random_problem\n"
        "from test_schedule_planner import figure_two, linear, solve\n"
        "problems = (linear('a72', 0.5), random_problem(12, ops=7), figure_two())\n"
        "for p in problems: print(solve(p).schedule)\n"
    )
    seen = set()
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", code, str(HERE)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(HERE.parents[1])},
        )
        seen.add(ran.stdout)
    assert len(seen) == 1
    assert "PAGE_IN" in seen.pop()


def test_time_limit_keeps_the_best_plan_and_says_how_good_it_is():
    problem = linear("a72", 0.5)
    full = solve(problem)
    told = []
    cut = solve(problem, SolveOptions(time_limit_s=0.02, progress=told.append))
    assert cut.status in {SolveStatus.FEASIBLE, SolveStatus.TIMEOUT, SolveStatus.OPTIMAL}
    assert cut.lower_bound_j <= full.objective_j * (1 + 1e-9)
    if cut.schedule is not None:
        check_budget(problem, cut.metrics)
        assert cut.objective_j >= full.objective_j * (1 - 1e-9)
        assert cut.gap == pytest.approx((cut.objective_j - cut.lower_bound_j) / cut.objective_j)


def test_progress_tells_joules():
    told = []
    problem = linear("a72", 0.5)
    found = solve(problem, SolveOptions(progress=told.append))
    assert told
    assert all(p.lower_bound_j <= found.objective_j * (1 + 1e-9) for p in told)
    assert min(p.objective_j for p in told if p.objective_j) == pytest.approx(found.objective_j)


def test_a_stop_by_hand_keeps_the_best_plan(monkeypatch):
    class Stopped:
        name = "stopped"

        def solve(self, *_, **__):
            raise KeyboardInterrupt

    problem = replace(linear("m4", 0.7), deadline_s=None)
    for slots in (planner.EXACT_SLOTS, 0):
        monkeypatch.setattr(planner, "EXACT_SLOTS", slots)
        found = solve(problem, backend=Stopped())
        assert found.status is SolveStatus.FEASIBLE
        assert fits(problem, simulate(problem, found.schedule))
    with pytest.raises(KeyboardInterrupt):  # no baseline fits: there is nothing to keep
        solve(linear("a72", 0.5), backend=Stopped())


def test_infeasible_on_the_smaller_layout_is_tried_with_forward_recompute(monkeypatch):
    # a large skip over the forward part: without paging only recompute inside it helps
    tensors = (
        Tensor(0, "x", 8, False, 1, 1, 1, 1, at_start=True),
        Tensor(1, "skip", 100, False, 1, 1, 1, 1),
        Tensor(2, "mid", 100, False, 1, 1, 1, 1),
        Tensor(3, "small", 8, False, 1, 1, 1, 1),
        Tensor(4, "sum", 8, False, 1, 1, 1, 1),
        Tensor(5, "g", 8, False, 1, 1, 1, 1, at_end=True),
    )
    ops = (
        Op(0, "stem", (0,), (1,), 1.0, 1.0, 0, True, False),
        Op(1, "down", (0,), (2,), 1.0, 1.0, 0, True, False),
        Op(2, "body", (2,), (3,), 1.0, 1.0, 0, True, False),
        Op(3, "add", (1, 3), (4,), 1.0, 1.0, 0, True, False),
        Op(4, "back", (4,), (5,), 1.0, 1.0, 0, False, True),
    )
    problem = Problem("skip", tensors, ops, 150)
    monkeypatch.setattr(planner, "EXACT_SLOTS", 0)
    monkeypatch.setattr(planner, "DESCENT_SLOTS", 0)
    small, complete = planner.full_layout(problem, SolveOptions())
    assert not complete
    assert all(slot.base for slot in small.slots if slot.stage < 5)
    found = solve(problem)
    assert found.status is SolveStatus.OPTIMAL
    assert found.objective_j == pytest.approx(Oracle(problem).least_energy())
    monkeypatch.undo()
    assert assert_optimal(problem) == found.objective_j


def test_useless_runs_are_dropped_and_their_page_ins_move():
    problem = figure_two()
    slots = layout(problem, remat=True, forward=True)
    # layer 2 again before back8, its input from the card, for nobody: it runs before back2 too
    idle, useful = (
        next(s for s, slot in enumerate(slots.slots) if (slot.stage, slot.step) == (stage, 2))
        for stage in (9, 15)
    )
    schedule = decode(slots, Decisions(frozenset({idle, useful}), frozenset({(1, idle)})))
    kinds = [(a.kind, a.subject) for a in schedule.actions if a.kind is not ActionKind.WAIT]
    again = [n for n, a in enumerate(kinds) if a == (ActionKind.COMPUTE, 2)]
    assert len(again) == 2
    assert kinds[again[1] - 1] == (ActionKind.PAGE_IN, 1)
    assert (simulate(problem, schedule).page_ins, simulate(problem, schedule).recomputes) == (1, 1)
