"""Trained weights back into the ONNX model they came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from poet_mcu.errors import InternalError
from poet_mcu.frontend.model_file import read_model

Weights = Mapping[str, npt.NDArray[np.generic]]


def save_with_weights(source: Path, weights: Weights, target: Path) -> None:
    """Write ``source`` to ``target`` with the tensors in ``weights`` replaced, by ONNX name.

    A name may be an initializer, the output of a Constant, or the output of an Identity of an
    initializer (an exporter's copy of an equal tensor); the last two become initializers of their
    own. Each tensor keeps the shape it has in the file. The target appears whole or not at all.
    """
    model = read_model(source).proto
    # Before IR 4 every initializer had to be an input as well; new ones are not.
    model.ir_version = max(model.ir_version, 4)
    graph = model.graph
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    shapes = {name: _stored_shape(name, initializers, producers) for name in weights}
    for name, array in sorted(weights.items()):
        shape = shapes[name]
        if shape is None:
            raise InternalError(f"{source.name}: weight '{name}' is not in the model")
        # On the board a bias is [n], also where the file stores it as [1, n] or [n, 1, 1].
        data = np.ascontiguousarray(array, np.float32).reshape(shape)
        if name in initializers:
            initializers[name].CopyFrom(numpy_helper.from_array(data, name))
        else:
            graph.node.remove(producers[name])
            graph.initializer.append(numpy_helper.from_array(data, name))
    partial = target.with_name(f".{target.name}.partial")
    try:
        onnx.save(model, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _stored_shape(
    name: str,
    initializers: Mapping[str, onnx.TensorProto],
    producers: Mapping[str, onnx.NodeProto],
) -> tuple[int, ...] | None:
    """The shape of ``name`` in the file; None when it is no initializer, Constant or copy."""
    while name not in initializers:
        node = producers.get(name)
        if node is None:
            return None
        if node.op_type == "Constant":
            (item,) = node.attribute
            return tuple(item.t.dims) if item.HasField("t") else (len(item.floats),)
        if node.op_type != "Identity":
            return None
        name = node.input[0]
    return tuple(initializers[name].dims)
