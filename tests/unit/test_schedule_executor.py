"""The executor refuses each kind of broken schedule, and counts what a good one costs."""

from dataclasses import replace

import pytest

from poet_mcu.errors import InternalError
from poet_mcu.ir.schedule import Action, ActionKind, Schedule
from poet_mcu.schedule import check_budget, simulate
from poet_mcu.schedule.decode import Visit, _compute, _kept_after
from poet_mcu.schedule.problem import Op, Problem, Tensor
from poet_mcu.schedule.touch import expand

X, A, B, G = 7, 8, 9, 11


def tensor(k, name, nbytes, **flags):
    return Tensor(k, name, nbytes, flags.pop("pageable", True), 0.25, 0.5, 2.0, 3.0, **flags)


PROBLEM = Problem(
    "chain",
    (
        tensor(X, "x", 100, at_start=True, pageable=False),
        tensor(A, "a", 60),
        tensor(B, "b", 40),
        tensor(G, "g", 20, at_end=True),
    ),
    (
        Op(70, "first", (X,), (A,), 1.0, 10.0, 8, recomputable=True, backward=False),
        Op(71, "second", (A,), (B,), 2.0, 20.0, 0, True, False, in_place=((B, A),)),
        Op(72, "grad", (X, A, B), (G,), 4.0, 40.0, 0, recomputable=False, backward=True),
    ),
    1000,
)


def do(kind, subject, **more):
    return Action(ActionKind(kind), subject, **more)


def plan(*edits):
    """A valid schedule with paging and recompute; ``edits`` replace or drop actions by index."""
    actions = [
        do("compute", 70),  # 0
        do("page_out", A),  # 1
        do("wait", A),  # 2
        do("compute", 71, in_place=((B, A),)),  # 3
        do("page_out", B),  # 4
        do("wait", B),  # 5
        do("free", B),  # 6
        do("page_in", B),  # 7
        do("wait", B),  # 8
        do("compute", 70, recompute=True),  # 9
        do("compute", 72),  # 10
        do("free", X),  # 11
        do("free", A),  # 12
        do("free", B),  # 13
    ]
    for index, action in edits:
        actions[index] = action
    return Schedule(tuple(a for a in actions if a is not None))


def test_costs_of_a_valid_schedule():
    m = simulate(PROBLEM, plan())
    assert (m.compute_j, m.sd_j, m.energy_j) == (80.0, 3.0 + 3.0 + 2.0, 88.0)
    assert (m.time_s, m.stall_s) == (8.0 + 1.25, 1.25)
    assert (m.sd_write_bytes, m.sd_read_bytes) == (100, 40)
    assert (m.recomputes, m.page_ins, m.page_outs) == (1, 1, 2)
    assert (m.peak_bytes, m.peak_action, m.peak_name) == (100 + 40 + 60 + 20, 10, "grad")


def test_in_place_saves_the_smaller_of_the_two():
    # x 100, a 60 and b 40 over it: 160 during action 3; without the pair 200
    short = replace(PROBLEM, ops=PROBLEM.ops[:2], tensors=(*PROBLEM.tensors[:3],))
    start = [do("compute", 70), do("free", X)]
    beside = Schedule((*start, do("compute", 71), do("free", A), do("free", B)))
    over = Schedule((*start, do("compute", 71, in_place=((B, A),)), do("free", B)))
    assert simulate(short, over).peak_bytes == 168  # first, with its workspace
    small = replace(short, ops=(replace(short.ops[0], workspace_bytes=0), short.ops[1]))
    tiny = replace(small, tensors=(replace(small.tensors[0], nbytes=1), *small.tensors[1:]))
    assert simulate(tiny, over).peak_bytes == 61
    assert simulate(tiny, beside).peak_bytes == 100


def test_start_counts_towards_the_peak():
    idle = Problem("idle", (tensor(1, "x", 64, at_start=True),), (), 10)
    m = simulate(idle, Schedule((do("free", 1),)))
    assert (m.peak_bytes, m.peak_action, m.peak_name) == (64, 0, "start of the step")


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([(0, do("compute", 99))], "op 99.*expected an op of the problem"),
        ([(6, do("free", 99))], "tensor 99.*expected a tensor of the problem"),
        ([(0, do("compute", 71))], "first runs in the order of the problem"),
        ([(9, None)], "grad reads a.*expected it resident"),
        ([(8, None)], "grad reads b.*expected its page-in waited for"),
        ([(9, do("compute", 71, recompute=True))], "second reads a.*expected it resident"),
        ([(3, do("compute", 71))], "first writes a.*expected it absent"),
        ([(10, do("compute", 70, recompute=True))], "first writes a.*expected it absent"),
        ([(9, do("compute", 70))], "first runs in the order of the problem"),
        ([(10, do("compute", 72, recompute=True))], "grad again.*expected a first run before"),
        ([(3, do("compute", 71, in_place=((B, X),)))], "second in place.*expected a pair"),
        ([(3, do("compute", 71, in_place=((B, A), (B, A))))], "each buffer in one pair"),
        ([(2, None)], "second in place.*expected no page-out in flight"),
        ([(1, do("page_out", X))], "page out x.*expected a pageable tensor"),
        ([(0, do("page_out", A))], "page out a.*expected it resident"),
        ([(2, do("page_out", A))], "page out a.*expected no transfer of it"),
        ([(4, None), (5, None)], "page in b.*expected a page that was written"),
        ([(6, None)], "page in b.*expected it absent"),
        ([(1, None)], "wait for a.*expected a transfer in flight"),
        ([(5, None)], "free b.*expected no transfer of it"),
        ([(7, do("free", B)), (8, None)], "free b.*expected it resident"),
        ([(10, None)], "end of the step.*expected all 3 ops run, got 2"),
        ([(11, None)], "end of the step, x.*expected freed, got resident"),
        ([(13, do("free", G))], "end of the step, b.*expected freed"),
        ([(13, do("page_out", B))], "end of the step.*expected no transfer in flight"),
    ],
)
def test_each_broken_rule_is_found(edits, message):
    with pytest.raises(InternalError, match=message):
        simulate(PROBLEM, plan(*edits))


