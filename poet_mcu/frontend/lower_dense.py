"""Gemm, MatMul and Add: fully connected layers in the forms exporters write, and sums."""

from __future__ import annotations

import math

import numpy as np
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Active, Context, Pending, Tensor, attribute, reshaped
from poet_mcu.frontend.lower_elementwise import masked, part
from poet_mcu.frontend.lower_layout import transposed
from poet_mcu.ir.graph import Value


def lower_gemm(ctx: Context, node: onnx.NodeProto) -> None:
    """Y = alpha * A * B + beta * C to dense, with a stored B.

    A factor goes into a tensor that is not trained; for a trained one it is applied on the board,
    alpha to the product.
    """
    x = _gemm_input(ctx, node)
    alpha = attribute(node, "alpha", 1.0)
    stored_b = ctx.tensor(node.input[1], "the weight")
    late = alpha if alpha != 1.0 and ctx.trained(stored_b) else 1.0
    w, rows = _dense_weight(ctx, node, alpha / late, bool(attribute(node, "transB", 0)))
    attrs = {"w_rows_are_outputs": int(rows)}
    shape = (x.shape[0], w.shape[0] if rows else w.shape[1])
    c_name = node.input[2] if len(node.input) > 2 else ""
    if not c_name and late == 1.0:
        _emit_or_wait(ctx, node, x, w, attrs, shape)
        return
    c = ctx.entry(c_name) if c_name else None
    if isinstance(c, Tensor) and late == 1.0 and _is_row(c.array.shape, shape):
        ctx.emit(node, "dense", (x, w, gemm_c(ctx, node, shape, row=True)), attrs)
        return
    y = ctx.emit(node, "dense", (x, w), attrs)
    if late != 1.0:
        y = ctx.emit(node, "scale", (y,), {"alpha": late})
    if c_name:
        ctx.emit(node, "add", (y, gemm_c(ctx, node, shape)), {})


def gemm_c(
    ctx: Context, node: onnx.NodeProto, shape: tuple[int, int], *, row: bool = False
) -> Value:
    """beta * C, which broadcasts to ``shape``; with ``row`` as one row [shape[1]]."""
    name, beta = node.input[2], attribute(node, "beta", 1.0)
    c = ctx.entry(name)
    if isinstance(c, Tensor):
        _check_c(name, c.array.shape, shape)
        if not c.array.ndim:
            c = Tensor(c.array.reshape(1))  # a constant, as everywhere without axes
        if not ctx.trained(c):
            c, beta = _ready_c(c, beta, shape[1] if row else 0), 1.0
        value = ctx.weight(name, c, (c.array.size,) if row else None)
    else:
        value = ctx.activation(name)
        _check_c(name, value.shape, shape)
    if beta != 1.0:
        value = part(ctx, node, "scale", (value,), "beta", {"alpha": beta})
    if row and value.shape != (shape[1],):
        value = part(ctx, node, "expand", (value,), "row", {"shape": (shape[1],)})
    return value


def _ready_c(c: Tensor, beta: float, repeat: int) -> Tensor:
    """A C that is not trained, times beta; one number as often as ``repeat`` says."""
    if beta != 1.0:
        c = c.changed(_scale(c, beta), f"scaled by beta {beta:g}")
    if repeat and c.array.size == 1 and repeat > 1:
        c = c.changed(np.full(repeat, c.array.ravel()[0]), f"repeated to {repeat} outputs")
    return c


def _is_row(c: tuple[int, ...], shape: tuple[int, int]) -> bool:
    """Whether C is the same for all rows."""
    return c in ((), (1,), (1, 1)) or c in (shape[1:], (1, shape[1]))


def _check_c(name: str, c: tuple[int, ...], shape: tuple[int, int]) -> None:
    fits = len(c) <= 2 and all(
        have in (1, want) for have, want in zip(c[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ModelError(
            f"expected a C that repeats to {list(shape)}, got '{name}' of shape {list(c)}; "
            "export again"
        )


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
    ctx.emit(node, "add", (a, masked(ctx, names[1])), {})


def _pads_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """``shape`` is ``target`` but for leading ones."""
    return len(shape) <= len(target) and (1,) * (len(target) - len(shape)) + shape == target


def _pending_bias(ctx: Context, pending: Pending, tensor: Tensor, name: str) -> Value | None:
    """The bias of a waiting product, or None when ``tensor`` is no bias for it."""
    shape = tensor.array.shape
    if len(shape) > len(pending.out_shape):
        return None
    known: tuple[int, ...] = (1, pending.channels)
    if pending.op != "dense":
        known = (1, pending.channels, *(1,) * (len(pending.out_shape) - 2))
    if shape and _pads_to(shape, (1,) * (len(pending.out_shape) - len(known)) + known):
        return ctx.weight(name, reshaped(tensor, (pending.channels,)))
    if tensor.array.size != 1 or ctx.trained(tensor):
        return None  # an Add by itself, which sums the gradient of a trained number
    full = np.full(pending.channels, tensor.array.ravel()[0])
    return ctx.weight(name, tensor.changed(full, f"repeated to {pending.channels} outputs"))
