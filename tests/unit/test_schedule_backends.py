"""The solvers behind their protocol: bad answers, limits, deaths, agreement."""

import contextlib
import functools
import time
from dataclasses import replace

import pulp
import pytest
from test_schedule_oracle import Oracle, descent_problem, random_problem

from poet_mcu.errors import InternalError, ToolMissing
from poet_mcu.schedule import (
    SolveOptions,
    SolveStatus,
    fits,
    free_early,
    minimum_memory,
    shortest_deadline,
    simulate,
    solve,
)
from poet_mcu.schedule import cbc as cbc_module
from poet_mcu.schedule import highs as highs_module
from poet_mcu.schedule.backend import Answer, Limits
from poet_mcu.schedule.cbc import Cbc, read_answer
from poet_mcu.schedule.highs import Highs


@functools.cache
def hard_problems():
    """Random problems whose optimum needs the solver."""
    found = []
    for seed in range(2000, 2060):
        problem = random_problem(seed, ops=6)
        trivial = fits(problem, simulate(problem, free_early(problem)))
        if not trivial and solve(problem).metrics is not None:
            found.append(problem)
    return found


def knapsack(n=40):
    """An equality knapsack with large numbers: no solver closes it in a moment."""
    model = pulp.LpProblem("knapsack", pulp.LpMinimize)
    columns = [model.add_variable(f"x{k}", 0, 1, pulp.LpBinary) for k in range(n)]
    weights = [(k * 2654435761) % 99_991 + 50_000 for k in range(n)]
    total = sum(weights) // 2
    for r in range(3):
        terms = {
            x: w + 7919 * r * (k % 5) for k, (x, w) in enumerate(zip(columns, weights, strict=True))
        }
        row = pulp.LpConstraint(pulp.LpAffineExpression(terms), pulp.LpConstraintGE, f"r{r}", total)
        model.addConstraint(row)
    model.setObjective(pulp.LpAffineExpression(dict(zip(columns, weights, strict=True))))
    return model


class Noisy:
    """Answers like a solver that means 0 and 1 but says 1e-7 and 0.9999991."""

    name = "noisy"

    def __init__(self):
        self.inner = Highs()

    def solve(self, model, limits, **more):
        answer = self.inner.solve(model, limits, **more)
        if answer.values is None:
            return answer
        noisy = {n: 0.9999991 if v > 0.5 else 1e-7 for n, v in answer.values.items()}
        return replace(answer, values=noisy)


class Scripted:
    """Gives one prepared answer to every model."""

    name = "scripted"

    def __init__(self, answer):
        self.answer = answer

    def solve(self, model, limits, **more):
        names = [v.name for v in model.variables()]
        values = self.answer.values
        return (
            self.answer
            if values is None
            else replace(self.answer, values=dict.fromkeys(names, 0.0))
        )


def test_numbers_near_zero_and_one_change_nothing():
    for problem in hard_problems()[:12]:
        plain, noisy = solve(problem), solve(problem, backend=Noisy())
        assert noisy.schedule == plain.schedule
        assert noisy.objective_j == plain.objective_j


def test_solvers_agree_and_give_the_same_plan():
    for problem in hard_problems()[:15]:
        highs, cbc = solve(problem), solve(problem, SolveOptions(solver="cbc"))
        assert cbc.status is highs.status is SolveStatus.OPTIMAL
        assert cbc.objective_j == pytest.approx(highs.objective_j, rel=1e-7)
        assert cbc.schedule == highs.schedule
        assert (cbc.solver, highs.solver) == ("cbc", "highs")


def test_cbc_proves_infeasible_and_finds_minimum_and_deadline():
    options = SolveOptions(solver="cbc", paging=False)
    for seed in range(8):
        problem = replace(random_problem(seed, ops=5), deadline_s=None)
        found = minimum_memory(problem, options)
        assert found.bytes == found.proven_bytes == Oracle(problem, paging=False).least(2)
        below = replace(problem, memory_bytes=found.bytes - 1)
        assert solve(below, options).status is SolveStatus.INFEASIBLE
        at = replace(problem, memory_bytes=found.bytes)
        expected = Oracle(at, paging=False).least(1)
        assert shortest_deadline(at, options) == pytest.approx(expected)


