"""Shapes of values behind refused nodes, by onnx's own inference, to find further problems.

The inference is C++ that believes what a file says: it ends the process at a negative dimension,
counts up to an axis of 2^31 and keeps an object for each dimension on the way. So it runs in a
process of its own (``shape_worker.py``) with limits on time and memory, and what it does not
answer is not known.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

import onnx
from onnx import TensorProto

WORKER = "poet_mcu.frontend.shape_worker"
LIMIT_S = 5.0


def inferred_shapes(
    proto: onnx.ModelProto, inputs: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Static shapes of float values with ``inputs`` set; empty when onnx's inference fails."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", WORKER],
            input=_without_numbers(proto, inputs).SerializeToString(),
            capture_output=True,
            timeout=LIMIT_S,
            check=True,
        )
    except (subprocess.SubprocessError, ValueError):  # ValueError: 2 GiB of protobuf
        return {}
    return {name: tuple(dims) for name, dims in json.loads(done.stdout).items()}


def _without_numbers(
    proto: onnx.ModelProto, inputs: Mapping[str, tuple[int, ...]]
) -> onnx.ModelProto:
    """The model with ``inputs`` set, and without what shapes do not depend on."""
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    del model.graph.value_info[:]
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
    for info in model.graph.input:
        if info.name in inputs:
            dims = info.type.tensor_type.shape.dim
            for dim, size in zip(dims, inputs[info.name], strict=True):
                dim.dim_value = size
    for info in model.graph.output:
        if info.type.HasField("tensor_type"):  # merely looking at it would make it one
            info.type.tensor_type.ClearField("shape")
    _close_training_mode(model)
    return model


def _close_training_mode(model: onnx.ModelProto) -> None:
    """Exporters leave BatchNormalization in training mode with one output; onnx wants three.

    The first output has the same shape in both modes.
    """
    for node in model.graph.node:
        if node.op_type == "BatchNormalization" and len(node.output) == 1:
            kept = [item for item in node.attribute if item.name != "training_mode"]
            del node.attribute[:]
            node.attribute.extend(kept)
