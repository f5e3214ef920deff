"""Reductions, and Softmax and LogSoftmax inside a network; old and new forms of their axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Active, Context, SoftmaxOf, attribute
from poet_mcu.frontend.lower_elementwise import part
from poet_mcu.ir.graph import Value

Axes = tuple[int, ...]
Rule = Callable[[Context, onnx.NodeProto, Value, Axes], Value]


def _direct(op: str) -> Rule:
    def rule(ctx: Context, node: onnx.NodeProto, x: Value, axes: Axes) -> Value:
        return part(ctx, node, op, (x,), "kept", {"axes": axes})

    return rule


def _l1(ctx: Context, node: onnx.NodeProto, x: Value, axes: Axes) -> Value:
    return _direct("reduce_sum")(ctx, node, part(ctx, node, "abs", (x,), "abs"), axes)


def _sum_square(ctx: Context, node: onnx.NodeProto, x: Value, axes: Axes) -> Value:
    return _direct("reduce_sum")(ctx, node, part(ctx, node, "mul", (x, x), "square"), axes)


def _log_sum(ctx: Context, node: onnx.NodeProto, x: Value, axes: Axes) -> Value:
    return part(ctx, node, "log", (_direct("reduce_sum")(ctx, node, x, axes),), "log")


def _log_sum_exp(ctx: Context, node: onnx.NodeProto, x: Value, axes: Axes) -> Value:
    """max + ln sum e^(x - max): no overflow."""
    most = part(ctx, node, "reduce_max", (x,), "max", {"axes": axes})
    shifted = part(ctx, node, "sub", (x, most), "shifted")
    total = _direct("reduce_sum")(ctx, node, part(ctx, node, "exp", (shifted,), "exp"), axes)
    return part(ctx, node, "add", (part(ctx, node, "log", (total,), "log"), most), "sum")


REDUCTIONS: Mapping[str, Rule] = MappingProxyType(
    {
        "ReduceL1": _l1,
        "ReduceL2": _direct("reduce_l2"),
        "ReduceLogSum": _log_sum,
        "ReduceLogSumExp": _log_sum_exp,
        "ReduceMax": _direct("reduce_max"),
        "ReduceMean": _direct("reduce_mean"),
        "ReduceMin": _direct("reduce_min"),
        "ReduceSum": _direct("reduce_sum"),
        "ReduceSumSquare": _sum_square,
    }
)


def lower_reduce(ctx: Context, node: onnx.NodeProto) -> None:
    """A reduction; without ``keepdims`` the reduced axes are dropped by a view."""
    x = ctx.activation(node.input[0])
    name = node.output[0]
    axes = _axes(ctx, node, x)
    if axes is None:
        ctx.env[name] = Active(x)
        return
    kept = REDUCTIONS[node.op_type](ctx, node, x, axes)
    shape = kept.shape
    if not attribute(node, "keepdims", 1):
        shape = tuple(size for i, size in enumerate(kept.shape) if i not in axes)
    ctx.env[name] = Active(ctx.builder.view(kept, shape, name))


def _axes(ctx: Context, node: onnx.NodeProto, x: Value) -> Axes | None:
    """The axes in order; all without any, or None for no reduction at all.

    An attribute at first, an input since opset 13 (ReduceSum) or 18 (the others).
    """
    rank = len(x.shape)
    as_input = ctx.opset >= (13 if node.op_type == "ReduceSum" else 18)
    asked: Axes = ()
    if not as_input:
        asked = tuple(attribute(node, "axes", ()))
    elif len(node.input) > 1 and node.input[1]:
        asked = ctx.ints(node.input[1], "axes")
    if not asked:
        if as_input and attribute(node, "noop_with_empty_axes", 0):
            return None
        return tuple(range(rank))
    if not all(-rank <= axis < rank for axis in asked):
        raise ModelError(f"expected axes in {-rank}..{rank - 1}, got {list(asked)}; export again")
    return tuple(sorted({axis % rank for axis in asked}))


def lower_softmax(ctx: Context, node: onnx.NodeProto) -> None:
    """Softmax: the last one, over rows, is left to the loss; any other is computed.

    Before opset 13 Softmax flattened to two dimensions at ``axis`` (default 1); since then it
    works along ``axis`` (default -1) alone (ONNX Operators, Softmax-1, -11, -13).
    """
    value = ctx.activation(node.input[0])
    name = node.output[0]
    shape = value.shape
    axis = _softmax_axis(ctx, node, value)
    if not ctx.fuse_softmax or (ctx.opset >= 13 and math.prod(shape[axis + 1 :]) != 1):
        ctx.env[name] = Active(_along(ctx, node, value, axis, "softmax"))
        return
    rows = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    logits = ctx.builder.view(value, rows, f"{name}_logits")
    ctx.env[name] = SoftmaxOf(
        logits,
        shape,
        f"'{node.name or name}'",
        lambda: _along(ctx, node, value, axis, "softmax"),
    )


def lower_log_softmax(ctx: Context, node: onnx.NodeProto) -> None:
    """LogSoftmax, with the same two meanings of ``axis``."""
    value = ctx.activation(node.input[0])
    axis = _softmax_axis(ctx, node, value)
    ctx.env[node.output[0]] = Active(_along(ctx, node, value, axis, "log_softmax"))


def _softmax_axis(ctx: Context, node: onnx.NodeProto, value: Value) -> int:
    rank = len(value.shape)
    axis = int(attribute(node, "axis", 1 if ctx.opset < 13 else -1))
    if not -rank <= axis < rank:
        raise ModelError(f"expected axis in {-rank}..{rank - 1}, got {axis}; export again")
    return axis % rank


def _along(ctx: Context, node: onnx.NodeProto, value: Value, axis: int, op: str) -> Value:
    name, shape = node.output[0], value.shape
    if ctx.opset >= 13:
        return part(ctx, node, op, (value,), "", {"axis": axis})
    rows = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    flat = ctx.builder.view(value, rows, f"{name}_rows_in")
    done = part(ctx, node, op, (flat,), "rows", {"axis": 1})
    return ctx.builder.view(done, shape, name)
