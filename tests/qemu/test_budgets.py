"""Digits and LeNet-28 within five budgets each: the board uses the RAM and the card as planned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import models
import pytest
import zoo
from make_digits import make_model
from painted import painted
from zoo import make_zoo

from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import plan
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import open_folder
from poet_mcu.pipeline.validate import batches, run_steps
from poet_mcu.units import round_up

pytestmark = pytest.mark.qemu

STEPS = 2
BUDGETS = 5
DAILY = ("digits", 0)
COUNTERS = ("sd_read_bytes", "sd_write_bytes", "page_ins", "page_outs")


def digits(folder: Path) -> Options:
    path = models.save(make_model(), folder / "digits.onnx")
    return Options(path, "qemu-m7-sd", batch=16, time_limit_s=20.0, home_parameters="auto")


def lenet(folder: Path) -> Options:
    path = zoo.write("lenet_like", make_zoo.make_module("lenet_like", 1.0), folder)
    return zoo.options_for(
        "lenet_like", path, "qemu-mps2-an500", batch=4, time_limit_s=20.0, home_parameters="auto"
    )


MODELS = {"digits": digits, "lenet": lenet}


@dataclass(frozen=True)
class Measured:
    """One budget: the facts of the build, and what the emulated board counted."""

    facts: dict[str, Any]
    peak_bytes: int
    counters: dict[str, int]


def budget_of(options: Options, number: int) -> int:
    """Evenly from the least that works (0) to what freeing early needs, where nothing is moved.

    The least has parameters on the card; where there is room for them they stay in RAM.
    """
    least = plan(replace(options, home_parameters="card")).facts["minimum_peak_bytes"]
    most = plan(options).facts["baselines"]["free_early"]["peak_bytes"]
    assert isinstance(least, int)
    return least + (most - least) * number // (BUDGETS - 1)


def measure(options: Options, folder: Path) -> Measured:
    """Build, train, and count what of the arena was written and what went to the card and back."""
    facts = build(options, folder).facts
    with painted(folder) as (board, arena):
        work = batches(open_folder(folder).prepared(), None, STEPS)
        run = run_steps(Session(board), work)
    outside = facts["peak_bytes"] - facts["arena_peak_bytes"]  # stack, statics, states of pages
    alignment = open_folder(folder).board.arena.alignment_bytes
    used = round_up(arena.touched_bytes, alignment)  # nobody writes a value's padding
    return Measured(facts, outside + used, {key: run.facts[key] for key in COUNTERS})


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param(name, number, marks=() if (name, number) == DAILY else pytest.mark.slow)
        for name in MODELS
        for number in range(BUDGETS)
    ],
)
def test_the_board_uses_what_was_planned(name: str, number: int, tmp_path: Path) -> None:
    options = MODELS[name](tmp_path)
    ram_bytes = budget_of(options, number)
    found = measure(replace(options, ram_bytes=ram_bytes), tmp_path / "out")
    facts = found.facts
    print(  # noqa: T201 - the row of docs/proofs.md
        f"| {name} | {ram_bytes} | {facts['peak_bytes']} | {found.peak_bytes} "
        f"| {facts['sd_write_bytes']} / {facts['sd_read_bytes']} "
        f"| {found.counters['sd_write_bytes'] // STEPS} / "
        f"{found.counters['sd_read_bytes'] // STEPS} | {facts['home_parameters']} |"
    )
    assert found.peak_bytes == facts["peak_bytes"] == facts["interpreter_peak_bytes"] <= ram_bytes
    assert facts["elf_ram_bytes"] <= ram_bytes
    assert found.counters == {key: facts[key] * STEPS for key in COUNTERS}
    if number == BUDGETS - 1:
        assert facts["page_ins"] == facts["recomputes"] == 0