def test_missing_result_is_found():
    actions = (*plan().actions, do("free", G))
    with pytest.raises(InternalError, match=r"end of the step, g.*expected resident, got absent"):
        simulate(PROBLEM, Schedule(actions))


def test_recompute_of_an_op_with_effects_is_found():
    impure = replace(PROBLEM.ops[0], recomputable=False)
    problem = replace(PROBLEM, ops=(impure, *PROBLEM.ops[1:]))
    with pytest.raises(InternalError, match=r"first again.*expected a pure op"):
        simulate(problem, plan())


def test_budget_and_deadline_are_checked_apart():
    m = simulate(PROBLEM, plan())
    check_budget(replace(PROBLEM, memory_bytes=220, deadline_s=9.25), m)
    with pytest.raises(InternalError, match=r"action 10 \(grad\): expected at most 219 bytes"):
        check_budget(replace(PROBLEM, memory_bytes=219), m)
    with pytest.raises(InternalError, match=r"deadline: expected at most 9\.2 s, got 9\.25 s"):
        check_budget(replace(PROBLEM, deadline_s=9.2), m)


def test_written_bytes_are_checked_too():
    m = simulate(PROBLEM, plan())
    check_budget(replace(PROBLEM, max_write_bytes=100), m)
    with pytest.raises(InternalError, match="writes: expected at most 99 bytes a step, got 100"):
        check_budget(replace(PROBLEM, max_write_bytes=99), m)


W, D = 3, 4
UPDATED = Problem(
    "home on the card",
    (
        tensor(W, "w", 50, at_start_paged=True, at_end_paged=True),
        tensor(D, "d", 40),
    ),
    (
        Op(80, "use", (W,), (D,), 1.0, 10.0, 0, recomputable=True, backward=False),
        Op(81, "update", (W, D), (), 1.0, 10.0, 0, False, True, mutates=(W,)),
    ),
    1000,
)


def updated(*edits):
    actions = [
        do("page_in", W),  # 0
        do("wait", W),  # 1
        do("compute", 80),  # 2
        do("compute", 81),  # 3
        do("page_out", W),  # 4
        do("wait", W),  # 5
        do("free", W),  # 6
        do("free", D),  # 7
    ]
    for index, *more in edits:
        actions[index : index + 1] = more
    return Schedule(tuple(actions))


def test_a_home_on_the_card_is_updated():
    assert simulate(UPDATED, updated()).sd_write_bytes == 50


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([(3, do("page_out", W), do("compute", 81))], "update overwrites w.*no page-out in flight"),
        ([(5,), (4,)], "end of the step, w.*expected its page up to date, got a stale one"),
        (
            [(4, do("free", D), do("compute", 80, recompute=True), do("page_out", W))],
            "use again.*expected inputs as at first, got updated ones",
        ),
    ],
)
def test_each_broken_rule_of_an_update_is_found(edits, message):
    with pytest.raises(InternalError, match=message):
        simulate(UPDATED, updated(*edits))


def test_an_update_of_another_tensor_is_found():
    use, update = UPDATED.ops
    strange = replace(UPDATED, ops=(use, replace(update, inputs=(D,))))
    with pytest.raises(InternalError, match=r"update overwrites w.*expected one of its inputs"):
        simulate(strange, updated())


USE, UPDATE = UPDATED.ops
FIRST, SECOND, GRAD = PROBLEM.ops
MALFORMED = {
    "an unknown input": (PROBLEM, (replace(FIRST, inputs=(99,)),), "first: expected known tensors"),
    "an unknown output": (
        PROBLEM,
        (replace(FIRST, outputs=(99,)),),
        "first: expected known tensors, each once",
    ),
    "a tensor twice": (
        PROBLEM,
        (replace(FIRST, inputs=(X, X)),),
        "first: expected known tensors, each once",
    ),
    "an input of nobody": (PROBLEM, (SECOND,), "second: expected a producer before the read of a"),
    "two producers": (PROBLEM, (FIRST, FIRST), "first: expected one producer of a"),
    "a read behind the update": (
        UPDATED,
        (USE, UPDATE, replace(USE, outputs=())),
        "use: expected no read behind the update of w",
    ),
    "an update of what is not read": (
        UPDATED,
        (USE, replace(UPDATE, inputs=(D,))),
        "update: expected one run that updates its input w",
    ),
    "an update of what has no home": (
        PROBLEM,
        (FIRST, replace(SECOND, mutates=(A,), recomputable=False)),
        "second: expected one run that updates its input a",
    ),
    "an update that may run again": (
        UPDATED,
        (USE, replace(UPDATE, recomputable=True)),
        "update: expected one run that updates its input w",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_problem_is_refused(name):
    problem, ops, message = MALFORMED[name]
    expand(problem)
    with pytest.raises(InternalError, match=message):
        expand(replace(problem, ops=ops))


def test_decoding_refuses_what_no_problem_asks_for():
    expanded = expand(PROBLEM)
    with pytest.raises(InternalError, match="second: expected a produced before, got nothing"):
        _kept_after(expanded, [Visit(2, frozenset(), optional=False)], {})
    with pytest.raises(InternalError, match="start: expected an op, got none"):
        _compute(expanded, expanded.steps[0], (), recompute=False)
