"""What plan_step does at the edges: no time to search, no room."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import models
import numpy as np
import plans
import pytest

from poet_mcu.ir.graph import Role
from poet_mcu.pipeline import stepplan, validate
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import Prepared
from poet_mcu.pipeline.stepplan import NoPlan, StepSettings, least_ram, plan_step
from poet_mcu.schedule import Solution, SolveStatus
from poet_mcu.schedule.planner import solve

SETTINGS = StepSettings("train", "optimal")


@pytest.fixture
def hurried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Prepared, int]:
    """A residual network whose search for the least energy never has time, and its least RAM."""
    made = plans.prepared(models.residual("N", 4, 8), tmp_path, batch=2)
    roomy = stepplan.budget_of(made.board, made.board.sram.size_bytes)
    least, _ = least_ram(made.train, made.board, made.options, roomy, SETTINGS)

    def nothing_found(*args: object, **kwargs: object) -> Solution:
        found = solve(*args, **kwargs)  # type: ignore[arg-type]
        return replace(found, status=SolveStatus.TIMEOUT, schedule=None, metrics=None)

    monkeypatch.setattr(stepplan, "solve", nothing_found)
    return made, least


def planned(made: Prepared, ram_bytes: int) -> stepplan.StepPlan:
    """The training step of ``made`` within a budget."""
    budget = stepplan.budget_of(made.board, ram_bytes)
    return plan_step(made.train, made.board, made.options, budget, SETTINGS)


def test_out_of_time_the_plan_of_least_memory_is_taken(hurried: tuple[Prepared, int]) -> None:
    """The RAM that a refusal names works, however little the search for energy finds."""
    made, least = hurried
    plan = planned(made, least)
    assert plan.solution is not None
    assert plan.solution.status is SolveStatus.FEASIBLE
    assert plan.ram_bytes <= stepplan.budget_of(made.board, least).arena_bytes
    assert plan.solution.lower_bound_j == plan.problem.floor_j
    assert plan.solution.gap == pytest.approx(1 - plan.problem.floor_j / plan.metrics.energy_j)
    with pytest.raises(NoPlan):
        planned(made, least - 512)


def test_the_plan_of_least_memory_keeps_only_the_moves_it_needs(
    hurried: tuple[Prepared, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, least = hurried
    with_room = planned(made, made.board.sram.size_bytes)
    assert with_room.metrics.page_ins == with_room.metrics.recomputes == 0
    tight = planned(made, least)
    monkeypatch.setattr(stepplan, "thrifty", lambda *_: None)
    moves_all = planned(made, least)
    assert tight.metrics.energy_j < moves_all.metrics.energy_j
    assert tight.ram_bytes <= stepplan.budget_of(made.board, least).arena_bytes


def test_a_gradient_of_rounding_is_no_difference(tmp_path: Path) -> None:
    path = models.save(models.mlp(2), tmp_path / "m.onnx")
    graph = plans.prepare(Options(path, plans.BOARD, optimizer="adam")).train
    state = {v.id: np.zeros(v.shape, np.float32) for v in graph.home_ram()}
    (square,) = [v for v in graph.with_role(Role.STATE) if v.name == "fc1.bias:square"]
    (other,) = [v for v in graph.with_role(Role.STATE) if v.name == "fc2.bias:square"]
    state[square.id] = np.float32([1, 1e-9, 1e-11, 0, 1, 1, 1, 1])  # squares: roots count
    state[other.id][:] = 1
    chance = validate._left_to_chance(graph, state)
    (weight,) = [v for v in graph.with_role(Role.PARAMETER) if v.name == "fc1.bias"]
    assert chance[weight.id].tolist() == [False, False, True, True] + 4 * [False]
    plain = plans.prepare(Options(path, plans.BOARD)).train
    assert validate._left_to_chance(plain, {}) == {}
