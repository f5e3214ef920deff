"""Many steps on an emulated board whose card and line are bad: the weights come out the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import soak_run
from soak_run import Rates

pytestmark = pytest.mark.qemu
STEPS = int(os.environ.get("POET_SOAK_STEPS", "10000"))


@pytest.mark.parametrize("steps", [100, pytest.param(STEPS, marks=pytest.mark.slow, id="full")])
def test_bad_card_bad_line_and_restarts_change_no_bit(
    steps: int, tmp_path: Path, record_property
) -> None:
    rates = Rates() if steps > 100 else Rates(restarts=0.02)
    made = soak_run.prepare(tmp_path, rates)
    assert made.plan["page_outs"] > 0
    good = soak_run.undisturbed(made, steps)
    bad = soak_run.soak(made, tmp_path, steps, rates)
    for kind, count in sorted(bad.injected.items()):
        record_property(kind, count)
    record_property("recoveries", bad.recoveries)
    assert bad.kept == good.kept
    assert bad.losses == good.losses
    groups = ("told", "silent", "line", "restart")
    struck = {g: sum(n for k, n in bad.injected.items() if k.startswith(g)) for g in groups}
    assert min(struck.values()) > 0, struck
    assert struck["told"] > steps // 50
    assert struck["silent"] > steps // 50
    assert struck["line"] > steps // 50
    assert bad.recoveries > 0
