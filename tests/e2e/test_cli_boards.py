"""Boards of every kind through the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_a_planning_board_plans_and_does_not_build(run: Any, model: Path, tmp_path: Path) -> None:
    told = run("plan", model, "--board", "poet-m4f", "--batch", "2", "--json")
    assert told.code == 0, told.err
    assert told.json["energy_j"] > 0
    told = run("build", model, "--board", "poet-m4f", "--batch", "2", "-o", tmp_path / "b")
    assert told.code == 2
    assert "poet-m4f: kind: expected a board that firmware is for, got 'planning'" in told.err
    assert not (tmp_path / "b").exists()
    told = run("calibrate", "--board", "poet-rpi", "--emulate", "-o", tmp_path / "m.toml")
    assert told.code == 2
    assert "poet-rpi: kind: expected a board that firmware is for, got 'planning'" in told.err


def test_boards_says_what_nothing_is_built_for(run: Any) -> None:
    shown = run("boards").out.splitlines()
    assert sum("planning only" in line for line in shown if line.strip().startswith("poet-")) == 5
