"""Golden vectors: reading them, and our graph beside them. Runs where PyTorch is not installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parent))
import kernels_run

from poet_mcu.frontend.onnx_import import load_model
from poet_mcu.ir.graph import Graph, Phase, Role
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.sim.moment import Moment
from poet_mcu.sim.plain import run_plain
from poet_mcu.training.fuse import fused
from poet_mcu.training.rates import lr_factor
from poet_mcu.training.recipe import Recipe
from poet_mcu.training.training import training_graph

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
FOLDER = Path(__file__).parent / "data" / "golden"
LR = 0.1


@dataclass(frozen=True)
class Golden:
    """One vector: ``arrays`` holds x, labels and loss of each step, then what is expected.

    ``grad/NAME`` is the gradient of a weight in the one step, ``after/NAME`` the weight or
    statistic after all steps. ``tolerance`` is the largest difference allowed over the largest
    magnitude of a tensor: 1e-5, and 1e-4 where an exp-like function lies on the way.
    """

    model: bytes
    arrays: Mapping[str, Array]
    recipe: Mapping[str, Any]
    batchnorm: str
    fixed: tuple[str, ...]
    steps: int
    tolerance: float

    def graph(self, folder: Path) -> Graph:
        """The training graph, made from the stored model."""
        path = folder / "golden.onnx"
        path.write_bytes(self.model)
        found = load_model(
            path, None, lambda name: name not in self.fixed, batchnorm=self.batchnorm
        )
        graph = training_graph(found.graph, Recipe(**self.recipe), activation=found.activation)
        verify_graph(graph, training=True)
        return graph

    def feeds(self, graph: Graph, step: int) -> dict[int, Array]:
        """Input and labels of a step by value id."""
        (x,) = graph.with_role(Role.INPUT)
        made = {x.id: self.arrays["x"][step].astype(x.type.dtype.numpy)}
        for label in graph.with_role(Role.LABEL):
            wanted = self.arrays["labels"][step].astype(label.type.dtype.numpy)
            made[label.id] = wanted.reshape(label.shape)
        return made


@cache
def load(group: str) -> dict[str, Golden]:
    """All vectors of a file."""
    parts: dict[str, dict[str, Array]] = {}
    with np.load(FOLDER / f"{group}.npz") as data:
        for key in data.files:
            name, _, rest = key.partition("/")
            parts.setdefault(name, {})[rest] = data[key]
    found = {}
    for name, arrays in parts.items():
        meta = json.loads(arrays.pop("meta").tobytes())
        meta["fixed"] = tuple(meta["fixed"])
        if "class_weights" in meta["recipe"]:
            meta["recipe"]["class_weights"] = tuple(meta["recipe"]["class_weights"])
        found[name] = Golden(arrays.pop("model").tobytes(), arrays, **meta)
    return found


def groups() -> list[str]:
    """The names of the files."""
    return sorted(path.stem for path in FOLDER.glob("*.npz"))


def difference(got: Array, wanted: Array) -> float:
    """Largest difference over largest magnitude; absolute where all that is wanted is tiny."""
    a, b = np.asarray(got, np.float64).ravel(), np.asarray(wanted, np.float64).ravel()
    assert a.shape == b.shape, (got.shape, wanted.shape)
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-3))


def _gradients(graph: Graph, values: Mapping[int, Array]) -> Arrays:
    found = {}
    for node in graph.nodes:
        if node.phase is Phase.UPDATE:
            parameter = graph.values[node.inputs[0]]
            found[parameter.origin] = values[graph.root(node.inputs[1])].reshape(parameter.shape)
    return found


def one_step(golden: Golden, graph: Graph, fma: int | None) -> Arrays:
    """Loss and gradients by numpy (``fma`` None) or by the C kernels on the host."""
    feeds = golden.feeds(graph, 0)
    if fma is None:
        values = run_plain(graph, graph.initial, feeds, LR)
    else:
        values = kernels_run.run_kernels(graph, graph.initial, feeds, LR, fma)
    grads = {f"grad/{name}": g for name, g in _gradients(graph, values).items()}
    return {"loss": values[graph.outputs[0]].reshape(1), **grads}


def all_steps(golden: Golden, graph: Graph) -> Arrays:
    """Losses of all steps, then weights and statistics, by numpy."""
    recipe = Recipe(**golden.recipe)
    homes = graph.with_role(Role.PARAMETER, Role.CONSTANT, Role.STATE, Role.STATISTIC)
    state, losses = dict(graph.initial), []
    for step in range(golden.steps):
        moment = Moment.of(step, recipe.accumulate)
        rate = LR * lr_factor(recipe, moment.updates)
        values = run_plain(graph, state, golden.feeds(graph, step), rate, moment)
        state = {v.id: values[v.id] for v in homes}
        losses.append(values[graph.outputs[0]].reshape(()))
    kept = graph.with_role(Role.PARAMETER, Role.STATISTIC)
    after = {f"after/{v.origin}": state[v.id] for v in kept}
    return {"loss": np.asarray(losses), **after}


def operators(golden: Golden, folder: Path) -> set[str]:
    """Names of all operators in the training graph, and in the one with fused updates."""
    graph = golden.graph(folder)
    return {node.op for made in (graph, fused(graph)) for node in made.nodes}


def check(golden: Golden, found: Arrays) -> None:
    """Assert that ``found`` is all that is stored, within the tolerance."""
    wanted = {n: a for n, a in golden.arrays.items() if n not in ("x", "labels")}
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        assert difference(found[name], array) <= golden.tolerance, name


def check_in_numpy(folder: Path) -> int:
    """Compare every vector with the numpy references; how many there are."""
    count = 0
    for group in groups():
        for golden in load(group).values():
            graph = golden.graph(folder)
            if golden.steps:
                check(golden, all_steps(golden, graph))
                check(golden, all_steps(golden, fused(graph)))
            else:
                check(golden, one_step(golden, graph, None))
            count += 1
    return count
