"""Optimizers, clipping, schedules and accumulation on the emulator, on the host, by every plan.

One answer to the bit, and PyTorch's within the stated tolerance.
"""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import emulated
import models
import numpy as np
import pytest
import recipes
import training

from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import plan
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import connect_twin, open_folder
from poet_mcu.pipeline.validate import Run, batches

pytestmark = pytest.mark.qemu

STEPS = 12
#: a plan need not be optimal here
LIMIT_S = 3.0
#: recipe -> board, options; soft float, hard float with fused and with separate multiply-add
RECIPES: dict[str, tuple[str, dict[str, object]]] = {
    "adamw, clipped, accumulated": (
        "qemu-lm3s6965evb",
        {
            "optimizer": "adamw", "clip_norm": 0.5, "accumulate": 3, "lr_schedule": "cosine",
            "total_steps": 9, "warmup": 2, "class_weights": (1.0, 2.0, 0.5),
            "label_smoothing": 0.1, "lr": 0.003,
        },
    ),
    "adam": ("qemu-m7-sd", {"optimizer": "adam", "lr": 0.003, "weight_decay": 0.01}),
    "nesterov, stepped, clipped": (
        "qemu-m4-sd",
        {
            "optimizer": "nesterov", "lr_schedule": "step", "lr_step": 4, "clip_norm": 0.3,
            "loss": "huber", "lr": 0.02,
        },
    ),
    "rmsprop, bce": ("qemu-m7-sd", {"optimizer": "rmsprop", "loss": "bce", "lr": 0.002}),
    "momentum, accumulated, l1": (
        "qemu-lm3s6965evb",
        {"optimizer": "momentum", "accumulate": 2, "loss": "l1", "lr": 0.01},
    ),
}  # fmt: skip
PLANS: dict[str, dict[str, object]] = {
    "keep-all": {"strategy": "keep-all"},
    "recompute-all": {"strategy": "recompute-all"},
    "page-all": {"strategy": "page-all"},
    "mixed": {"ram_bytes": None},
}


@dataclass(frozen=True)
class Case:
    """What the emulator and the host's twin computed by one plan."""

    board: Run
    twin: Run
    facts: dict[str, object]
    folder: Path


@functools.cache
def scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="poet-mcu-training-"))


@functools.cache
def run(recipe: str, name: str) -> Case:
    board, chosen = RECIPES[recipe]
    path = scratch() / "cnn.onnx"
    if not path.exists():
        models.save(models.cnn("N", size=12), path)
    switches = dict(PLANS[name])
    if "ram_bytes" in switches:
        options = Options(path, board, batch=2, time_limit_s=LIMIT_S, **chosen)
        switches["ram_bytes"] = plan(options).facts["minimum_peak_bytes"]
    out = scratch() / f"{recipe}-{name}"
    facts = build(
        Options(path, board, batch=2, time_limit_s=LIMIT_S, **chosen, **switches), out
    ).facts
    on_board, on_host = (emulated.run_folder(out, STEPS, twin=twin) for twin in (False, True))
    return Case(on_board, on_host, facts, out)


@pytest.mark.parametrize("recipe", RECIPES)
def test_one_answer(recipe: str) -> None:
    cases = {name: run(recipe, name) for name in PLANS}
    for name, case in cases.items():
        assert emulated.same(case.board, case.twin), f"{name}: emulator and host differ"
        assert emulated.same(case.board, cases["keep-all"].board), f"{name} and keep-all differ"
        for key in ("sd_read_bytes", "sd_write_bytes", "page_ins", "page_outs"):
            assert case.board.facts[key] == case.facts[key] * STEPS, key
        assert case.facts["interpreter_peak_bytes"] == case.facts["peak_bytes"]
    assert cases["page-all"].facts["page_ins"] > 0
    assert cases["recompute-all"].facts["recomputes"] > 0
    check_pytorch(cases["mixed"])


def check_pytorch(case: Case) -> None:
    prepared = open_folder(case.folder).prepared()
    start = training.initializers(case.folder / "model.onnx")
    work = batches(prepared, None, STEPS)
    options = prepared.options
    losses, weights = recipes.train_torch(training.digits, start, work, options.lr, options)
    assert training.relative(case.board.losses[:1], losses[:1]) <= training.ONE_STEP
    assert training.relative(case.board.losses, losses) <= training.TWENTY_STEPS
    for name, array in start.items():
        got = case.board.weights[name]
        assert training.relative(got, weights[name]) <= training.TWENTY_STEPS, name
        assert not np.array_equal(got, array.ravel()), f"{name} did not move"


def test_an_evaluation_between_the_steps_changes_nothing() -> None:
    """Parameters, state and accumulated gradients keep their place while it runs."""
    case = run("adamw, clipped, accumulated", "keep-all")
    opened = open_folder(case.folder)
    prepared = opened.prepared()
    with connect_twin(opened) as device:
        session, losses = Session(device), []
        device.reset_model()
        for x, y in batches(prepared, None, STEPS):
            losses.append(session.train_step(x, y).loss)
            device.evaluate({"eval:x": x})
        weights = session.weights()
    assert np.float32(losses).tobytes() == case.twin.losses.tobytes()
    for name, array in weights.items():
        assert array.tobytes() == case.twin.weights[name].tobytes(), name


def test_ten_steps_are_five_and_five_with_the_state_carried_over() -> None:
    """What a checkpoint must hold for Adam: parameters, state and the number of steps."""
    case = run("adam", "keep-all")
    opened = open_folder(case.folder)
    work = batches(opened.prepared(), None, STEPS)
    with connect_twin(opened) as device:
        session = Session(device)
        device.reset_model()
        for x, y in work[:5]:
            session.train_step(x, y)
        names = {t.name for t in device.tensors()}
        kept = {n for n in names if n.endswith((":mean", ":square"))}
        assert len(kept) == 12
        saved = {n: device.read_tensor(n) for n in sorted(kept | set(session.parameters()))}
        without = {n: a for n, a in saved.items() if n not in kept}
        continued = []
        for part in (saved, without):
            device.reset_model()
            for x, y in work[:5]:  # brings the step counter to 5, which no message sets
                session.train_step(x, y)
            for name in kept:
                device.write_tensor(name, np.zeros_like(saved[name]))
            for name, array in part.items():
                device.write_tensor(name, array)
            losses = [session.train_step(x, y).loss for x, y in work[5:]]
            continued.append(np.float32(losses).tobytes())
    assert continued[0] == case.twin.losses[5:].tobytes()
    assert continued[1] != continued[0]
