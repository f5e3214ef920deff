"""Losses, optimizers and schedules on the command line, through the build to the board."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest

BOARD = "qemu-m7-sd"


@pytest.mark.qemu
def test_every_kind_of_option_reaches_the_board(run: Any, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run(
        "build", model, "--board", BOARD, "--batch", 2, "--class-weights", "1,2,0.5",
        "--label-smoothing", 0.1, "--optimizer", "adamw", "--weight-decay", 0.1, "--beta1", 0.8,
        "--clip-norm", 0.5, "--accumulate", 2, "--lr", 0.01, "--lr-schedule", "cosine",
        "--warmup", 1, "--total-steps", 6, "--train-last", 2, "--time-limit", "5s", "-o", out,
    )  # fmt: skip
    assert found.code == 0
    kept = json.loads((out / "manifest.json").read_text())["options"]
    assert kept["class_weights"] == [1.0, 2.0, 0.5]
    assert (kept["accumulate"], kept["train_last"], kept["beta1"]) == (2, 2, 0.8)
    checked = run("validate", out, "--emulate", "--steps", 3, "--json")
    assert checked.code == 0
    assert (checked.json["steps"], checked.json["bit_identical_to_host"]) == (6, True)


def test_a_loss_without_labels_trains_from_x_alone(run: Any, tmp_path: Path) -> None:
    path = models.save(models.mlp(1, (6, 8, 1)), tmp_path / "scalar.onnx")
    out, data = tmp_path / "out", tmp_path / "x.npz"
    np.savez(data, x=np.random.default_rng(0).random((4, 6)).astype(np.float32))
    assert run("build", path, "--board", "host", "--loss", "none", "-o", out).code == 0
    found = run("train", out, "--emulate", "--data", data, "--epochs", 3, "--json")
    assert found.code == 0
    assert found.json["steps"] == 12
    assert found.json["loss_last_epoch"] < found.json["loss_first"]
    assert run("validate", out, "--emulate", "--data", data).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--class-weights", "1,two"), "--class-weights: expected numbers with commas"),
        (("--class-weights", "1,2"), "--class-weights: expected 3 numbers, one a class, got 2"),
        (("--optimizer", "adm"), "--optimizer: expected one of"),
        (("--lr-schedule", "cosine"), "--total-steps: expected the number of updates, got none"),
        (("--train-last", "9"), "--train-last: expected at most the 3 operators"),
    ],
)
def test_refusals(run: Any, model: Path, words: tuple[str, ...], message: str) -> None:
    found = run("plan", model, "--board", BOARD, "--batch", 2, *words)
    assert found.code == 2
    assert message in found.err
