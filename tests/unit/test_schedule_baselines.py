"""Baselines: valid, and doing what their names say."""

import math

import pytest
from test_schedule_oracle import random_problem

from poet_mcu.ir.schedule import ActionKind
from poet_mcu.schedule import (
    free_early,
    keep_all,
    largest_working_set,
    page_all,
    recompute_all,
    simulate,
    sqrt_checkpoints,
)
from poet_mcu.schedule.problem import Op, Problem, Tensor


def net():
    """x -> a -> b -> c -> g2 -> g1 as conv, relu, conv: the backward ops read x, b and c."""
    sizes = {"x": 10, "a": 100, "b": 100, "c": 50, "gc": 50, "gb": 100, "dw": 7}
    names = list(sizes)
    tensors = tuple(
        Tensor(k, n, sizes[n], n != "x", 1.0, 1.0, 1.0, 1.0, at_start=n == "x", at_end=n == "dw")
        for k, n in enumerate(names)
    )

    def op(k, reads, writes, in_place=()):
        ids = tuple(names.index(n) for n in reads.split())
        pairs = tuple((names.index(o), names.index(i)) for o, i in in_place)
        back = k >= 3
        return Op(k, f"op{k}", ids, (names.index(writes),), 1.0, 1.0, 0, not back, back, pairs)

    ops = (
        op(0, "x", "a"),
        op(1, "a", "b", [("b", "a")]),
        op(2, "b", "c"),
        op(3, "c", "gc", [("gc", "c")]),
        op(4, "b gc", "gb"),
        op(5, "x gb", "dw"),
    )
    return Problem("net", tensors, ops, 10_000)


def freed_at(schedule, tensor_id):
    """Index, among the computes, of the compute after which the tensor is freed."""
    computes = -1
    for action in schedule.actions:
        computes += action.kind is ActionKind.COMPUTE
        if action.kind is ActionKind.FREE and action.subject == tensor_id:
            return computes
    return None


def test_keep_all_holds_activations_until_the_backward_pass_has_passed():
    schedule = keep_all(net())
    # a is read by op1 only, but its child b is last read by op4: until then
    assert [freed_at(schedule, k) for k in range(6)] == [5, 4, 4, 3, 4, 5]
    assert simulate(net(), schedule).peak_bytes == 10 + 100 + 100 + 50 + 100
    assert not any(a.in_place for a in schedule.actions)


def test_free_early_frees_after_the_last_use_and_runs_in_place():
    schedule = free_early(net())
    assert [freed_at(schedule, k) for k in range(6)] == [5, None, 4, None, 4, 5]
    assert simulate(net(), schedule).peak_bytes == 10 + 100 + 50 + 100


def test_page_all_pages_what_is_not_used_by_the_next_op_only():
    metrics = simulate(net(), page_all(net()))
    assert (metrics.page_outs, metrics.page_ins) == (1, 1)  # b; x is not pageable
    assert metrics.sd_write_bytes == metrics.sd_read_bytes == 100


def test_recompute_all_runs_the_forward_part_again_for_each_backward_op():
    schedule = recompute_all(net())
    again = [a.subject for a in schedule.actions if a.recompute]
    assert again == [0, 1, 2, 0, 1]  # c for op3; b for op4
    assert simulate(net(), schedule).page_ins == 0


@pytest.mark.parametrize("seed", range(120))
def test_all_are_valid_and_ordered_on_random_graphs(seed):
    problem = random_problem(seed, ops=7)
    kept, freed, paged, again = (
        simulate(problem, make(problem)) for make in (keep_all, free_early, page_all, recompute_all)
    )
    assert freed.peak_bytes <= kept.peak_bytes
    assert kept.energy_j == freed.energy_j == pytest.approx(problem.base_j)
    assert paged.recomputes == again.page_ins == again.page_outs == 0
    floor, name = largest_working_set(problem)
    assert all(m.peak_bytes >= floor for m in (kept, freed, paged, again))
    assert name in {"start", "end", *(op.name for op in problem.ops)}


def chain(n):
    """n forward ops in a chain, then n backward ops that read activation and gradient."""
    tensors = [tensor(k, 64) for k in range(2 * n)]
    ops = [op(k, (k - 1,) if k else (), (k,)) for k in range(n)]
    for k in range(n):
        reads = (n - 1 - k,) if k == 0 else (n - 1 - k, n + k - 1)
        ops.append(op(n + k, reads, (n + k,), backward=True))
    return Problem("chain", tuple(tensors), tuple(ops), 10**6)


def tensor(k, nbytes):
    return Tensor(k, f"t{k}", nbytes, True, 1.0, 1.0, 1.0, 1.0)


def op(k, reads, writes, *, backward=False):
    return Op(k, f"op{k}", reads, writes, 1.0, 1.0, 0, not backward, backward)


@pytest.mark.parametrize("n", [4, 9, 16, 25, 30])
def test_square_root_checkpoints_of_a_chain(n):
    problem = chain(n)
    metrics = simulate(problem, sqrt_checkpoints(problem))
    length = math.ceil(math.sqrt(n))
    segments = math.ceil(n / length)
    # every op but the last of each segment runs twice; the last segment has its end at hand
    assert n - segments - 1 <= metrics.recomputes <= n
    # one checkpoint a segment, one segment alive, and the gradients around the current op
    assert metrics.peak_bytes <= (segments + length + 3) * 64
    assert metrics.peak_bytes <= simulate(problem, keep_all(problem)).peak_bytes + 2 * 64
    assert metrics.page_outs == 0


@pytest.mark.parametrize("seed", range(60))
def test_square_root_checkpoints_are_valid_on_random_graphs(seed):
    problem = random_problem(seed, ops=7)
    metrics = simulate(problem, sqrt_checkpoints(problem))
    assert metrics.recomputes <= sum(o.recomputable for o in problem.ops)
    assert metrics.energy_j >= problem.base_j * (1 - 1e-12)
