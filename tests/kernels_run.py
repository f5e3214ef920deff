"""A graph run by the C kernels on the host, node by node, through ctypes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from poet_mcu.ir.graph import Graph, Node, Role
from poet_mcu.ops.table import OPERATORS

sys.path.insert(0, str(Path(__file__).parent / "host"))
import kernel_build as kb

Arrays = dict[int, npt.NDArray[Any]]
#: the first step; 1 - beta of Adam's defaults is what its kernel gets at the first update
_FIRST = {"bias1": 0.1, "bias2": 0.001, "step": 0}


def run_node(graph: Graph, node: Node, values: Arrays, lr: float, lib: ctypes.CDLL) -> None:
    """Call the node's kernel; outputs lie in poison that must stay."""
    kinds = [[graph.values[v].type for v in side] for side in (node.inputs, node.outputs)]
    operator = OPERATORS[node.op]
    kernel = operator.kernel(kinds[0], kinds[1], node.attrs)
    scratch = operator.workspace_bytes(kinds[0], kinds[1], node.attrs)
    outs = [np.full(t.nbytes + 64, 0xFF, np.uint8) for t in kinds[1]]
    ins = [np.ascontiguousarray(values[graph.root(v)]) for v in node.inputs]
    for i in operator.mutates:
        ins[i] = ins[i].copy()
    args: list[Any] = []
    for role in kernel.args:
        if role.startswith("in"):
            args.append(ins[int(role[2:])])
        elif role.startswith("out"):
            args.append(outs[int(role[3:])][32:])
        elif role == "ws":
            args.append(np.full(scratch, 0xFF, np.uint8))
        else:
            args.append({"lr": lr, **_FIRST}.get(role))
    shape = [kb.descriptor(kernel)] if kernel.descriptor else []
    kb.call(lib, kernel.function, *shape, *args)
    for value, kind, raw in zip(node.outputs, kinds[1], outs, strict=True):
        assert (raw[:32] == 0xFF).all(), kernel.function
        assert (raw[32 + kind.nbytes :] == 0xFF).all(), kernel.function
        data = raw[32 : 32 + kind.nbytes].copy().view(kind.dtype.numpy)
        values[value] = data.reshape(kind.shape)
    for value, i in zip(node.mutates, operator.mutates, strict=True):
        values[value] = ins[i]


def run_kernels(
    graph: Graph,
    state: Mapping[int, npt.NDArray[Any]],
    feeds: Mapping[int, npt.NDArray[Any]],
    lr: float,
    fused: int = 0,
) -> Arrays:
    """What ``run_plain`` gives, computed in C."""
    values: Arrays = {
        v.id: np.zeros(v.shape, v.type.dtype.numpy) for v in graph.with_role(Role.STATE)
    }
    values.update(state)
    values.update(feeds)
    library = kb.library(kb.Build(fused))
    for node in graph.nodes:
        run_node(graph, node, values, lr, library)
    return values
