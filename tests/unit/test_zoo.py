"""The networks of tools/make_zoo.py trained by the C kernels as PyTorch trains them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import kernels_run
import models
import numpy as np
import pytest
import torch
import training
from torch import nn

from poet_mcu.frontend.onnx_import import load_model
from poet_mcu.ir.graph import Graph, Role
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.selfcheck import sample_feeds

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import make_zoo

STEPS = 3
LR = 0.01
LIMIT = 1e-4
#: normalization over few values needs a larger batch to be well-conditioned
BATCH = {"autoencoder": 16}
#: networks whose batch normalizations can be folded; e2e/test_zoo_training.py trains the others
FOLDED = ("resnet8", "ds_cnn", "mobilenet", "autoencoder", "lenet5", "imu_cnn")
#: PyTorch's newer exporter takes seconds; this one has attention, embeddings and Gelu
DYNAMO = ("bert_tiny",)


def prepared(name: str, module: nn.Module, folder: Path, batch: int) -> Prepared:
    path = folder / f"{name}.onnx"
    path.write_bytes(make_zoo.export(module, name))
    return prepare(Options(path, "host", batch=batch, loss=make_zoo.ZOO[name].loss))


def feeds_of(graph: Graph, steps: int) -> list[dict[int, Any]]:
    return [sample_feeds(graph, step) for step in range(steps)]


def train_torch(
    module: nn.Module, work: list[tuple[Any, Any]], loss: str, lr: float = LR
) -> list[float]:
    optimizer = torch.optim.SGD(module.parameters(), lr)
    module.train()
    losses = []
    for x, y in work:
        optimizer.zero_grad()
        out = module(torch.tensor(x))
        if loss == "mse":
            value = nn.functional.mse_loss(out, torch.tensor(y))
        else:
            value = nn.functional.cross_entropy(out, torch.tensor(y).long())
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def compare(name: str, width: float, batch: int, folder: Path) -> None:
    """The network with its batch normalizations folded, by the kernels alone."""
    module = make_zoo.folded(make_zoo.make_module(name, width))
    made = prepared(name, module, folder, batch)
    graph = made.train
    (x,), (y,) = graph.with_role(Role.INPUT), graph.with_role(Role.LABEL)
    state, losses, work = dict(graph.initial), [], []
    for feeds in feeds_of(graph, STEPS):
        values = kernels_run.run_kernels(graph, state, feeds, LR)
        state = {i: values[i] for i in state}
        losses.append(float(values[graph.outputs[0]]))
        work.append((feeds[x.id], feeds[y.id]))
    expected = train_torch(module, work, made.options.loss)
    assert training.relative(losses, expected) <= LIMIT
    theirs = {n: t.detach().numpy() for n, t in module.state_dict().items()}
    ours = {v.origin: state[v.id] for v in graph.with_role(Role.PARAMETER)}
    assert ours.keys() == theirs.keys()
    for key, array in ours.items():
        assert training.relative(array, theirs[key]) <= LIMIT, key
        assert not np.array_equal(array, graph.initial[_id(graph, key)]), f"{key} did not move"


def _id(graph: Graph, origin: str) -> int:
    return next(v.id for v in graph.values if v.origin == origin and v.base is None)


def test_a_narrow_folded_resnet8_trains_as_in_pytorch(tmp_path: Path) -> None:
    compare("resnet8", 0.25, 4, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDED)
def test_the_folded_zoo_trains_as_in_pytorch(name: str, tmp_path: Path) -> None:
    compare(name, 1.0, BATCH.get(name, 4), tmp_path)


@pytest.mark.parametrize("name", make_zoo.ZOO)
def test_every_network_imports(name: str, tmp_path: Path) -> None:
    module = make_zoo.make_module(name, 0.125)
    made = prepared(name, module, tmp_path, 2)
    normed = [m for m in module.modules() if isinstance(m, make_zoo.Normed)]
    assert len(made.train.with_role(Role.STATISTIC)) == 2 * len(normed)
    plain = prepared(name, make_zoo.folded(module), tmp_path, 2)
    assert plain.train.with_role(Role.STATISTIC) == ()


def compute(name: str, exporter: str, folder: Path) -> tuple[Any, Any]:
    """Outputs of the imported graph, by stored statistics, and of PyTorch."""
    module = make_zoo.make_module(name, 0.125)
    path = folder / f"{name}.onnx"
    path.write_bytes(make_zoo.export(module, name, exporter))
    graph = load_model(path, 2, lambda _: True, batchnorm="frozen").graph
    rng = np.random.default_rng(3)
    words, shape = make_zoo.ZOO[name].words, (2, *make_zoo.ZOO[name].sample)
    x = rng.integers(0, words, shape) if words else rng.random(shape, np.float32)
    with torch.no_grad():
        expected = module(torch.tensor(x)).numpy()
    return models.run_graph(graph, x)[0].reshape(expected.shape), expected


@pytest.mark.parametrize("name", make_zoo.ZOO)
def test_both_exporters_files_compute_what_pytorch_computes(name: str, tmp_path: Path) -> None:
    """1e-5 of the largest output: sums of float32 in another order."""
    for exporter in make_zoo.EXPORTERS if name in DYNAMO else ("script",):
        assert training.relative(*compute(name, exporter, tmp_path)) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in make_zoo.ZOO if name not in DYNAMO])
def test_the_newer_exporters_files_compute_what_pytorch_computes(name: str, tmp_path: Path) -> None:
    assert training.relative(*compute(name, "dynamo", tmp_path)) <= 1e-5


def test_a_number_in_a_node_is_no_weight(tmp_path: Path) -> None:
    """The scale of an attention, which the script exporter writes as a Constant of shape [1]."""
    path = tmp_path / "t.onnx"
    path.write_bytes(make_zoo.export(make_zoo.make_module("transformer", 0.125), "transformer"))
    found = load_model(path, 2, lambda _: True)
    assert not [name for name in found.report.weights if "Constant" in name]
