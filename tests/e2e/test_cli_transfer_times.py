"""A table of transfers from the command line: what energy is of, and what a deadline holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poet_mcu import resources

DIGITS = resources.root() / "examples" / "digits" / "digits_cnn.onnx"
#: one slow read in a hundred takes a hundred times as long
TIMED = """
extends = "qemu-m7-sd"
name = "mine"
title = "a board whose card was timed"
[storage]
source = "as the board this is made of"
[storage.read_times]
transfer_bytes = [512, 8192]
median_s = [1e-3, 1e-3]
p99_s = [0.1, 0.1]
source = "a log of a rig"
"""


def test_a_deadline_is_held_with_slow_transfers_and_energy_is_of_the_median(
    run: Any, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(TIMED)
    words = ("plan", DIGITS, "--board", tmp_path / "mine.toml", "--batch", 4, "--strategy",
             "page-all", "--json", "--time-limit", 1)  # fmt: skip
    calm, held = run(*words).json, run(*words, "--deadline", "60s").json
    assert held["page_ins"] == calm["page_ins"] > 4
    assert held["time_s"] - calm["time_s"] == pytest.approx(0.099 * held["page_ins"])
    assert held["sd_j"] == pytest.approx(calm["sd_j"])
    assert "seconds are of slow transfers" in " ".join(held["notes"])
    assert not any("slow transfers" in note for note in calm["notes"])
    between_s = (calm["time_s"] + held["time_s"]) / 2
    told = run(*words, "--deadline", f"{between_s:.6f}s")
    assert told.code == 3, "a deadline that medians alone would hold"
