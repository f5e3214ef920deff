"""What is trained, from the command line to the weights: globs, biases, last operators, ties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
import torch
import training
from models import node, weights
from torch.nn import functional

LR = 0.1
EPOCHS = 4


def batchnorm(size: int = 6) -> Any:
    """Conv, BatchNormalization, Relu, GlobalAveragePool, a constant Reshape, MatMul."""
    tensors = {
        "conv.weight": weights(4, 2, 3, 3),
        "bn.weight": weights(4, seed=1) + np.float32(1),
        "bn.bias": weights(4, seed=2),
        "bn.mean": weights(4, seed=3),
        "bn.var": np.abs(weights(4, seed=4)) + np.float32(0.5),
        "fc.weight": weights(4, 3, seed=5),
        "shape": np.asarray([0, -1], np.int64),
    }
    nodes = [
        node("Conv", "x conv.weight", "c"),
        node("BatchNormalization", "c bn.weight bn.bias bn.mean bn.var", "n", "bn1"),
        node("Relu", "n", "r"),
        node("GlobalAveragePool", "r", "g"),
        node("Reshape", "g shape", "f"),
        node("MatMul", "f fc.weight", "y"),
    ]
    return models.model(nodes, ["N", 2, size, size], tensors, y=["N", 3])


def tied() -> Any:
    """One weight in two layers, and two biases that an exporter merged behind Identity."""
    tensors = {"w": weights(5, 5), "zero": np.zeros(5, np.float32)}
    nodes = [
        node("Identity", "zero", "b2"),
        node("Gemm", "x w zero", "h"),
        node("Relu", "h", "r"),
        node("Gemm", "r w b2", "y", transB=1),
    ]
    return models.model(nodes, ["N", 5], tensors, y=["N", 5])


def tied_in_torch(x: torch.Tensor, w: Any) -> torch.Tensor:
    return functional.relu(x @ w["w"] + w["zero"]) @ w["w"].T + w["b2"]


def trained(run: Any, proto: Any, folder: Path, *words: object, batch: int = 2) -> tuple[Any, Any]:
    """Weights of the saved model by name, and the batches it was trained on."""
    path = models.save(proto, folder / "m.onnx")
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim][1:]
    classes = proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value
    rng = np.random.default_rng(3)
    # One batch: whatever order an epoch takes its samples in, each step sees all of them.
    x = rng.standard_normal((batch, *shape)).astype(np.float32)
    y = rng.integers(0, classes, batch)
    np.savez(folder / "d.npz", x=x, y=y)
    out, saved = folder / "out", folder / "trained.onnx"
    build = ("build", path, "--board", "host", "--batch", batch, "--lr", LR, "-o", out)
    assert run(*build, *words).code == 0
    done = run(
        "train", out, "--emulate", "--data", folder / "d.npz", "--epochs", EPOCHS, "--save", saved
    )
    assert done.code == 0, done.err
    return training.initializers(saved), [(x, y)] * EPOCHS


def check(start: Any, got: Any, batches: Any, forward: Any, moved: set[str]) -> None:
    """``moved`` are PyTorch's after as many steps, all others as they were."""
    frozen = frozenset(start) - moved
    _, expected = training.train_torch(forward, start, batches, LR, frozen=frozen)
    for name, before in start.items():
        if name in moved:
            assert not np.array_equal(got[name], before), f"{name} did not move"
            assert training.relative(got[name], expected[name]) <= training.TWENTY_STEPS, name
        else:
            assert np.array_equal(got[name], before), f"{name} moved"


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        (("--train", "*.bias"), {"conv1.bias", "conv2.bias", "fc.bias"}),
        (("--train-last", 1), {"fc.weight", "fc.bias"}),
        (
            ("--freeze", "conv1.*", "--freeze", "fc.bias"),
            {"conv2.weight", "conv2.bias", "fc.weight"},
        ),
    ],
)
def test_only_what_was_chosen_moves(run: Any, tmp_path: Path, words: Any, moved: set[str]) -> None:
    proto = models.cnn("N")
    got, batches = trained(run, proto, tmp_path, *words)
    check(training.initializers(tmp_path / "m.onnx"), got, batches, training.digits, moved)


def test_tied_weights_add_and_merged_ones_stay_apart(run: Any, tmp_path: Path) -> None:
    got, batches = trained(run, tied(), tmp_path)
    start = training.initializers(tmp_path / "m.onnx")
    start["b2"] = start["zero"]
    assert not np.array_equal(got["zero"], got["b2"])
    check(start, got, batches, tied_in_torch, {"w", "zero", "b2"})


def test_batch_statistics_with_accumulation_warn(run: Any, tmp_path: Path) -> None:
    path = models.save(batchnorm(), tmp_path / "bn.onnx")
    plan = ("plan", path, "--board", "host", "--batch", 4, "--accumulate", 2)
    said = run(*plan)
    assert said.code == 0
    assert (
        "--accumulate 2 is not one large batch here, 'bn1' take statistics of each batch by "
        "itself; freeze them (--batchnorm frozen) or raise --batch"
    ) in said.err
    for quiet in (("--batchnorm", "frozen"), ("--freeze", "bn.weight")):
        said = run(*plan, *quiet)
        assert said.code == 0
        assert "not one large batch" not in said.err


def test_batch_statistics_over_one_value(run: Any, tmp_path: Path) -> None:
    path = models.save(batchnorm(3), tmp_path / "bn.onnx")
    plan = ("plan", path, "--board", "host")
    said = run(*plan, "--batch", 1, "--batchnorm", "train")
    assert said.code == 2
    assert (
        "expected two or more values a channel for --batchnorm train, got one (batch 1 on one "
        "position), whose variance is 0; raise --batch or choose --batchnorm frozen"
    ) in said.err
    assert run(*plan, "--batch", 2, "--batchnorm", "train").code == 0
    assert "keeps its running statistics" in run(*plan, "--batch", 1).err


@pytest.mark.parametrize("name", ["bn.mean", "bn.var", "shape"])
def test_statistics_and_shapes_are_no_weights(run: Any, tmp_path: Path, name: str) -> None:
    path = models.save(batchnorm(), tmp_path / "bn.onnx")
    plan = ("plan", path, "--board", "host", "--batch", 2)
    said = run(*plan, "--train", name)
    assert said.code == 2
    assert f"--train '{name}': expected a pattern that matches a weight, got no match" in said.err
    assert run(*plan, "--train", "*").code == 0


@pytest.mark.parametrize("option", ["--train", "--freeze"])
def test_a_misspelt_name_gives_the_nearest(run: Any, model: Path, option: str) -> None:
    said = run("plan", model, "--board", "host", "--batch", 2, option, "conv1.wieght")
    assert said.code == 2
    assert f"{option} 'conv1.wieght': expected a pattern that matches a weight" in said.err
    assert "conv1.weight" in said.err.split("conv1.wieght", 1)[1]
