"""Plans of real graphs on a board whose transfers run beside compute."""

from __future__ import annotations

from pathlib import Path

import models
import plans
import pytest

from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.ir.schedule import ActionKind
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.selfcheck import check_program
from poet_mcu.pipeline.stepplan import StepPlan, StepSettings, budget_of, plan_step
from poet_mcu.schedule import free_early, largest_working_set, simulate
from poet_mcu.schedule.pricing import make_problem


def board(*, overlap: bool) -> Board:
    known = load_board(plans.BOARD)
    return known.model_copy(
        update={"storage": known.storage.model_copy(update={"overlap": overlap})}
    )


def planned(folder: Path, *, overlap: bool, home: str = "ram") -> StepPlan:
    made = plans.prepared(models.cnn("N"), folder, batch=16, home_parameters=home)
    target = board(overlap=overlap)
    roomy = budget_of(target, target.sram.size_bytes)
    problem = make_problem(made.train, target, roomy.arena_bytes)
    fixed = roomy.ram_bytes - problem.memory_bytes
    least = largest_working_set(problem)[0]
    most = simulate(problem, free_early(problem)).peak_bytes
    budget = budget_of(target, fixed + least + (most - least) // 3 + 512)
    options = Options(made.options.model, plans.BOARD, time_limit_s=5)
    return plan_step(made.train, target, options, budget, StepSettings("train", "optimal"))


@pytest.mark.parametrize("home", ["ram", "card"])
def test_transfers_beside_compute_give_a_valid_program(tmp_path: Path, home: str) -> None:
    plan = planned(tmp_path, overlap=True, home=home)
    check_program(plan)  # verifiers have run; the interpreter finds every early or late access
    transfers = (ActionKind.PAGE_IN, ActionKind.PAGE_OUT)
    starts = [k for k, a in enumerate(plan.schedule.actions) if a.kind in transfers]
    assert starts
    beside = [k for k in starts if plan.schedule.actions[k + 1].kind is ActionKind.COMPUTE]
    assert beside
    bus_s = sum(
        t.page_in_s * _count(plan, ActionKind.PAGE_IN, t.id)
        + t.page_out_s * _count(plan, ActionKind.PAGE_OUT, t.id)
        for t in plan.problem.tensors
    )
    assert plan.metrics.stall_s < bus_s
    assert plan.metrics.time_s == pytest.approx(plan.problem.base_s + plan.metrics.stall_s)
    assert plan.metrics.wait_j == pytest.approx(plan.metrics.stall_s * plan.problem.wait_w)


def _count(plan: StepPlan, kind: ActionKind, value: int) -> int:
    return sum(a.kind is kind and a.subject == value for a in plan.schedule.actions)


def test_overlap_saves_time_and_energy(tmp_path: Path) -> None:
    beside = planned(tmp_path, overlap=True)
    blocking = planned(tmp_path, overlap=False)
    assert beside.metrics.energy_j < blocking.metrics.energy_j
    assert beside.solution is not None
    assert beside.solution.lower_bound_j <= beside.metrics.energy_j
