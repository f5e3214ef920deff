"""Single operators behind a trained shift of the input, in our graph and in PyTorch.

Every model is x -> Add p -> the operators under test -> y. The gradient of p is that of the
operators' input, so one comparison of gradients by name covers inputs and weights alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kernels_run
import models
import numpy as np
import numpy.typing as npt
import onnx
import torch
import training

from poet_mcu.ir.graph import Graph, Role
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.selfcheck import sample_feeds
from poet_mcu.sim.plain import run_plain

Torch = Callable[[torch.Tensor, Mapping[str, torch.Tensor]], torch.Tensor]
Arrays = dict[str, npt.NDArray[Any]]
LIMIT = 1e-5


@dataclass(frozen=True)
class Layer:
    """``nodes`` lead from ``h`` (of the shape ``x``) to ``y``; ``torch`` does the same."""

    nodes: Sequence[onnx.NodeProto]
    x: Sequence[int]
    torch: Torch
    tensors: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    opset: int = 17
    options: Mapping[str, Any] = field(default_factory=dict)
    limit: float = LIMIT

    def model(self) -> onnx.ModelProto:
        shift = {"p": models.weights(*self.x, seed=5)}
        nodes = [models.node("Add", "x p", "h"), *self.nodes]
        rank = len(self.run_torch(torch.zeros(*self.x), self.start()).shape)
        dims = [f"d{i}" for i in range(rank)]
        return models.model(nodes, self.x, {**shift, **self.tensors}, y=dims, opset=self.opset)

    def start(self) -> dict[str, torch.Tensor]:
        made = {"p": models.weights(*self.x, seed=5), **self.tensors}
        return {n: torch.tensor(a, requires_grad=a.dtype == np.float32) for n, a in made.items()}

    def run_torch(self, x: torch.Tensor, w: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return self.torch(x + w["p"], w)


def made(layer: Layer, folder: Path) -> Prepared:
    path = models.save(layer.model(), folder / "layer.onnx")
    # Unfused: the gradients are looked at.
    return prepare(Options(path, "host", loss="mse", fuse=False, **layer.options))


def gradients(graph: Graph, values: Mapping[int, npt.NDArray[Any]]) -> Arrays:
    """What each parameter's update reads, by ONNX name."""
    found = {}
    for node in graph.nodes:
        if node.op == "sgd":
            value = graph.values[node.inputs[0]]
            found[value.origin] = values[graph.root(node.inputs[1])].reshape(value.shape)
    return found


def torch_gradients(layer: Layer, feeds: Mapping[int, Any], graph: Graph) -> tuple[Any, Arrays]:
    """Output and gradients in PyTorch for the mean squared error against the labels."""
    (x,), (t,) = graph.with_role(Role.INPUT), graph.with_role(Role.LABEL)
    w = layer.start()
    y = layer.run_torch(torch.tensor(feeds[x.id]), w)
    loss = torch.nn.functional.mse_loss(y, torch.tensor(feeds[t.id]).reshape(y.shape))
    loss.backward()
    grads = {n: v.grad.numpy() for n, v in w.items() if v.grad is not None}
    return y.detach().numpy(), grads


def check(layer: Layer, folder: Path, runtime: bool = True) -> Prepared:
    """numpy and C against PyTorch; the forward pass against ONNX Runtime too."""
    prepared = made(layer, folder)
    graph = prepared.train
    feeds = sample_feeds(graph)
    expected, expected_grads = torch_gradients(layer, feeds, graph)
    plain = run_plain(graph, graph.initial, feeds, 0.1)
    output = next(n for n in graph.nodes if n.op == "mse").inputs[0]
    for fused in (0, 1):
        ours = kernels_run.run_kernels(graph, graph.initial, feeds, 0.1, fused)
        for values, who in ((plain, "numpy"), (ours, "C")):
            y = values[graph.root(output)].reshape(expected.shape)
            assert training.relative(y, expected) <= layer.limit, who
            found = gradients(graph, values)
            assert found, "nothing is trained"
            for name, gradient in found.items():
                limit = training.relative(gradient, expected_grads[name])
                assert limit <= layer.limit, (who, name)
        for value in graph.values:
            if value.base is None and value.id in ours:
                difference = training.relative(ours[value.id], plain[value.id])
                assert difference <= 10 * layer.limit, value.name
    if runtime:
        (x,) = graph.with_role(Role.INPUT)
        (xe,) = prepared.evaluation.with_role(Role.INPUT)
        theirs = models.run_onnx(folder / "layer.onnx", feeds[x.id])
        mine = models.run_graph(prepared.evaluation, feeds[x.id])[0].reshape(theirs.shape)
        assert xe.shape == x.shape
        assert training.relative(mine, theirs) <= layer.limit
    return prepared
