"""A family of networks by both of PyTorch's exporters: outputs, one training step, and back."""

from __future__ import annotations

import copy
from pathlib import Path

import eco
import models
import numpy as np
import pytest
import torch
from networks import COMPUTED, NETWORKS, network
from torch import nn
from torch.nn import functional

from poet_mcu.frontend.export import save_with_weights
from poet_mcu.frontend.onnx_import import check_model

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
#: float32 on both sides, sums in another order; gates and Softmax are exp-like
LIMIT, EXP = 1e-5, 1e-4
#: exporters sort the gates of these into ONNX's order: what is left has its own place
_REORDERED = ("gru", "lstm")
_EXP = ("attention", "encoder", "scaled", "started", "weight_norm", *_REORDERED)
SAMPLES = {name: sample for name, (_, sample) in (NETWORKS | COMPUTED).items()}


def exported(name: str, dynamo: bool, fold: bool, folder: Path) -> tuple[nn.Module, Path]:
    module = network(name)
    example = torch.randn(2, *SAMPLES[name])
    path = folder / f"{name}.onnx"
    options = {"dynamo": dynamo, "fold": fold, "batch_name": "batch"}
    data = models.torch_export(copy.deepcopy(module), example, **options)
    path.write_bytes(data)
    return module, path


def torch_step(module: nn.Module, x: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, eco.Arrays]:
    """Output before, and the parameters after a step of SGD on the mean squared error."""
    y = module(torch.tensor(x))
    functional.mse_loss(y, torch.tensor(t)).backward()
    with torch.no_grad():
        for p in module.parameters():
            p.sub_(eco.LR * p.grad)
    return y.detach().numpy(), {n: p.detach().numpy() for n, p in module.named_parameters()}


def agrees(name: str, dynamo: bool, folder: Path, fold: bool = True) -> None:
    module, path = exported(name, dynamo, fold, folder)
    assert check_model(path) == []
    found = eco.load(path)
    x = models.weights(eco.BATCH, *SAMPLES[name], seed=5, scale=1.0)
    before = {n: p.detach().numpy().copy() for n, p in module.named_parameters()}
    t = models.weights(*found.report.output_shape, seed=6)
    y, after = torch_step(module, x, t)
    limit = EXP if name in _EXP else LIMIT
    assert eco.relative(eco.forward(found, x), y) <= limit
    mine = eco.starts(found)
    _, trained = eco.one_step(found, x, t, "mse")
    pairs = eco.partners(mine, before)
    if not fold or name not in _REORDERED:
        assert set(pairs) == set(before)
    assert pairs
    for parameter, (other, way) in pairs.items():
        wanted = eco.turned_like(after[parameter], mine[other].shape)[way]
        assert eco.relative(trained[other], wanted) <= limit, parameter
    save_with_weights(path, trained, folder / "trained.onnx")
    again = eco.forward(eco.load(folder / "trained.onnx"), x)
    theirs = models.run_onnx(folder / "trained.onnx", x)
    assert eco.relative(theirs, again) <= limit
    with torch.no_grad():
        assert eco.relative(theirs, module(torch.tensor(x)).numpy()) <= 10 * limit


@pytest.mark.parametrize("name", NETWORKS)
def test_the_script_exporter(name, tmp_path):
    agrees(name, False, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_the_dynamo_exporter(name, tmp_path):
    agrees(name, True, tmp_path)


@pytest.mark.parametrize("name", ["gru", "lstm", "attention", *COMPUTED])
def test_weights_computed_in_the_file_are_trained_where_they_are_stored(name, tmp_path):
    """Slices, sums, norms of trained tensors are computed on the board, with their gradients."""
    agrees(name, False, tmp_path, fold=False)
