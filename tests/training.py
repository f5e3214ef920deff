"""Training in PyTorch and in our numpy graph, side by side, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional

from poet_mcu.ir.graph import Graph, Role

Arrays = dict[str, npt.NDArray[Any]]
Forward = Callable[[torch.Tensor, Mapping[str, torch.Tensor]], torch.Tensor]

#: largest difference over largest magnitude, per tensor. float32 sums in another order: one step
#: differs by a few ulp, twenty steps multiply the difference by the steps' own sensitivity.
ONE_STEP = 1e-5
TWENTY_STEPS = 1e-4


def initializers(path: Path) -> Arrays:
    """The stored tensors of an ONNX file by name."""
    model = onnx.load(path)
    return {t.name: numpy_helper.to_array(t).copy() for t in model.graph.initializer}


def digits(x: torch.Tensor, w: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The forward pass of the digits example and of ``models.cnn``."""
    for name in ("conv1", "conv2"):
        x = functional.conv2d(x, w[f"{name}.weight"], w[f"{name}.bias"], padding=1)
        x = functional.max_pool2d(functional.relu(x), 2)
    return functional.linear(x.flatten(1), w["fc.weight"], w["fc.bias"])


def residual(x: torch.Tensor, w: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The forward pass of ``models.residual``."""
    conv = functional.conv2d
    r1 = functional.relu(conv(x, w["conv1.weight"], w["conv1.bias"], padding=1))
    r2 = functional.relu(conv(r1, w["conv2.weight"], w["conv2.bias"], padding=1))
    c3 = conv(r2, w["conv3.weight"], w["conv3.bias"], padding=1)
    p = functional.max_pool2d(functional.relu(c3 + r1), 2)
    return p.flatten(1) @ w["fc.weight"]


def mlp(x: torch.Tensor, w: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The forward pass of ``models.mlp`` with two layers."""
    h = functional.relu(functional.linear(x, w["fc1.weight"], w["fc1.bias"]))
    return functional.linear(h, w["fc2.weight"], w["fc2.bias"])


def train_torch(
    forward: Forward,
    start: Arrays,
    batches: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    lr: float,
    loss: str = "cross-entropy",
    frozen: frozenset[str] = frozenset(),
) -> tuple[list[float], Arrays]:
    """Losses and weights after plain SGD in PyTorch."""
    weights = {
        name: torch.tensor(array, requires_grad=name not in frozen) for name, array in start.items()
    }
    optimizer = torch.optim.SGD([w for w in weights.values() if w.requires_grad], lr=lr)
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        out = forward(torch.tensor(x), weights)
        if loss == "mse":
            value = functional.mse_loss(out, torch.tensor(y))
        else:
            value = functional.cross_entropy(out, torch.tensor(y).long())
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses, {name: w.detach().numpy() for name, w in weights.items()}


def relative(got: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """Largest difference over largest magnitude."""
    a, b = np.asarray(got, np.float64).ravel(), np.asarray(expected, np.float64).ravel()
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def names_of(graph: Graph) -> dict[str, int]:
    """Parameter ids by ONNX name."""
    return {v.origin or v.name: v.id for v in graph.with_role(Role.PARAMETER)}
