"""Gemm, MatMul and Add: fully connected layers in the forms exporters write, and sums."""

from __future__ import annotations

import math

import numpy as np
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Active, Context, Pending, Tensor, attribute, reshaped
from poet_mcu.frontend.lower_elementwise import stored
from poet_mcu.frontend.lower_layout import transposed
from poet_mcu.ir.graph import Value


def lower_gemm(ctx: Context, node: onnx.NodeProto) -> None:
    """Y = alpha * A * B + beta * C to dense; factors only where the tensor is not trained."""
    x = _gemm_input(ctx, node)
    alpha, beta = attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0)
    w, rows = _dense_weight(ctx, node, alpha, bool(attribute(node, "transB", 0)))
    attrs = {"w_rows_are_outputs": int(rows)}
    outputs = w.shape[0] if rows else w.shape[1]
    c_name = node.input[2] if len(node.input) > 2 else ""
    if not c_name:
        _emit_or_wait(ctx, node, x, w, attrs, (x.shape[0], outputs))
        return
    c = ctx.entry(c_name)
    if isinstance(c, Tensor):
        scaled = c if beta == 1.0 else c.changed(_scale(c, beta), f"scaled by beta {beta:g}")
        bias = _bias(ctx, c_name, scaled, outputs, (x.shape[0], outputs))
        ctx.emit(node, "dense", (x, w, bias), attrs)
        return
    if beta != 1.0:
        raise ModelError(f"expected beta=1 with a computed C, got {beta:g}; export as MatMul + Add")
    product = ctx.emit(node, "dense", (x, w), attrs)
    ctx.emit(node, "add", (product, ctx.activation(c_name)), {})


def _gemm_input(ctx: Context, node: onnx.NodeProto) -> Value:
    x = ctx.activation(node.input[0])
    if len(x.shape) != 2:
        raise ModelError(f"expected A with 2 dimensions, got {list(x.shape)}; add a Flatten")
    if not attribute(node, "transA", 0):
        return x
    return transposed(ctx, node, x, (1, 0), f"{node.output[0]}_a")


def lower_matmul(ctx: Context, node: onnx.NodeProto) -> None:
    """MatMul of an activation [..., K] with a stored [K, M] to dense on rows."""
    if isinstance(ctx.entry(node.input[0]), Tensor):
        raise ModelError(
            f"expected the weight as second operand, got the constant '{node.input[0]}' as first; "
            "export the layer as x * W"
        )
    x = ctx.activation(node.input[0])
    if len(x.shape) < 2:
        raise ModelError(f"expected an input with 2 or more dimensions, got {list(x.shape)}")
    w, rows = _dense_weight(ctx, node, 1.0, False)
    outputs = w.shape[0] if rows else w.shape[1]
    flat = ctx.builder.view(x, (math.prod(x.shape[:-1]), x.shape[-1]), f"{node.output[0]}_rows")
    attrs = {"w_rows_are_outputs": int(rows)}
    _emit_or_wait(ctx, node, flat, w, attrs, (*x.shape[:-1], outputs))


def _dense_weight(
    ctx: Context, node: onnx.NodeProto, alpha: float, rows: bool
) -> tuple[Value, bool]:
    """The weight value and whether its rows are outputs."""
    name = node.input[1]
    found = ctx.entry(name)
    if not isinstance(found, Tensor):
        raise ModelError(
            f"expected a stored weight as second operand, got the computed '{name}'; "
            "products of two activations are not supported"
        )
    if found.array.ndim != 2:
        raise ModelError(f"expected a weight of 2 dimensions, got {list(found.array.shape)}")
    while found.transposed_from is not None:
        found, rows = found.transposed_from, not rows
    if alpha != 1.0:
        found = found.changed(_scale(found, alpha), f"scaled by alpha {alpha:g}")
    return ctx.weight(name, found), rows


def _emit_or_wait(
    ctx: Context,
    node: onnx.NodeProto,
    x: Value,
    w: Value,
    attrs: dict[str, int],
    out_shape: tuple[int, ...],
) -> None:
    ctx.infer("dense", (x, w), attrs)
    name = node.output[0]
    channels = out_shape[-1]
    pending = Pending("dense", (x, w), attrs, channels, out_shape, name, node.name or name)
    if ctx.waits_for_bias(node):
        ctx.env[name] = pending
    else:
        ctx.env[name] = Active(ctx.materialize(pending))


def _scale(tensor: Tensor, factor: float) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    return np.asarray(tensor.array * np.asarray(factor, tensor.array.dtype))


def _bias(
    ctx: Context, name: str, tensor: Tensor, channels: int, out_shape: tuple[int, ...]
) -> Value:
    """The bias [channels] that broadcasting ``tensor`` to ``out_shape`` means."""
    shape = tensor.array.shape
    if tensor.array.size == channels and (not shape or shape[-1] == channels):
        return ctx.weight(name, tensor, (channels,))
    if tensor.array.size == 1:
        full = np.full(channels, tensor.array.ravel()[0])
        how = f"repeated from {list(shape)} to {channels} outputs"
        return ctx.weight(name, tensor.changed(full, how))
    raise ModelError(
        f"expected a bias of shape [{channels}], [1, {channels}] or one element for an output of "
        f"shape {list(out_shape)}, got '{name}' of shape {list(shape)}; a bias per row of the "
        "batch is not supported"
    )


def lower_add(ctx: Context, node: onnx.NodeProto) -> None:
    """Add to the bias of the product before it, or to a sum that broadcasts."""
    first, second = (ctx.entry(name) for name in node.input)
    names = list(node.input)
    if isinstance(first, Tensor):
        first, second, names = second, first, names[::-1]
    if isinstance(first, Pending) and isinstance(second, Tensor):
        bias = _pending_bias(ctx, first, second, names[1])
        if bias is not None:
            ctx.env[node.output[0]] = Active(ctx.materialize(first, bias))
            return
    a = ctx.activation(names[0])
    if not isinstance(second, Tensor):
        b = ctx.activation(names[1])
        order = (a, b) if names[0] == node.input[0] else (b, a)
        ctx.emit(node, "add", order, {})
        return
    ctx.emit(node, "add", (a, stored(ctx, names[1], second)), {})


def _pads_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """``shape`` is ``target`` but for leading ones."""
    return len(shape) <= len(target) and (1,) * (len(target) - len(shape)) + shape == target


def _pending_bias(ctx: Context, pending: Pending, tensor: Tensor, name: str) -> Value | None:
    """The bias of a waiting product, or None when ``tensor`` is no bias for it."""
    shape = tensor.array.shape
    if len(shape) > len(pending.out_shape):
        return None
    if pending.op == "dense":
        if shape and (shape[-1] not in (1, pending.channels) or any(d != 1 for d in shape[:-1])):
            return None
        return _bias(ctx, name, tensor, pending.channels, pending.out_shape)
    if tensor.array.size == 1:
        return _bias(ctx, name, tensor, pending.channels, pending.out_shape)
    if _pads_to(shape, (1, pending.channels, *(1,) * (len(pending.out_shape) - 2))):
        return _bias(
            ctx, name, reshaped(tensor, (pending.channels,)), pending.channels, pending.out_shape
        )
    return None
