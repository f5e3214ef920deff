"""Plans of small models on boards, for tests of everything that comes after planning."""

from __future__ import annotations

from pathlib import Path

import models
import onnx

from poet_mcu.board.load import load_board
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.stepplan import StepPlan, StepSettings, budget_of, plan_step
from poet_mcu.schedule import free_early, largest_working_set, simulate
from poet_mcu.schedule.pricing import make_problem

BOARD = "qemu-lm3s6965evb"
STRATEGIES = ("optimal", "keep-all", "free-early", "page-all", "recompute-all")


def prepared(proto: onnx.ModelProto, folder: Path, **options: object) -> Prepared:
    """The model, read, with its training graph."""
    path = models.save(proto, folder / "model.onnx")
    return prepare(Options(path, BOARD, **options))


def step_plan(
    made: Prepared, strategy: str = "optimal", squeeze: float = 1.0, **switches: object
) -> StepPlan:
    """A planned step. ``squeeze`` 1 gives all of the RAM, 0 as little as one operator needs."""
    board = load_board(BOARD)
    options = Options(made.options.model, BOARD, **switches)
    roomy = budget_of(board, board.sram.size_bytes)
    problem = make_problem(made.train, board, roomy.arena_bytes)
    homes = roomy.arena_bytes - problem.memory_bytes
    least = largest_working_set(problem)[0]
    most = simulate(problem, free_early(problem)).peak_bytes
    tight = roomy.runtime_bytes + homes + least + round((most - least) * squeeze) + 64
    budget = roomy if squeeze >= 1 else budget_of(board, tight)
    return plan_step(made.train, board, options, budget, StepSettings("train", strategy))
