"""Plans of recurrent layers and Dropout: every strategy and budget gives the plain graph's bits."""

from __future__ import annotations

import sys
from pathlib import Path

import plans
import pytest

from poet_mcu.pipeline.selfcheck import check_program

sys.path.insert(0, str(Path(__file__).parents[1] / "qemu"))
from test_recurrent_bits import network


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(
    ("strategy", "squeeze"),
    [*((s, 1.0) for s in plans.STRATEGIES), ("optimal", 0.4), ("optimal", 0.1)],
)
def test_a_plan_computes_the_plain_graph(strategy, squeeze, accumulate, tmp_path):
    made = plans.prepared(network(), tmp_path, accumulate=accumulate)
    plan = plans.step_plan(made, strategy, squeeze, time_limit_s=5.0)
    assert check_program(plan, accumulate) <= plan.arena_peak_bytes
    if squeeze < 1:
        roomy = plans.step_plan(made, "free-early")
        assert plan.arena_peak_bytes < roomy.arena_peak_bytes
