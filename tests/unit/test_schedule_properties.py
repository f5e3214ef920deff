"""What holds for every training step: plans verify, more is never worse, two solvers agree."""

from dataclasses import replace

import pytest
from exhaustive import training_case
from hypothesis import given, settings
from hypothesis import strategies as st

from poet_mcu.schedule import SolveOptions, SolveStatus, check_budget, simulate, solve

SEEDS = st.integers(10_000, 1_000_000)
LIMIT_S = 5.0


def solved(case, solver="highs"):
    """The planner's answer; whatever plan it gives is run and holds every limit."""
    options = SolveOptions(case.paging, case.remat, solver=solver, time_limit_s=LIMIT_S)
    found = solve(case.problem, options)
    if found.schedule is not None:
        metrics = simulate(case.problem, found.schedule)
        check_budget(case.problem, metrics)
        assert metrics.energy_j == pytest.approx(found.objective_j, rel=1e-12)
        assert found.lower_bound_j <= found.objective_j
    return found


def with_problem(case, **changes):
    return replace(case, problem=replace(case.problem, **changes))


def faster_card(case, factor):
    """Transfers by ``factor`` of the time; by polling the CPU's share of the energy shrinks too."""
    tensors = []
    for t in case.problem.tensors:
        prices = {"page_in_s": t.page_in_s * factor, "page_out_s": t.page_out_s * factor}
        if not case.problem.overlap:
            prices |= {"page_in_j": t.page_in_j * factor, "page_out_j": t.page_out_j * factor}
        tensors.append(replace(t, **prices))
    return with_problem(case, tensors=tuple(tensors))


def assert_never_worse(less, more):
    """``more`` allows every plan that ``less`` does, at no higher price."""
    slack = 1e-7 * max(1.0, less.objective_j or 0.0)
    if less.objective_j is not None:
        assert more.status is not SolveStatus.INFEASIBLE
        assert more.lower_bound_j <= less.objective_j + slack
    if more.status is less.status is SolveStatus.OPTIMAL:
        assert more.objective_j <= less.objective_j + slack


def more_ram(case, blocks):
    return case, with_problem(case, memory_bytes=case.problem.memory_bytes + 32 * blocks)


def more_time(case, blocks):
    tight_s = case.problem.deadline_s or case.problem.floor_s + 2.0
    less = with_problem(case, deadline_s=tight_s)
    return less, with_problem(case, deadline_s=tight_s + blocks / 8)


def more_bandwidth(case, blocks):
    return case, faster_card(case, 1.0 / (1 + blocks / 4))


def more_writes(case, blocks):
    least = sum(t.nbytes for t in case.problem.forced_writes)
    less = with_problem(case, max_write_bytes=case.problem.max_write_bytes or least)
    limit = less.problem.max_write_bytes + 32 * blocks
    return less, with_problem(less, max_write_bytes=limit)


def check_more(make, seed, blocks):
    less, more = make(training_case(seed, most_ops=5), blocks)
    assert_never_worse(solved(less), solved(more))


def check_solvers(seed):
    case = training_case(seed, most_ops=4)
    highs, cbc = solved(case), solved(case, "cbc")
    proven = {SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE}
    assert_never_worse(highs, cbc)
    assert_never_worse(cbc, highs)
    if {highs.status, cbc.status} <= proven:
        assert highs.status is cbc.status
    if highs.status is cbc.status is SolveStatus.OPTIMAL:
        assert highs.objective_j == pytest.approx(cbc.objective_j, rel=1e-6)


MORE = (more_ram, more_time, more_bandwidth, more_writes)


@pytest.mark.parametrize("make", MORE)
@settings(max_examples=5, deadline=None)
@given(seed=SEEDS, blocks=st.integers(1, 8))
def test_more_is_never_worse(make, seed, blocks):
    check_more(make, seed, blocks)


@pytest.mark.slow
@pytest.mark.parametrize("make", MORE)
@settings(max_examples=200, deadline=None)
@given(seed=SEEDS, blocks=st.integers(1, 8))
def test_more_is_never_worse_at_length(make, seed, blocks):
    check_more(make, seed, blocks)


@settings(max_examples=5, deadline=None)
@given(seed=SEEDS)
def test_solvers_agree(seed):
    check_solvers(seed)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(seed=SEEDS)
def test_solvers_agree_at_length(seed):
    check_solvers(seed)
