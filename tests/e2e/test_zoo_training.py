"""Every network of the zoo, five steps with SGD and with Adam: the built program beside PyTorch.

The program is what ``poet-mcu build --board host`` makes: the generated C, run as a process.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import torch
import training
import zoo
from zoo import make_zoo

from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.validate import Run

#: Largest difference over largest magnitude of a tensor: what a layer computes with a weight is as
#: far off as the weight is beside the layer's largest ones, so a weight near 0 needs no more.
LIMIT = 1e-4
#: PyTorch's own float32 and float64 must agree ten times better than that, see ``zoo.Setting``
NOISE = LIMIT / 10
#: a gradient this much above its rounding error gives Adam's quotient to a thousandth
SURE = 1e3
#: PyTorch's default
ADAM_LR = 1e-3
#: these run by default; together they have every kind of layer
DAILY = {
    "sgd": ("resnet8", "bert_tiny", "lstm"),
    "adam": ("ds_cnn", "imu_cnn", "transformer"),
}


def daily(optimizer: str) -> list[Any]:
    """Every network, the others than the daily ones marked slow."""
    chosen = DAILY[optimizer]
    return [n if n in chosen else pytest.param(n, marks=pytest.mark.slow) for n in make_zoo.ZOO]


def trained(
    name: str, setting: zoo.Setting, optimizer: str, folder: Path
) -> tuple[zoo.Truth, zoo.Truth, Run, zoo.Arrays, zoo.Arrays]:
    """PyTorch in float32 and float64, our run, our optimizer state, the start values."""
    module = make_zoo.make_module(name, setting.width)
    path = zoo.write(name, module, folder)
    options = zoo.options_for(
        name, path, "host", batch=setting.batch, lr=setting.lr, batchnorm=setting.batchnorm,
        optimizer=optimizer, strategy="free-early",
    )  # fmt: skip
    clear = zoo.clear_work(module, options) if setting.clear else None
    build(options, folder / "out")
    run, work, state = zoo.on_host(folder / "out", zoo.STEPS, clear)
    single = zoo.as_stored(zoo.train_torch(module, work, options), path)
    double = zoo.as_stored(zoo.train_torch(module, work, options, torch.float64), path)
    return single, double, run, state, start_values(path)


def start_values(path: Path) -> zoo.Arrays:
    """The parameters in the file; of equal ones PyTorch stores one, and copies by Identity."""
    found = dict(training.initializers(path))
    for node in onnx.load(path).graph.node:
        if node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def float_tensors(truth: zoo.Truth) -> list[str]:
    return [name for name in truth.tensors if not name.endswith("num_batches_tracked")]


def check_sgd(name: str, setting: zoo.Setting, folder: Path) -> None:
    single, double, run, _, start = trained(name, setting, "sgd", folder)
    assert training.relative(run.losses, single.losses) <= LIMIT
    for key in float_tensors(single):
        assert training.relative(single.tensors[key], double.tensors[key]) <= NOISE, key
        assert training.relative(run.weights[key], single.tensors[key]) <= LIMIT, key
        if training.relative(single.tensors[key], start[key]) > NOISE:
            assert not np.array_equal(run.weights[key], start[key].ravel()), f"{key} did not move"


def sure(single: zoo.Truth, double: zoo.Truth, key: str) -> npt.NDArray[np.bool_]:
    """Elements whose gradient stood well above its rounding error in every step.

    Adam's first updates are lr * g / (|g| + 1e-8): a gradient that is 0 but for rounding (the bias
    of an attention's keys, say, which no loss depends on) moves its weight by the whole rate, and
    in PyTorch's two precisions to different sides. Nothing can be compared there. One that is 0
    exactly (a word that is not in the batch, say) leaves its weight where it is.
    """
    pairs = zip(single.gradients[key], double.gradients[key], strict=True)
    tests = [
        (np.abs(g) >= SURE * np.abs(g - exact).max()) | ((g == 0) & (exact == 0))
        for g, exact in pairs
    ]
    return np.logical_and.reduce(tests).ravel()


def check_adam(name: str, setting: zoo.Setting, folder: Path) -> None:
    setting = replace(setting, lr=ADAM_LR, batchnorm=setting.adam)
    single, double, run, state, _ = trained(name, setting, "adam", folder)
    assert training.relative(run.losses, single.losses) <= LIMIT
    compared = total = 0
    for key in single.gradients:
        chosen = sure(single, double, key)
        got, expected = run.weights[key], single.tensors[key].ravel()
        off = np.abs(got - expected)
        assert (off[chosen] <= LIMIT * np.abs(expected).max()).all(), key
        # The others stay within what Adam can do at all: at most the rate a step, either way.
        assert (off <= 2 * zoo.STEPS * setting.lr * 1.1).all(), key
        compared, total = compared + int(chosen.sum()), total + chosen.size
        check_moments(single, double, state, key)
    assert compared >= 0.5 * total


def check_moments(single: zoo.Truth, double: zoo.Truth, state: zoo.Arrays, key: str) -> None:
    """All elements of the two averages, which are sums of gradients and their squares.

    Their error is that of the gradients; where those are rounding and nothing else, so is it.
    """
    for ours, theirs in (("mean", "exp_avg"), ("square", "exp_avg_sq")):
        expected = single.state[f"{key}:{theirs}"].ravel()
        noise = np.abs(expected - double.state[f"{key}:{theirs}"].ravel()).max()
        limit = max(LIMIT * np.abs(expected).max(), 10 * noise)
        assert np.abs(state[f"{key}:{ours}"].ravel() - expected).max() <= limit, (key, theirs)


@pytest.mark.parametrize("name", daily("sgd"))
def test_sgd_is_pytorchs(name: str, tmp_path: Path) -> None:
    check_sgd(name, zoo.SETTINGS[name], tmp_path)


@pytest.mark.parametrize("name", daily("adam"))
def test_adam_is_pytorchs(name: str, tmp_path: Path) -> None:
    check_adam(name, zoo.SETTINGS[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", make_zoo.ZOO)
def test_sgd_at_full_width_is_pytorchs(name: str, tmp_path: Path) -> None:
    setting = zoo.FULL_WIDTH.get(name, zoo.SETTINGS[name])
    check_sgd(name, replace(setting, width=1.0), tmp_path)
