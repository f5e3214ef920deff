"""Runs a graph node by node with the C kernels, and gradients of small models beside PyTorch's."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import models
import numpy as np
import numpy.typing as npt
import onnx
import torch

sys.path.insert(0, str(Path(__file__).parent / "host"))
import kernel_build as kb

from poet_mcu.frontend.onnx_import import load_model
from poet_mcu.ir.graph import Graph, Phase, Role, TensorType
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.lower.lower import kernel_of
from poet_mcu.ops.operator import Kernel
from poet_mcu.sim.plain import run_plain
from poet_mcu.training.recipe import Recipe
from poet_mcu.training.training import training_graph

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
_POISON = 0xA5
_GUARD = 64


def run_c(
    graph: Graph, state: Mapping[int, Array], feeds: Mapping[int, Array], lr: float, fused: int
) -> dict[int, Array]:
    """All values by root id after one step, every node by its C kernel on the host.

    Outputs lie in poison, and in place of an operand wherever the operator allows it, so that a
    write outside and a read behind a write show up.
    """
    library = kb.library(kb.Build(fused))
    values = {i: np.array(a) for i, a in {**state, **feeds}.items()}
    for node in graph.nodes:
        kernel = kernel_of(graph, node.id)
        arrays = {f"in{i}": np.array(values[graph.root(v)]) for i, v in enumerate(node.inputs)}
        bytes_of = {}
        for i, out in enumerate(node.outputs):
            kind = graph.values[out].type
            bytes_of[f"out{i}"] = np.full(kind.nbytes + 2 * _GUARD, _POISON, np.uint8)
            arrays[f"out{i}"] = bytes_of[f"out{i}"][_GUARD : _GUARD + kind.nbytes]
        _invoke(library, kernel, arrays, lr)
        for i, out in enumerate(node.outputs):
            raw, kind = bytes_of[f"out{i}"], graph.values[out].type
            assert (raw[:_GUARD] == _POISON).all(), f"{node.op}: wrote before its output"
            assert (raw[_GUARD + kind.nbytes :] == _POISON).all(), f"{node.op}: wrote behind it"
            values[out] = _array(raw[_GUARD : _GUARD + kind.nbytes], kind)
        for value in node.mutates:
            values[value] = arrays[f"in{node.inputs.index(value)}"]
        _check_in_place(library, graph, node.id, kernel, values, lr)
    return values


def _array(raw: Array, kind: TensorType) -> Array:
    return raw.copy().view(kind.dtype.numpy).reshape(kind.shape)


def _invoke(library: ctypes.CDLL, kernel: Kernel, arrays: Arrays, lr: float) -> None:
    arguments: list[Any] = [ctypes.byref(kb.descriptor(kernel))] if kernel.descriptor else []
    for role in kernel.args:
        if role == "null":
            arguments.append(None)
        elif role == "step":
            arguments.append(ctypes.c_uint32(0))
        elif role == "lr":
            arguments.append(ctypes.c_float(lr))
        else:
            arguments.append(ctypes.c_void_p(arrays[role].ctypes.data))
    function = getattr(library, kernel.function)
    function.restype = None
    function(*arguments)


def _check_in_place(
    library: ctypes.CDLL,
    graph: Graph,
    node_id: int,
    kernel: Kernel,
    values: Mapping[int, Array],
    lr: float,
) -> None:
    """Every in-place pair gives the same bits."""
    from poet_mcu.ops.table import OPERATORS  # noqa: PLC0415 - beside its one use

    node = graph.nodes[node_id]
    for out, taken in OPERATORS[node.op].in_place:
        root = graph.root(node.inputs[taken])
        if graph.values[root].type.nbytes != graph.values[node.outputs[out]].type.nbytes:
            continue
        arrays = {f"in{i}": np.array(values[graph.root(v)]) for i, v in enumerate(node.inputs)}
        for i, value in enumerate(node.inputs):
            if graph.root(value) == root:
                arrays[f"in{i}"] = arrays[f"in{taken}"]
        for i, value in enumerate(node.outputs):
            arrays[f"out{i}"] = np.zeros_like(values[value])
        arrays[f"out{out}"] = arrays[f"in{taken}"]
        _invoke(library, kernel, arrays, lr)
        got = arrays[f"out{out}"].reshape(-1).view(np.uint8)
        wanted = np.ascontiguousarray(values[node.outputs[out]]).reshape(-1).view(np.uint8)
        assert np.array_equal(got, wanted), f"{node.op}: in place over input {taken}"


# --- gradients ----------------------------------------------------------------------------------

Function = Callable[..., torch.Tensor]


def graph_of(
    nodes: Sequence[onnx.NodeProto], x: Array, tensors: Arrays, folder: Path, opset: int
) -> Graph:
    """The training graph, by mean squared error, of ``nodes`` on ``h = x + shift``.

    All of ``tensors`` with axes are trained, and ``shift``, whose gradient is that of ``h``.
    """
    first = models.node("Add", "x shift", "h", "first")
    stored = {"shift": np.zeros(x.shape, np.float32), **tensors}
    proto = models.model([first, *nodes], x.shape, stored, opset=opset)
    forward = load_model(models.save(proto, folder / "m.onnx"), None, lambda _: True).graph
    graph = training_graph(forward, Recipe(loss="mse"))
    verify_graph(graph, training=True)
    return graph


def gradients(graph: Graph, values: Mapping[int, Array]) -> Arrays:
    """Gradient of each trained tensor by its ONNX name."""
    found = {}
    for node in graph.nodes:
        if node.phase is Phase.UPDATE:
            parameter = graph.values[node.inputs[0]]
            found[parameter.origin] = values[graph.root(node.inputs[1])].reshape(parameter.shape)
    return found


def expected(function: Function, x: Array, tensors: Arrays, target: Array) -> tuple[float, Arrays]:
    """Loss and gradients by PyTorch in double precision."""
    leaves = {"shift": torch.tensor(x, dtype=torch.float64, requires_grad=True)}
    leaves |= {
        name: torch.tensor(a, dtype=torch.float64, requires_grad=True)
        for name, a in tensors.items()
        if a.dtype == np.float32
    }
    h, *rest = leaves.values()
    y = function(h, *rest)
    loss = ((y.reshape(target.shape) - torch.tensor(target, dtype=torch.float64)) ** 2).mean()
    loss.backward()
    grads = {n: leaf.grad.numpy() for n, leaf in leaves.items() if leaf.grad is not None}
    return loss.item(), grads


def compare(
    nodes: Sequence[onnx.NodeProto],
    function: Function,
    x: Array,
    tensors: Arrays,
    folder: Path,
    *,
    tolerance: float = 1e-5,
    opset: int = 17,
) -> Graph:
    """Loss and all gradients of numpy and of the C kernels equal PyTorch's; the graph."""
    graph = graph_of(nodes, x, tensors, folder, opset)
    (source,), (label,) = graph.with_role(Role.INPUT), graph.with_role(Role.LABEL)
    target = np.random.default_rng(7).standard_normal(label.shape).astype(np.float32)
    loss, wanted = expected(function, x, tensors, target)
    feeds = {source.id: x, label.id: target}
    runs = [run_plain(graph, graph.initial, feeds, 0.1)]
    runs += [run_c(graph, graph.initial, feeds, 0.1, fused) for fused in (0, 1)]
    for values in runs:
        got = float(values[graph.root(graph.outputs[0])].reshape(()))
        assert abs(got - loss) <= tolerance * max(abs(loss), 1e-3)
        found = gradients(graph, values)
        assert set(found) == {name for name in wanted if name == "shift" or tensors[name].ndim}
        for name, gradient in found.items():
            assert kb.relative(gradient, wanted[name]) <= tolerance, name
    return graph
