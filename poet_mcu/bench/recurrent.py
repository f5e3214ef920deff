"""Rows of the benchmark that are easier to make from a small model than node by node."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from poet_mcu.bench.case import Case
from poet_mcu.bench.cases import all_cases
from poet_mcu.bench.joined import ended, joined
from poet_mcu.frontend.onnx_import import load_model
from poet_mcu.ir.graph import Graph, TensorType
from poet_mcu.training.recipe import Recipe
from poet_mcu.training.training import training_graph

STEPS, BATCH, WIDTH, HIDDEN = 8, 2, 8, 16
#: operator -> gates, and whether it has peepholes
LAYERS = {"LSTM": (4, True), "GRU": (3, False), "RNN": (1, False)}
#: PyTorch's form, whose biases are apart
MORE: dict[str, dict[str, Any]] = {"GRU": {"linear_before_reset": 1}}
#: nodes of other rows that come along
FAMILIES = ("lstm", "gru", "rnn", "recurrent")


def types(graph: Graph, ids: Sequence[int]) -> tuple[TensorType, ...]:
    """The types of some values."""
    return tuple(graph.values[i].type for i in ids)


def cases_of(graph: Graph, label: str) -> list[Case]:
    """A case for each node, named by its number."""
    return [
        Case(f"{label}_{node.id}", node.op, types(graph, node.inputs), node.attrs, below=1)
        for node in graph.nodes
    ]


def _model(op: str) -> onnx.ModelProto:
    """One recurrent layer with every operand: weights, biases, start state, peepholes."""
    gates, peepholes = LAYERS[op]
    rng = np.random.default_rng(0)
    shapes = {
        "w": (1, gates * HIDDEN, WIDTH), "r": (1, gates * HIDDEN, HIDDEN),
        "b": (1, 2 * gates * HIDDEN), "h": (1, BATCH, HIDDEN),
    }  # fmt: skip
    names = ["x", "w", "r", "b", "", "h"]
    if peepholes:
        shapes |= {"c": (1, BATCH, HIDDEN), "p": (1, 3 * HIDDEN)}
        names += ["c", "p"]
    stored = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], op, hidden_size=HIDDEN, **MORE.get(op, {}))],
        op,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, BATCH, WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [STEPS, 1, BATCH, HIDDEN])],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@cache
def recurrent_cases() -> tuple[Case, ...]:
    """Forward and backward kernels of LSTM with peepholes, GRU and RNN."""
    found: dict[str, Case] = {}
    with tempfile.TemporaryDirectory() as folder:
        for op in LAYERS:
            path = Path(folder) / f"{op}.onnx"
            onnx.save(_model(op), path)
            graph = training_graph(load_model(path, None, lambda _: True).graph, Recipe(loss="mse"))
            for node in graph.nodes:
                if node.op.split("_")[0] in FAMILIES:
                    inputs = types(graph, node.inputs)
                    found[node.op] = Case(node.op, node.op, inputs, node.attrs, low=0.01)
    return tuple(found.values())


def every_case() -> list[Case]:
    """All rows of the benchmark."""
    return [*all_cases(), *joined(), *ended(), *recurrent_cases()]
