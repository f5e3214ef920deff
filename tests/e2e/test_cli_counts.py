"""Instructions and multiply-adds of a step through the command line, on every emulated core."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from poet_mcu import resources

sys.path.insert(0, str(resources.root() / "tools"))
import bench_figures
import bench_networks

pytestmark = pytest.mark.qemu

MODEL = resources.root() / "examples" / "digits" / "digits_cnn.onnx"
MACS = 66_432  # conv 8x8: 2 passes of 4,608; conv 4x4: 3 of 18,432; dense: 3 of 640
FLASH_LIMIT = 64 * 1024
#: the committed figures are those of machines with more memory; seen 0.5 % at most
SAME_CORE = 0.01
#: board -> core of tools/bench_networks.json
HARD_FLOAT = {"qemu-m7-sd": "m7", "qemu-m4-sd": "m4f", "qemu-m55-sd": "m55"}


def counted(run: Any, board: str, folder: Path) -> dict[str, Any]:
    """What ``validate --json`` says of the digits network at batch 1."""
    words = ("--board", board, "--batch", 1, "--strategy", "keep-all", "-o", folder / "build")
    assert run("build", MODEL, *words).code == 0
    found = run("validate", folder / "build", "--emulate", "--steps", 1, "--json")
    assert found.code == 0, found.err
    assert (found.json["ok"], found.json["bit_identical_to_host"]) == (True, True)
    return found.json


@pytest.mark.parametrize("board", HARD_FLOAT)
def test_cores_with_an_fpu_count_as_committed(run: Any, board: str, tmp_path: Path) -> None:
    facts = counted(run, board, tmp_path)
    committed = bench_figures.load(bench_networks.FIGURES)[HARD_FLOAT[board]]
    expected = committed["training: digits CNN, batch 1"]
    assert facts["macs_per_step"] == expected["macs"] == MACS
    assert facts["instructions_per_step"] == pytest.approx(
        expected["instructions"], rel=bench_figures.TOLERANCE + SAME_CORE
    )


def test_soft_float_counts_and_fits_64_kib_of_flash(run: Any, tmp_path: Path) -> None:
    facts = counted(run, "qemu-lm3s6965evb", tmp_path)
    assert facts["macs_per_step"] == MACS
    # libgcc's multiply is 38 instructions and its add 59 on an Armv7-M core; a third of these
    # multiply-adds lie in the padding, where nothing is done.
    assert 2 / 3 * 38 * MACS < facts["instructions_per_step"] < 1.2 * (38 + 59) * MACS
    plan = (tmp_path / "build" / "plan.json").read_text(encoding="utf-8")
    assert 0 < json.loads(plan)["flash_bytes"] < FLASH_LIMIT
