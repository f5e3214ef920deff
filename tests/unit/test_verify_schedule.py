"""One sabotage per rule of verify_schedule, then deletions and repetitions in random plans."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_memory_plans import (
    GP,
    GW,
    LABEL,
    LOSS,
    A,
    C,
    M,
    P,
    R,
    V,
    W,
    X,
    compute,
    free,
    padded,
    page_in,
    page_out,
    random_graph,
    random_schedule,
    tiny_graph,
    tiny_schedule,
    wait,
)

from poet_mcu.errors import InternalError
from poet_mcu.ir.schedule import Action, ActionKind, Schedule
from poet_mcu.ir.verify_schedule import verify_schedule

GOOD = tiny_schedule().actions


def without(*indices: int) -> tuple[Action, ...]:
    return tuple(action for i, action in enumerate(GOOD) if i not in indices)


def inserted(index: int, *actions: Action) -> tuple[Action, ...]:
    return (*GOOD[:index], *actions, *GOOD[index:])


def replaced(index: int, action: Action) -> tuple[Action, ...]:
    return (*GOOD[:index], action, *GOOD[index + 1 :])


SABOTAGES = {
    "operand freed": (
        inserted(1, free(A)),
        "action 2 (compute 1) relu: expected value 5 'a' resident, got a value that is not",
    ),
    "operand behind a view freed": (
        (*GOOD[:2], free(R), *GOOD[3:]),
        "action 3 (compute 2) dense: expected value 6 'r' resident",
    ),
    "operand not yet read": (
        (*GOOD[:11], *GOOD[12:]),
        (
            "action 11 (compute 5) dense_bwd_w: expected value 6 'r' valid, "
            "got a page-in that was not waited for"
        ),
    ),
    "page-out of a value being read": (
        inserted(11, page_out(R)),
        "action 11 (page_out 6): expected value 6 'r' valid, got a page-in",
    ),
    "output resident": (
        inserted(2, compute(0, again=True)),
        "action 2 (compute 0) bias: expected output value 5 'a' not resident, got a value that is",
    ),
    "output under transfer": (
        inserted(2, page_out(A), compute(0, again=True)),
        (
            "action 3 (compute 0) bias: expected no transfer of value 5 'a' under way, "
            "got a page_out that was not waited for"
        ),
    ),
    "page never written": (
        without(2, 4),
        "action 8 (page_in 6): expected a written page of value 6 'r', got none",
    ),
    "page in before the write was waited for": (
        inserted(3, page_in(R)),
        "action 3 (page_in 6): expected no transfer of value 6 'r' under way, got a page_out",
    ),
    "page in of a resident value": (
        inserted(5, page_in(R)),
        "action 5 (page_in 6): expected value 6 'r' not resident, got a value that is",
    ),
    "page out of a freed value": (
        inserted(7, page_out(A)),
        "action 7 (page_out 5): expected value 5 'a' resident, got a value that is not",
    ),
    "page out twice at once": (
        inserted(3, page_out(R)),
        "action 3 (page_out 6): expected no transfer of value 6 'r' under way, got a page_out",
    ),
    "free under page-out": (
        (*GOOD[:4], GOOD[5], GOOD[4], *GOOD[6:]),
        "action 4 (free 6): expected no transfer of value 6 'r' under way, got a page_out",
    ),
    "free under page-in": (
        inserted(11, free(R)),
        "action 11 (free 6): expected no transfer of value 6 'r' under way, got a page_in",
    ),
    "in place under page-out": (
        inserted(8, page_out(P)),
        "action 9 (compute 4) xent_bwd: expected no transfer of value 8 'p' under way",
    ),
    "two transfers": (
        inserted(3, page_out(A), wait(A)),
        (
            "action 3 (page_out 5): expected at most 1 transfer(s) under way, "
            "got another beside those of values [6]"
        ),
    ),
    "in-place output of another node": (
        replaced(8, compute(4, (GW, P))),
        "action 8 (compute 4) xent_bwd: expected an in-place output of this node, got value 11",
    ),
    "in-place input of another node": (
        replaced(8, compute(4, (GP, R))),
        "action 8 (compute 4) xent_bwd: expected an in-place input of this node, got value 6",
    ),
    "in-place over a parameter": (
        replaced(3, compute(2, (P, W))),
        "action 3 (compute 2) dense: expected an in-place input without a home, got value 2 'w'",
    ),
    "in-place over too few bytes": (
        replaced(8, compute(4, (GP, LABEL))),
        (
            "action 8 (compute 4) xent_bwd: expected an in-place output of at most 32 bytes, "
            "got 64 of value 10 'gp'"
        ),
    ),
    "in-place pair doubled": (
        replaced(8, compute(4, (GP, P), (GP, LABEL))),
        "expected each value in one in-place pair",
    ),
    "in-place input taken twice": (
        replaced(8, compute(4, (GP, P), (GW, P))),
        "expected each value in one in-place pair",
    ),
    "in-place input read later": (
        replaced(1, compute(1, (R, A))),
        "action 6 (free 5): expected value 5 'a' resident, got a value that is not",
    ),
    "in-place input an operand later": (
        replaced(3, compute(2, (P, R))),
        "action 3 (compute 2) dense: expected no transfer of value 6 'r' under way",
    ),
    "node left out": (
        without(15),
        "end of the step (after 19 actions): expected every node computed, got none of nodes [6]",
    ),
    "first computes out of order": (
        (*GOOD[:7], GOOD[8], GOOD[7], *GOOD[9:]),
        "action 7 (compute 4) xent_bwd: expected node 3 first, in the order of the graph, got 4",
    ),
    "update twice": (
        inserted(16, compute(6, again=True)),
        "action 16 (compute 6) momentum: expected this node to run exactly once, got a second run",
    ),
    "recompute from an updated parameter": (
        inserted(16, page_in(R), wait(R), compute(2, again=True)),
        (
            "action 18 (compute 2) dense: expected a recompute to read the parameters of the first "
            "run, got values [2] that were updated in between"
        ),
    ),
    "recompute not marked": (
        replaced(17, compute(0)),
        "action 17 (compute 0) bias: expected recompute=True, got recompute=False",
    ),
    "first run marked": (
        replaced(0, compute(0, again=True)),
        "action 0 (compute 0) bias: expected recompute=False, got recompute=True",
    ),
    "output freed": (
        (*GOOD, free(LOSS)),
        "expected the graph's outputs resident and valid, got values [9] missing",
    ),
    "input leaks": (without(19), "expected everything else freed, got values [0] still resident"),
    "recomputed value leaks": (
        without(18),
        "expected everything else freed, got values [5] still resident",
    ),
    "transfer left at the end": (
        (*GOOD, page_out(LOSS)),
        "end of the step (after 21 actions): expected no transfer under way, got values [9]",
    ),
    "free of a parameter": (
        inserted(3, free(W)),
        "action 3 (free 2): expected a value without a home, got value 2 'w' of role parameter",
    ),
    "free of state": (
        inserted(3, free(M)),
        "action 3 (free 4): expected a value without a home, got value 4 'm' of role state",
    ),
    "page out of a constant": (
        inserted(5, page_out(C)),
        "action 5 (page_out 3): expected a value without a home, got value 3 'c' of role constant",
    ),
    "a view named": (
        replaced(5, free(V)),
        "action 5 (free 7): expected a root value, got the view value 7 'v'",
    ),
    "unknown value": (inserted(5, free(99)), "action 5 (free 99): expected a value of the graph"),
    "unknown node": (inserted(5, compute(7)), "action 5 (compute 7): expected a node of the graph"),
    "negative node": (inserted(5, compute(-1)), "expected a node of the graph, got id -1"),
    "wait for nothing": (
        inserted(2, wait(A)),
        "action 2 (wait 5): expected a transfer of value 5 'a' under way, got none",
    ),
    "wait twice": (inserted(5, wait(R)), "expected a transfer of value 6 'r' under way, got none"),
    "free twice": (
        inserted(6, free(R)),
        "action 6 (free 6): expected value 6 'r' resident, got a value that is not",
    ),
    "free before it is made": (inserted(0, free(GP)), "expected value 10 'gp' resident"),
    "pair on a free": (
        replaced(5, Action(ActionKind.FREE, R, ((P, R),))),
        "action 5 (free 6): expected in_place and recompute on a compute only",
    ),
    "recompute on a wait": (
        replaced(4, Action(ActionKind.WAIT, R, recompute=True)),
        "action 4 (wait 6): expected in_place and recompute on a compute only",
    ),
}


@pytest.mark.parametrize("name", SABOTAGES)
def test_sabotage(name):
    actions, message = SABOTAGES[name]
    graph = tiny_graph()
    with pytest.raises(InternalError, match="^schedule: .*" + re.escape(message)) as caught:
        verify_schedule(graph, Schedule(actions), padded(graph))
    assert "this is a bug in the planner" in str(caught.value)


def test_whole_message():
    with pytest.raises(InternalError) as caught:
        verify_schedule(tiny_graph(), Schedule(without(19)))
    assert str(caught.value) == (
        "schedule: end of the step (after 19 actions): expected everything else freed, "
        "got values [0] still resident; this is a bug in the planner or in schedule/decode.py"
    )


def test_not_recomputable_runs_once():
    graph = tiny_graph()
    verify_schedule(graph, Schedule(GOOD), not_recomputable=frozenset({1, 3}))
    with pytest.raises(InternalError, match=r"action 17 .* to run exactly once"):
        verify_schedule(graph, Schedule(GOOD), not_recomputable=frozenset({0}))


def test_dense_bytes_decide_without_sizes():
    graph = tiny_graph()
    verify_schedule(graph, Schedule(GOOD))
    with pytest.raises(InternalError, match=r"at most 4 bytes, got 64 of value 10 'gp'"):
        verify_schedule(graph, Schedule(replaced(8, compute(4, (GP, LABEL)))))


def test_two_transfers_where_the_device_carries_two():
    graph = tiny_graph()
    actions = inserted(3, page_out(A), wait(A))
    verify_schedule(graph, Schedule(actions), transfers_at_once=2)


def test_host_written_value_may_be_paged_and_overwritten():
    graph = tiny_graph()
    actions = (page_out(X), wait(X), compute(0, (A, X)), *GOOD[1:17], page_in(X), wait(X), free(X))
    verify_schedule(graph, Schedule(actions), padded(graph))


@pytest.mark.parametrize("kind", ActionKind)
def test_paged_value_may_be_read_while_it_is_written_only(kind):
    # The good plan reads r in action 3, between its page-out and the wait; no more is allowed.
    touch = {
        ActionKind.COMPUTE: compute(1, again=True),
        ActionKind.FREE: free(R),
        ActionKind.PAGE_IN: page_in(R),
        ActionKind.PAGE_OUT: page_out(R),
        ActionKind.WAIT: wait(A),
    }[kind]
    with pytest.raises(InternalError, match=r"^schedule: action 3 "):
        verify_schedule(tiny_graph(), Schedule(inserted(3, touch)), padded(tiny_graph()))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(1000, 5000), data=st.data())
def test_any_action_left_out_or_repeated_is_caught(seed, data):
    graph = random_graph(seed)
    sizes = padded(graph)
    actions = random_schedule(graph, seed, sizes).actions
    verify_schedule(graph, Schedule(actions), sizes)
    index = data.draw(st.integers(0, len(actions) - 1))
    with pytest.raises(InternalError):
        verify_schedule(graph, Schedule((*actions[:index], *actions[index + 1 :])), sizes)
    with pytest.raises(InternalError):
        verify_schedule(graph, Schedule((*actions[: index + 1], *actions[index:])), sizes)
