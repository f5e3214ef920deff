"""The stored models of other frameworks, one training step of them, and names that match."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import models
import numpy as np
import numpy.typing as npt

from poet_mcu.frontend.onnx_import import ImportedModel, load_model, weight_names
from poet_mcu.ir.graph import Role
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.sim.plain import run_plain
from poet_mcu.training.recipe import Recipe
from poet_mcu.training.training import training_graph

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
FOLDER = Path(__file__).parent / "data" / "eco"
LR = 0.1
BATCH = 3


@cache
def results(name: str) -> Arrays:
    """What tools/make_eco.py stored of a model."""
    with np.load(FOLDER / f"{name}.npz") as data:
        return {key: data[key] for key in data.files}


def relative(got: npt.ArrayLike, wanted: npt.ArrayLike) -> float:
    """Largest difference over largest magnitude."""
    a, b = np.asarray(got, np.float64).ravel(), np.asarray(wanted, np.float64).ravel()
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def load(path: Path, train: bool = True, batchnorm: str = "frozen") -> ImportedModel:
    """The model with a batch of three."""
    numbers = weight_names(path).numbers if train else frozenset()
    found = load_model(path, BATCH, lambda name: train and name not in numbers, batchnorm=batchnorm)
    verify_graph(found.graph, training=False)
    return found


def forward(found: ImportedModel, x: Array) -> Array:
    """The model's own output, behind the Softmax that the loss took."""
    y = models.run_graph(found.graph, x)[0]
    return models.softmax(y) if found.has_softmax else y


def one_step(
    found: ImportedModel, x: Array, labels: Array, loss: str, lr: float = LR
) -> tuple[float, Arrays]:
    """Loss and all parameters by ONNX name after one step of SGD."""
    graph = training_graph(found.graph, Recipe(loss=loss), activation=found.activation)
    verify_graph(graph, training=True)
    (source,), (label,) = graph.with_role(Role.INPUT), graph.with_role(Role.LABEL)
    feeds = {
        source.id: x.astype(source.type.dtype.numpy).reshape(source.shape),
        label.id: labels.astype(label.type.dtype.numpy).reshape(label.shape),
    }
    values = run_plain(graph, graph.initial, feeds, lr)
    after = {v.origin: values[v.id] for v in graph.with_role(Role.PARAMETER)}
    return float(values[graph.outputs[0]].reshape(())), after


def starts(found: ImportedModel) -> Arrays:
    """Parameters by ONNX name as the model stores them."""
    graph = found.graph
    return {v.origin: graph.initial[v.id] for v in graph.with_role(Role.PARAMETER)}


def turned_like(array: Array, shape: tuple[int, ...]) -> list[Array]:
    """The ways a kernel of Keras may be laid out under ``shape``."""
    orders = {2: ((0, 1), (1, 0)), 4: ((3, 2, 0, 1), (2, 3, 0, 1)), 3: ((2, 1, 0),)}
    found = [array.transpose(order) for order in orders.get(array.ndim, ())]
    if array.ndim == 4:  # depthwise: [H, W, C, multiplier]
        h, w, c, m = array.shape
        found.append(array.reshape(h, w, c * m).transpose(2, 0, 1)[:, None])
    found.append(array)
    return [a.reshape(shape) for a in found if a.size == np.prod(shape, dtype=int)]


def partners(mine: Mapping[str, Array], theirs: Mapping[str, Array]) -> dict[str, tuple[str, int]]:
    """For each of ``theirs`` the one of ``mine`` with the same start values, and the layout.

    A number added to all of a bias (that of a hard sigmoid, folded by the converter) is no
    difference: it has no gradient of its own.
    """
    found: dict[str, tuple[str, int]] = {}
    for name, array in theirs.items():
        taken = {other for other, _ in found.values()}
        for other, start in mine.items():
            for way, turned in enumerate(turned_like(array, start.shape)):
                apart = start - turned
                same = array.size > 1 and np.ptp(apart) < 1e-6
                if (same or not apart.any()) and other not in taken:
                    found.setdefault(name, (other, way))
    return found
