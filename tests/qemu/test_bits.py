"""The contract: the same bits from every plan on every target, on host and emulator.

And PyTorch's numbers within the stated tolerance. Twenty steps of two networks.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import emulated
import models
import numpy as np
import pytest
import training

from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import plan
from poet_mcu.pipeline.prepare import prepare
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import connect_twin, open_folder
from poet_mcu.pipeline.validate import Run, batches, run_steps

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from make_digits import make_model

pytestmark = pytest.mark.qemu

STEPS = 20
LR = 0.05
BOARDS = ("qemu-lm3s6965evb", "qemu-m4-sd", "qemu-m7-sd", "qemu-m55-sd")
MODELS = {
    "digits": (make_model, training.digits, 4),
    "residual": (lambda: models.residual("N", channels=8, size=8), training.residual, 2),
}
#: the plan's name -> switches; None as RAM means the least that works with them
PLANS: dict[str, dict[str, object]] = {
    "keep-all": {"strategy": "keep-all"},
    "recompute-only": {"strategy": "recompute-all"},
    "page-only": {"remat": False, "ram_bytes": None},
    "mixed": {"ram_bytes": None},
}


@dataclass(frozen=True)
class Case:
    """One model on one board by one plan: what the emulator computed, and the host's twin."""

    board: Run
    twin: Run
    plan: dict[str, object]
    model: Path


@functools.cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="poet-mcu-bits-"))


@functools.cache
def run(model: str, board: str, name: str) -> Case:
    make, _, batch = MODELS[model]
    path = folder() / f"{model}.onnx"
    if not path.exists():
        models.save(make(), path)
    switches = dict(PLANS[name])
    options = Options(path, board, batch=batch, lr=LR, **switches)
    if "ram_bytes" in switches:
        least = plan(options).facts["minimum_peak_bytes"]
        options = Options(path, board, batch=batch, lr=LR, **{**switches, "ram_bytes": least})
    out = folder() / f"{model}-{board}-{name}"
    facts = build(options, out).facts
    on_board, on_host = (emulated.run_folder(out, STEPS, twin=twin) for twin in (False, True))
    return Case(on_board, on_host, facts, path)


@pytest.mark.parametrize(
    ("board", "model"), [*((board, "digits") for board in BOARDS), (BOARDS[0], "residual")]
)
def test_one_answer(board: str, model: str) -> None:
    """One test for each board and model, so that its twelve runs are made once."""
    cases = {name: run(model, board, name) for name in PLANS}
    check_bits(cases)
    check_plans_differ(cases)
    for case in cases.values():
        check_counters(case)
    check_pytorch(cases["mixed"], board, model)


def check_bits(cases: dict[str, Case]) -> None:
    for name, case in cases.items():
        assert emulated.same(case.board, case.twin), f"{name}: emulator and host differ"
        assert emulated.same(case.board, cases["keep-all"].board), f"{name} and keep-all differ"


def check_plans_differ(cases: dict[str, Case]) -> None:
    recomputes = {name: case.plan["recomputes"] for name, case in cases.items()}
    page_ins = {name: case.plan["page_ins"] for name, case in cases.items()}
    assert (recomputes["keep-all"], page_ins["keep-all"]) == (0, 0)
    assert recomputes["recompute-only"] > 0
    assert page_ins["recompute-only"] == 0
    assert page_ins["page-only"] > 0
    assert recomputes["page-only"] == 0
    assert page_ins["mixed"] > 0


def check_counters(case: Case) -> None:
    for key in ("sd_read_bytes", "sd_write_bytes", "page_ins", "page_outs"):
        assert case.board.facts[key] == case.plan[key] * STEPS, key
    assert case.plan["interpreter_peak_bytes"] == case.plan["peak_bytes"]
    assert case.plan["elf_ram_bytes"] <= case.plan["ram_bytes"]
    assert case.board.facts["stack_used_bytes"] < case.board.facts["stack_bytes"]


def check_pytorch(case: Case, board: str, model: str) -> None:
    _, forward, batch = MODELS[model]
    work = batches(prepare(Options(case.model, board, batch=batch, lr=LR)), None, STEPS)
    start = training.initializers(case.model)
    losses, weights = training.train_torch(forward, start, work, LR)
    assert training.relative(case.board.losses[:1], losses[:1]) <= training.ONE_STEP
    assert training.relative(case.board.losses, losses) <= training.TWENTY_STEPS
    for name, array in case.board.weights.items():
        assert training.relative(array, weights[name]) <= training.TWENTY_STEPS, name
        assert not np.array_equal(array, start[name].ravel()), f"{name} did not move"
    with connect_twin(open_folder(folder() / f"{model}-{board}-mixed")) as device:
        once = run_steps(Session(device), work[:1])  # the emulator's bits, by check_bits
    _, weights = training.train_torch(forward, start, work[:1], LR)
    for name, array in once.weights.items():
        assert training.relative(array, weights[name]) <= training.ONE_STEP, name
