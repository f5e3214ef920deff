"""LSTM, Dropout, GRU and RNN: one answer from every plan, on emulated cores and the host."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import emulated
import models
import numpy as np
import onnx
import pytest
from models import node, weights

from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import connect_twin, open_folder
from poet_mcu.pipeline.validate import Run, batches, validate

pytestmark = pytest.mark.qemu

STEPS = 4
PLANS = ("keep-all", "recompute-all", "page-all")


def tensors() -> dict[str, np.ndarray]:
    return {
        "lstm.w": weights(2, 24, 5, seed=1),
        "lstm.r": weights(2, 24, 6, seed=2),
        "lstm.b": weights(2, 48, seed=3),
        "lstm.p": weights(2, 18, seed=4),
        "gru.w": weights(1, 18, 12, seed=5),
        "gru.r": weights(1, 18, 6, seed=6),
        "gru.b": weights(1, 36, seed=7),
        "old.w": weights(1, 18, 6, seed=8),
        "old.r": weights(1, 18, 6, seed=9),
        "rnn.w": weights(1, 6, 6, seed=10),
        "rnn.r": weights(1, 6, 6, seed=11),
        "fc.w": weights(12, 3, seed=12),
        "ratio": np.asarray(0.3, np.float32),
        "mode": np.asarray(True),
        "steps": np.asarray([7, 2, 12], np.int64),
        "one": np.asarray([1], np.int64),
        "row": np.asarray([2, 12], np.int64),
    }


def network() -> onnx.ModelProto:
    """Both directions, last states, a state from a layer before, masks between."""
    lstm = node("LSTM", "x lstm.w lstm.r lstm.b - - - lstm.p", "ys", direction="bidirectional",
                hidden_size=6)  # fmt: skip
    gru = node("GRU", "dropped gru.w gru.r gru.b", "gs", linear_before_reset=1, hidden_size=6)
    gru.output.append("gh")
    rnn = node("RNN", "os rnn.w rnn.r - - gh", "", hidden_size=6, direction="reverse")
    rnn.output[:] = ["", "rh"]
    nodes = [
        lstm,
        node("Transpose", "ys", "yt", perm=[0, 2, 1, 3]),
        node("Reshape", "yt steps", "yr"),
        node("Dropout", "yr ratio mode", "dropped"),
        gru,
        node("Squeeze", "gs one", "g"),
        node("Dropout", "g ratio mode", "gd"),
        node("GRU", "gd old.w old.r", "os4", hidden_size=6),
        node("Squeeze", "os4 one", "os"),
        rnn,
        node("Concat", "gh rh", "last", axis=2),
        node("Reshape", "last row", "flat"),
        node("MatMul", "flat fc.w", "y"),
    ]
    return models.model(nodes, [7, 2, 5], tensors(), y=[2, 3])


@functools.cache
def scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="poet-mcu-recurrent-"))


@functools.cache
def built(board: str, plan: str, accumulate: int = 1, seed: int = 0) -> Path:
    path = models.save(network(), scratch() / "net.onnx")
    out = scratch() / f"{board}-{plan}-{accumulate}-{seed}"
    build(Options(path, board, lr=0.05, strategy=plan, accumulate=accumulate, seed=seed), out)
    return out


def run(out: Path, *, twin: bool, steps: int = STEPS) -> Run:
    return emulated.run_folder(out, steps, twin=twin)


@pytest.mark.parametrize(
    "board",
    ["qemu-lm3s6965evb", "qemu-m7-sd", pytest.param("qemu-m55-sd", marks=pytest.mark.slow)],
)
def test_one_answer(board: str) -> None:
    runs = {plan: run(built(board, plan), twin=False) for plan in PLANS}
    assert emulated.same(runs["keep-all"], run(built(board, "keep-all"), twin=True))
    for plan in PLANS:
        assert emulated.same(runs[plan], runs["keep-all"]), plan
    assert len(runs["keep-all"].weights) == 12
    assert runs["page-all"].facts["page_ins"] > 0


def test_the_board_agrees_with_numpy() -> None:
    """Masks included, also in the steps that only sum gradients."""
    found = validate(built("qemu-m7-sd", "keep-all", accumulate=3), steps=2)
    assert found.faults == ()
    assert found.facts["bit_identical_to_host"]


def test_seeds_and_steps_choose_the_masks() -> None:
    """With one batch and no change of weights the loss still differs from step to step."""
    losses = {}
    for seed in (0, 1):
        opened = open_folder(built("qemu-m7-sd", "keep-all", 1, seed))
        (x, y), *_ = batches(opened.prepared(), None, 1)
        with connect_twin(opened) as device:
            session = Session(device)
            device.reset_model()
            start = session.weights()
            found = []
            for _ in range(4):
                found.append(session.train_step(x, y).loss)
                for name, array in start.items():
                    device.write_tensor(name, array)
        losses[seed] = found
    assert len({*losses[0], *losses[1]}) == 8


def test_a_training_goes_on_with_the_masks_it_would_have_had() -> None:
    """A checkpoint holds the number of steps, and the masks need no more."""
    out = built("qemu-m7-sd", "keep-all")
    opened = open_folder(out)
    work = batches(opened.prepared(), None, STEPS)
    whole = run(out, twin=True)
    with connect_twin(opened) as device:
        session = Session(device)
        device.reset_model()
        for x, y in work[:2]:
            session.train_step(x, y)
        device.checkpoint()
        session.train_step(*work[3])
        assert device.restore().step == 2
        losses = [session.train_step(x, y).loss for x, y in work[2:]]
        ended = session.weights()
    assert np.float32(losses).tobytes() == whole.losses[2:].tobytes()
    assert all(ended[n].tobytes() == a.tobytes() for n, a in whole.weights.items())
