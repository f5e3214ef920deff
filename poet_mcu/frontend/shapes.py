"""onnx's own shape inference, as a second opinion and to see behind refused nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx
from onnx import TensorProto, shape_inference

from poet_mcu.frontend.checks import MAX_BYTES
from poet_mcu.frontend.model_file import first_line
from poet_mcu.frontend.problems import node_label


def inferred_shapes(
    proto: onnx.ModelProto, inputs: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, tuple[int, ...]], str]:
    """Static shapes of float values with ``inputs`` set, and what the inference complained of."""
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    del model.graph.value_info[:]
    for info in model.graph.input:
        if info.name in inputs:
            dims = info.type.tensor_type.shape.dim
            for dim, size in zip(dims, inputs[info.name], strict=True):
                dim.dim_value = size
    for info in model.graph.output:
        if info.type.HasField("tensor_type"):  # merely looking at it would make it one
            info.type.tensor_type.ClearField("shape")
    _close_training_mode(model)
    complaint = _fatal(model)
    if complaint:
        return {}, complaint
    try:
        model = _infer(model, strict=True)
    except _ERRORS as error:
        complaint = first_line(error)
        try:
            model = _infer(model, strict=False)
        except _ERRORS:
            return {}, complaint
    return {
        info.name: tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)
        for info in (*model.graph.value_info, *model.graph.output)
        if _is_static(info)
    }, complaint


def _close_training_mode(model: onnx.ModelProto) -> None:
    """Exporters leave BatchNormalization in training mode with one output; onnx wants three.

    The first output has the same shape in both modes.
    """
    for node in model.graph.node:
        if node.op_type == "BatchNormalization" and len(node.output) == 1:
            kept = [item for item in node.attribute if item.name != "training_mode"]
            del node.attribute[:]
            node.attribute.extend(kept)


def _fatal(model: onnx.ModelProto) -> str:
    """What onnx's inference never comes back from (its C++ asserts it, or counts up to it)."""
    for info in model.graph.input:
        dims = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        if min(dims, default=0) < 0 or math.prod(max(dim, 1) for dim in dims) >= MAX_BYTES:
            return f"'{info.name}' of shape {dims}"
    for index, node in enumerate(model.graph.node):
        for item in node.attribute:
            outputs = len(node.output)
            if node.op_type == "Split" and item.name == "num_outputs" and item.i != outputs:
                label = node_label(index, node)
                return f"{label}: Split of {item.i} parts with {outputs} outputs"
    return ""


_ERRORS = (shape_inference.InferenceError, RuntimeError, ValueError, TypeError)


def _infer(model: onnx.ModelProto, *, strict: bool) -> onnx.ModelProto:
    # Without its propagation of values: that makes an object of every element of a long vector.
    return shape_inference.infer_shapes(model, check_type=True, strict_mode=strict)


def _is_static(info: onnx.ValueInfoProto) -> bool:
    tensor = info.type.tensor_type
    if tensor.elem_type != TensorProto.FLOAT or not tensor.HasField("shape"):
        return False
    return all(dim.HasField("dim_value") and dim.dim_value > 0 for dim in tensor.shape.dim)