@pytest.mark.parametrize("backend", [Highs, Cbc])
def test_infeasible_model(backend):
    model = pulp.LpProblem("none", pulp.LpMinimize)
    x = model.add_variable("x", 0, 1, pulp.LpBinary)
    model.setObjective(pulp.LpAffineExpression({x: 1.0}))
    for sense, rhs in ((pulp.LpConstraintGE, 0.6), (pulp.LpConstraintLE, 0.7)):
        model.addConstraint(pulp.LpConstraint(pulp.LpAffineExpression({x: 1.0}), sense, None, rhs))
    assert backend().solve(model, Limits(20.0)).status is SolveStatus.INFEASIBLE
    assert backend().solve(model, Limits(20.0), relax=True).status is SolveStatus.OPTIMAL


@pytest.mark.parametrize("backend", [Highs, Cbc])
def test_fixed_columns_and_relaxation(backend):
    solver, model = backend(), knapsack(12)
    whole = solver.solve(model, Limits(20.0))
    relaxed = solver.solve(model, Limits(20.0), relax=True)
    pinned = solver.solve(model, Limits(20.0), fixed={"x0": 1.0, "x1": 1.0})
    assert whole.status is relaxed.status is pinned.status is SolveStatus.OPTIMAL
    assert relaxed.objective <= whole.objective <= pinned.objective
    assert pinned.values["x0"] == pinned.values["x1"] == 1.0
    assert solver.solve(model, Limits(20.0)).objective == pytest.approx(whole.objective)


def test_limit_keeps_the_incumbent_and_the_bound():
    seen, solver = [], Highs()
    solver.solve(knapsack(8), Limits(60.0))  # its process has started then
    answer = solver.solve(knapsack(), Limits(2.0, 0.0, 0.0), watch=lambda o, b: seen.append((o, b)))
    assert answer.status in {SolveStatus.FEASIBLE, SolveStatus.OPTIMAL}
    assert answer.bound <= answer.objective
    assert seen


def test_a_solver_that_does_not_stop_is_killed(monkeypatch):
    monkeypatch.setattr(highs_module, "GRACE_S", -1000.0)  # its own limit is far away
    began = time.monotonic()
    solver = Highs()
    answer = solver.solve(knapsack(60), Limits(1.0, 0.0, 0.0))
    assert time.monotonic() - began < 3.0
    if answer.status is not SolveStatus.OPTIMAL:
        assert answer.status in {SolveStatus.FEASIBLE, SolveStatus.TIMEOUT}
        assert answer.detail == "killed at its limit"
    assert solver.solve(knapsack(8), Limits(20.0)).status is SolveStatus.OPTIMAL


def test_a_worker_that_dies_is_an_error_and_is_replaced(monkeypatch):
    solver, model = Highs(), knapsack(8)
    assert solver.solve(model, Limits(20.0)).status is SolveStatus.OPTIMAL
    monkeypatch.setattr(highs_module, "WORKER", "poet_mcu.errors")  # ends at once
    solver.close()
    assert solver.solve(model, Limits(5.0)).status is SolveStatus.ERROR
    monkeypatch.undo()
    assert solver.solve(model, Limits(20.0)).status is SolveStatus.OPTIMAL


@pytest.mark.parametrize("backend", [Highs, Cbc])
def test_a_cancel_that_comes_late_does_not_end_the_next_solve(backend):
    """The solve it was meant for may just have ended."""
    solver = backend()
    model, limits = knapsack(4), Limits(20.0)
    for _ in range(5):
        assert solver.solve(model, limits).status is SolveStatus.OPTIMAL
        with getattr(solver, "_lock", contextlib.nullcontext()):
            solver.cancel()


