"""Operators that move no bytes, and Relu."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from poet_mcu.errors import ModelError
from poet_mcu.frontend.checks import type_name
from poet_mcu.frontend.context import Active, Context, Tensor, Transposed, attribute, reshaped
from poet_mcu.frontend.fold import axes_of, fold
from poet_mcu.frontend.lower_layout import transposed
from poet_mcu.ir.graph import DType


def _reshape_to(ctx: Context, node: onnx.NodeProto, shape: tuple[int, ...]) -> None:
    found = ctx.entry(node.input[0])
    if isinstance(found, Tensor):
        ctx.env[node.output[0]] = reshaped(found, shape)
        return
    value = ctx.computed(node.input[0])
    ctx.env[node.output[0]] = Active(ctx.builder.view(value, shape, node.output[0]))


def _shape_of(ctx: Context, name: str) -> tuple[int, ...]:
    found = ctx.entry(name)
    return found.array.shape if isinstance(found, Tensor) else ctx.computed(name).shape


def lower_flatten(ctx: Context, node: onnx.NodeProto) -> None:
    """Flatten to a view of two dimensions."""
    shape = _shape_of(ctx, node.input[0])
    rank = len(shape)
    axis = attribute(node, "axis", 1)
    if not -rank <= axis <= rank:
        raise ModelError(f"expected axis in {-rank}..{rank}, got {axis}; export again")
    axis = axis + rank if axis < 0 else axis
    _reshape_to(ctx, node, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def lower_reshape(ctx: Context, node: onnx.NodeProto) -> None:
    """Reshape to a view; the shape must be known at build time."""
    shape = _shape_of(ctx, node.input[0])
    asked = ctx.ints(node.input[1], "the shape")
    target = list(asked)
    for i, dim in enumerate(asked):
        if dim == 0 and not attribute(node, "allowzero", 0) and i < len(shape):
            target[i] = shape[i]
    if target.count(-1) == 1:
        known = math.prod(dim for dim in target if dim != -1)
        if known > 0:
            target[target.index(-1)] = math.prod(shape) // known
    if any(dim < 1 for dim in target) or math.prod(target) != math.prod(shape):
        raise ModelError(
            f"expected a shape of {math.prod(shape)} elements for the input {list(shape)}, "
            f"got {list(asked)}; if it holds a fixed batch, export it with -1 in that place"
        )
    _reshape_to(ctx, node, tuple(target))


def lower_squeeze(ctx: Context, node: onnx.NodeProto) -> None:
    """Squeeze to a view; axes are an attribute before opset 13, then an input."""
    shape = _shape_of(ctx, node.input[0])
    asked = _axes(ctx, node)
    axes = None if asked is None else {_axis(a, len(shape), "axes") for a in asked}
    gone = {i for i, dim in enumerate(shape) if dim == 1} if axes is None else axes
    if any(shape[i] != 1 for i in gone):
        raise ModelError(f"expected axes of size 1, got {sorted(gone)} of {list(shape)}")
    _reshape_to(ctx, node, tuple(dim for i, dim in enumerate(shape) if i not in gone))


def lower_unsqueeze(ctx: Context, node: onnx.NodeProto) -> None:
    """Unsqueeze to a view; axes are an attribute before opset 13, then an input."""
    shape = _shape_of(ctx, node.input[0])
    asked = _axes(ctx, node) or ()
    rank = len(shape) + len(asked)
    axes = {_axis(a, rank, "axes") for a in asked}
    if len(axes) != len(asked):
        raise ModelError(f"expected different axes, got {list(asked)}; export the model again")
    dims = iter(shape)
    _reshape_to(ctx, node, tuple(1 if i in axes else next(dims) for i in range(rank)))


def _axes(ctx: Context, node: onnx.NodeProto) -> tuple[int, ...] | None:
    given = len(node.input) > 1 and bool(node.input[1])
    axes = np.asarray(ctx.ints(node.input[1], "axes"), np.int64) if given else None
    return axes_of(node, [None, axes], ctx.opset)


def _axis(axis: int, rank: int, name: str) -> int:
    if not -rank <= axis < rank:
        raise ModelError(f"expected {name} in {-rank}..{rank - 1}, got {axis}; export again")
    return axis % rank


def lower_transpose(ctx: Context, node: onnx.NodeProto) -> None:
    """Transpose of a stored tensor is folded (2-D is remembered); of an activation emitted."""
    found = ctx.entry(node.input[0])
    if isinstance(found, Tensor):
        array = fold(node, [found.array], ctx.opset)
        flips = array.ndim == 2 and array.shape == found.array.shape[::-1]
        flips = flips and tuple(attribute(node, "perm", (1, 0))) == (1, 0)
        how = found.change or "transposed"
        done = Tensor(array, found.sources, how, found if flips else None, made_by=node)
        ctx.env[node.output[0]] = done
        return
    value = found.value if isinstance(found, Transposed) else ctx.activation(node.input[0])
    rank = len(value.shape)
    perm = tuple(attribute(node, "perm", tuple(range(rank))[::-1]))
    if sorted(perm) != list(range(rank)):
        raise ModelError(f"expected perm to order {rank} axes, got {list(perm)}; export again")
    if isinstance(found, Transposed):
        perm = tuple(found.perm[axis] for axis in perm)
    ctx.env[node.output[0]] = Active(transposed(ctx, node, value, perm))


def lower_identity(ctx: Context, node: onnx.NodeProto) -> None:
    """Identity: another name; of a stored tensor a tensor of its own with the same start value."""
    found = ctx.entry(node.input[0])
    name = node.output[0]
    if isinstance(found, Tensor) and found.sources and not found.change:
        # Exporters merge equal initial tensors and hand out Identity copies: different parameters.
        ctx.identity_copies[name] = node.input[0]
        found = Tensor(found.array, (name,))
    ctx.env[name] = found


def lower_constant(ctx: Context, node: onnx.NodeProto) -> None:
    """Constant: a tensor known at build time; floats may be trained, but not a single one.

    Weights are initializers, or Constant nodes with some exporters; one number in a node is part of
    a formula (PyTorch writes the scale of an attention as Sqrt of a Constant of shape [1]).
    """
    name = node.output[0]
    item = node.attribute[0] if node.attribute else None
    if item is None or item.name.startswith(("sparse", "value_string")):
        raise ModelError("expected a dense constant of numbers, got another; store it dense")
    if item.name == "value":
        array = numpy_helper.to_array(item.t)
    else:
        kind = np.float32 if "float" in item.name else np.int64
        array = np.asarray(onnx.helper.get_attribute_value(item), kind)
    is_weight = array.dtype.kind == "f" and array.size > 1
    ctx.env[name] = Tensor(array, (name,) if is_weight else ())


def lower_cast(ctx: Context, node: onnx.NodeProto) -> None:
    """Cast of an activation to the type it has, or of indices to other integers: another name."""
    target = attribute(node, "to", 0)
    value = ctx.computed(node.input[0])
    if value.type.dtype is DType.I32 and target in (TensorProto.INT32, TensorProto.INT64):
        ctx.env[node.output[0]] = Active(value)
        return
    if target != TensorProto.FLOAT:
        raise ModelError(
            f"expected activations in float32, got Cast to {type_name(target)}; "
            "export the model in float32"
        )
    ctx.env[node.output[0]] = Active(ctx.activation(node.input[0]))


def lower_shape(ctx: Context, node: onnx.NodeProto) -> None:
    """Shape: constants, since every dimension is known once the batch is."""
    shape = _shape_of(ctx, node.input[0])
    start, end = attribute(node, "start", 0), attribute(node, "end", len(shape))
    ctx.env[node.output[0]] = Tensor(np.asarray(shape[start:end], np.int64))


def lower_relu(ctx: Context, node: onnx.NodeProto) -> None:
    """Relu to relu."""
    ctx.emit(node, "relu", (ctx.activation(node.input[0]),), {})
