"""Parameters and states whose home is the card: rules of the checker, and whole plans."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import models
import plans
import pytest
from test_memory_plans import (
    GP,
    GW,
    LABEL,
    A,
    M,
    P,
    R,
    W,
    X,
    compute,
    free,
    page_in,
    page_out,
    tiny_graph,
    wait,
)

from poet_mcu.errors import InputError, InternalError
from poet_mcu.ir.schedule import Action, Schedule
from poet_mcu.ir.text import graph_text
from poet_mcu.ir.verify_schedule import verify_schedule
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.selfcheck import check_program, sample_feeds
from poet_mcu.sim.interpreter import Interpreter

GRAPH = replace(tiny_graph(), card_homes=frozenset({W, M}))
GOOD = (
    compute(0),  # 0
    compute(1),  # 1
    free(A),  # 2
    page_in(W),  # 3
    wait(W),  # 4
    compute(2),  # 5
    compute(3),  # 6
    compute(4, (GP, P)),  # 7
    free(LABEL),  # 8
    compute(5),  # 9
    free(R),  # 10
    free(GP),  # 11
    page_in(M),  # 12
    wait(M),  # 13
    compute(6),  # 14
    page_out(W),  # 15
    wait(W),  # 16
    free(W),  # 17
    page_out(M),  # 18
    wait(M),  # 19
    free(M),  # 20
    free(GW),  # 21
    free(X),  # 22
)


def edited(*edits: tuple[int, Action | None]) -> tuple[Action, ...]:
    actions: list[Action | None] = list(GOOD)
    for index, action in edits:
        actions[index] = action
    return tuple(action for action in actions if action is not None)


def test_a_step_with_homes_on_the_card_is_accepted() -> None:
    verify_schedule(GRAPH, Schedule(GOOD))
    assert "home=card" in graph_text(GRAPH)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (edited((3, None), (4, None)), "'w' resident, got a value that is not"),
        (edited((4, None)), "'w' valid, got a page-in that was not waited for"),
        (edited((15, None), (16, None)), "every home on the card up to date, got values [2]"),
        (edited((18, None), (19, None)), "every home on the card up to date, got values [4]"),
        (edited((17, None)), "everything else freed, got values [2] still resident"),
        # written back before the update: the page is stale at the end
        ((*GOOD[:14], *GOOD[15:17], GOOD[14], *GOOD[17:]), "up to date, got values [2]"),
        ((*GOOD[:5], page_out(W), wait(W), free(W), *GOOD[5:]), "'w' resident, got a value"),
        # read back after the update without having been written
        ((*GOOD[:15], free(W), page_in(W), wait(W), *GOOD[15:]), "a written page of value 2 'w'"),
        # overwritten while it is written
        (
            (*GOOD[:14], page_out(W), *GOOD[14:]),
            "action 15 (compute 6) momentum: expected no transfer of value 2 'w' under way",
        ),
        # made in place of a value that has its home on the card
        (
            edited((5, compute(2, (P, W)))),
            "action 5 (compute 2) dense: expected an in-place input without a home, got value 2",
        ),
    ],
)
def test_each_broken_rule_is_found(actions: tuple[Action, ...], message: str) -> None:
    with pytest.raises(InternalError, match=re.escape(message)):
        verify_schedule(GRAPH, Schedule(actions))


@pytest.mark.parametrize("strategy", plans.STRATEGIES)
@pytest.mark.parametrize("squeeze", [1.0, 0.5, 0.0])
def test_plans_compute_the_same_with_homes_on_the_card(
    tmp_path: Path, strategy: str, squeeze: float
) -> None:
    made = plans.prepared(models.cnn("N"), tmp_path, batch=4, home_parameters="card")
    assert made.train.card_homes
    if strategy != "optimal" and squeeze < 1:
        strategy = "page-all"
    plan = plans.step_plan(made, strategy, 1.0 if strategy == "page-all" else squeeze)
    check_program(plan)
    written = {page.value for page in plan.program.pages}
    assert made.train.card_homes <= written


def test_homes_are_kept_from_step_to_step(tmp_path: Path) -> None:
    made = plans.prepared(models.cnn("N"), tmp_path, batch=4, home_parameters="card")
    at_hand = plans.prepared(models.cnn("N"), tmp_path, batch=4)
    one = plans.step_plan(made)
    two = plans.step_plan(at_hand)
    machines = [Interpreter(plan.graph, plan.program) for plan in (one, two)]
    for seed in range(3):
        losses = [
            machine.run(sample_feeds(plan.graph, seed), 0.05)
            for machine, plan in zip(machines, (one, two), strict=True)
        ]
        assert [v.tobytes() for v in losses[0].values()] == [
            v.tobytes() for v in losses[1].values()
        ]
    for value in made.train.card_homes:
        assert machines[0].home_value(value).tobytes() == machines[1].home_value(value).tobytes()
    assert one.home_bytes < two.home_bytes


def test_card_homes_need_the_card() -> None:
    with pytest.raises(InputError, match=r"--home-parameters: expected ram with --no-paging"):
        Options(Path("m.onnx"), "b", paging=False, home_parameters="card")
    with pytest.raises(InputError, match="--home-parameters: expected one of ram, card, auto"):
        Options(Path("m.onnx"), "b", home_parameters="flash")