def test_a_wrong_infeasible_of_presolve_is_not_believed(monkeypatch):
    # HiGHS 1.16 with presolve calls this feasible model infeasible
    problem = replace(random_problem(29, ops=5), deadline_s=None)
    monkeypatch.setattr(highs_module, "PRESOLVE_NONZEROS", 0)
    found = solve(problem, backend=Highs())
    assert found.status is SolveStatus.OPTIMAL
    assert found.objective_j == pytest.approx(Oracle(problem).least_energy())


def test_without_solution_or_proof_nothing_is_called_infeasible():
    without = 0
    for problem in (*hard_problems()[:6], descent_problem()):  # no baseline fits the last one
        for status in (SolveStatus.TIMEOUT, SolveStatus.ERROR):
            silent = Scripted(Answer(status, None, None, None))
            found = solve(problem, backend=silent)
            assert found.status in {status, SolveStatus.FEASIBLE}
            assert (found.schedule is None) == (found.status is status)
            without += found.schedule is None
            if found.schedule is not None:
                assert fits(problem, simulate(problem, found.schedule))
                assert found.lower_bound_j == problem.base_j
    assert without == 2


def test_a_plan_that_does_not_fit_is_never_returned():
    for problem in hard_problems()[:6]:
        # all zero means: nothing paged, nothing recomputed, which exceeds the budget
        liar = Scripted(Answer(SolveStatus.OPTIMAL, {}, 0.0, 0.0))
        found = solve(problem, backend=liar)
        assert found.status is not SolveStatus.OPTIMAL
        if found.schedule is not None:
            assert fits(problem, simulate(problem, found.schedule))


CASES = [
    ("Optimal - objective value 3.5\n 0 x 1 0\n", "", False, SolveStatus.OPTIMAL, 3.5),
    ("Infeasible - objective value 1\n", "", False, SolveStatus.INFEASIBLE, None),
    ("Integer infeasible - objective value 1\n", "", False, SolveStatus.INFEASIBLE, None),
    # preprocessing cut short by the limit: no proof
    ("Infeasible - objective value 1\n", "", True, SolveStatus.TIMEOUT, None),
    ("Stopped on time - objective value 4\n** 0 x 1 0\n", "Lower bound: 2.0\n", True,
     SolveStatus.FEASIBLE, 2.0),
    ("Stopped on time (no integer solution - continuous used) - objective value 4\n", "", True,
     SolveStatus.TIMEOUT, None),
    ("Stopped on time - objective value 1e+50\n", "", True, SolveStatus.TIMEOUT, None),
    ("", "", True, SolveStatus.ERROR, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "log", "hurried", "status", "bound"), CASES)
def test_cbc_answers_are_read_for_what_they_are(text, log, hurried, status, bound):
    answer = read_answer(text, log, ["x", "y"], hurried=hurried)
    assert (answer.status, answer.bound) == (status, bound)
    if answer.values is not None:
        assert answer.values == {"x": 1.0, "y": 0.0}


def test_a_missing_cbc_says_what_to_do(monkeypatch):
    class Absent:
        def __init__(self, **_):
            self.path = "cbc"

        def available(self):
            return False

    monkeypatch.setattr(cbc_module.pulp, "PULP_CBC_CMD", Absent)
    monkeypatch.setattr(cbc_module.shutil, "which", lambda _: None)
    with pytest.raises(ToolMissing, match="use --solver highs or install coinor-cbc"):
        cbc_module.executable()


def test_a_malformed_problem_is_an_internal_error():
    problem = random_problem(3, ops=5)
    unknown = replace(problem.ops[0], inputs=(999,))
    with pytest.raises(InternalError, match="expected known tensors"):
        solve(replace(problem, ops=(unknown, *problem.ops[1:])))
    with pytest.raises(InternalError, match="no producer"):
        solve(replace(problem, ops=problem.ops[1:]))
    twice = replace(problem.ops[1], inputs=(), outputs=problem.ops[0].outputs, in_place=())
    with pytest.raises(InternalError, match="expected one producer"):
        solve(replace(problem, ops=(problem.ops[0], twice, *problem.ops[2:])))
