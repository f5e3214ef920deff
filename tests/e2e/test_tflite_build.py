"""From a .tflite file to generated C: its steps are Keras's, its trained weights an ONNX file."""

from __future__ import annotations

import eco
import models
import numpy as np
import onnx
import pytest

MODEL = eco.FOLDER / "cnn_float.tflite"
INT8 = eco.FOLDER / "cnn_int8.tflite"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    stored = eco.results("cnn")
    path = tmp_path_factory.mktemp("data") / "d.npz"
    np.savez(path, x=stored["x"], y=stored["labels"])
    return path


def test_check_and_plan(run):
    assert run("check", INT8).out == f"{INT8}: every operator is supported\n"
    planned = run("plan", INT8, "--board", "qemu-m7-sd", "--batch", "4", "--json")
    assert planned.code == 0
    assert planned.json["status"] == "optimal"


def test_a_step_in_c_is_that_of_keras(run, data, tmp_path):
    built = run(
        "build", MODEL, "--board", "host", "--batch", 3, "--lr", eco.LR, "-o", tmp_path / "o"
    )
    assert built.code == 0, built.err
    dump = tmp_path / "dump.npz"
    found = run(
        "validate", tmp_path / "o", "--emulate", "--steps", 1, "--data", data, "--dump", dump
    )
    assert found.code == 0, found.err
    stored, mine = eco.results("cnn"), eco.starts(eco.load(MODEL))
    before = {k.partition("/")[2]: v for k, v in stored.items() if k.startswith("before/")}
    pairs = eco.partners(mine, before)
    assert set(pairs) == set(before)
    with np.load(dump) as after:
        for name, (other, way) in pairs.items():
            wanted = eco.turned_like(stored[f"after/{name}"], mine[other].shape)[way]
            assert eco.relative(after[other], wanted) <= 1e-5, name


def test_what_was_done_to_the_integers_is_said_and_training_ends_in_onnx(run, data, tmp_path):
    built = run("build", INT8, "--board", "host", "--batch", 3, "-o", tmp_path / "o")
    assert built.code == 0, built.err
    assert "8 quantized tensors were dequantized: training is in float32" in built.err
    assert "the quantization of 7 activations is left out" in built.err
    target = tmp_path / "trained.onnx"
    trained = run(
        "train", tmp_path / "o", "--emulate", "--data", data, "--epochs", 2, "--save", target
    )
    assert trained.code == 0, trained.err
    onnx.checker.check_model(onnx.load(target))
    before = eco.forward(eco.load(INT8), eco.results("cnn")["x"])
    y = models.run_onnx(target, eco.results("cnn")["x"])
    assert y.shape == before.shape
    assert eco.relative(y, before) > 1e-3
