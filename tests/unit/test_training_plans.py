"""Plans of graphs with optimizer state, clipping and accumulation compute the plain graph.

In a step that only accumulates and in one that updates; from RAM and from the card; in every order.
"""

from __future__ import annotations

from pathlib import Path

import models
import plans
import pytest

from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import plan_prepared
from poet_mcu.pipeline.prepare import prepare
from poet_mcu.pipeline.selfcheck import check_program
from poet_mcu.training.order import ORDERS

RECIPE = {"optimizer": "adam", "clip_norm": 0.1, "accumulate": 3, "label_smoothing": 0.1}


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("strategy", plans.STRATEGIES)
def test_every_strategy(strategy: str, accumulate: int, tmp_path: Path) -> None:
    made = plans.prepared(models.cnn(2), tmp_path, **RECIPE | {"accumulate": accumulate})
    plan = plans.step_plan(made, strategy)
    assert check_program(plan, accumulate) == plan.arena_peak_bytes


@pytest.mark.parametrize("order", ORDERS)
def test_every_order(order: str, tmp_path: Path) -> None:
    made = plans.prepared(models.cnn(2), tmp_path, **RECIPE, order=order)
    plan = plans.step_plan(made, squeeze=0.3, time_limit_s=5.0)
    assert check_program(plan, 3) == plan.arena_peak_bytes


def test_clipped_gradients_are_paged_where_memory_is_short(tmp_path: Path) -> None:
    made = plans.prepared(models.mlp(2, (64, 64, 64, 10)), tmp_path, clip_norm=0.1)
    plan = plans.step_plan(made, squeeze=0.2, time_limit_s=5.0, remat=False)
    paged = {made.train.values[page.value].name for page in plan.program.pages}
    assert any(name.startswith("d_fc") for name in paged), paged
    check_program(plan)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_state_on_the_card(accumulate: int, tmp_path: Path) -> None:
    path = models.save(models.mlp(2, (64, 32, 10)), tmp_path / "m.onnx")
    options = Options(
        path, plans.BOARD, home_parameters="card", time_limit_s=5.0,
        **RECIPE | {"accumulate": accumulate},
    )  # fmt: skip
    made = plan_prepared(prepare(options))
    on_card = {made.prepared.train.values[v].name for v in made.prepared.train.card_homes}
    assert {"fc1.weight", "fc1.weight:mean", "fc1.weight:square"} <= on_card
    assert not any(name.endswith(":gradient") for name in on_card)
    check_program(made.train, accumulate)
    check_program(made.evaluation)
