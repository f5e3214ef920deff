"""Operators of ONNX that are a few of ours one after the other, with the gradients of those."""

from __future__ import annotations

import numpy as np
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.checks import MOST_FACTORS, check_table
from poet_mcu.frontend.context import Active, Context, attribute
from poet_mcu.frontend.lower_elementwise import operand, part
from poet_mcu.frontend.lower_interpolate import along
from poet_mcu.frontend.lower_layout import axis_in
from poet_mcu.ir.graph import Role, TensorType, Value


def _plus(ctx: Context, node: onnx.NodeProto, x: Value, number: float) -> Value:
    """x and a number kept in flash."""
    array = np.full(1, number, np.float32)
    name = f"{node.output[0]}_epsilon"
    value = ctx.builder.value(name, TensorType((1,)), Role.CONSTANT, "", array)
    return part(ctx, node, "add", (x, value), "with_epsilon")


def lower_rms_norm(ctx: Context, node: onnx.NodeProto) -> None:
    """RMSNormalization over the axes from ``axis`` on."""
    x = ctx.activation(node.input[0])
    rank = len(x.shape)
    axes = tuple(range(axis_in(attribute(node, "axis", -1), rank), rank))
    square = part(ctx, node, "mul", (x, x), "square")
    mean = part(ctx, node, "reduce_mean", (square,), "mean_square", {"axes": axes})
    root = part(ctx, node, "sqrt", (_plus(ctx, node, mean, attribute(node, "epsilon", 1e-5)),), "r")
    normal = part(ctx, node, "div", (x, root), "normal")
    scale = operand(ctx, node.input[1])
    if ctx.infer("mul", (normal, scale), {}) != x.shape:
        raise ModelError(
            f"expected a scale that repeats to {list(x.shape)}, got {list(scale.shape)}; export so"
        )
    ctx.emit(node, "mul", (normal, scale), {})


def lower_lp_norm(ctx: Context, node: onnx.NodeProto) -> None:
    """LpNormalization: x by its norm along ``axis``, p of 1 or 2."""
    x = ctx.activation(node.input[0])
    axes = (axis_in(attribute(node, "axis", -1), len(x.shape)),)
    p = attribute(node, "p", 2)
    if p not in (1, 2):
        raise ModelError(f"expected p of 1 or 2, got {p}; export again")
    if p == 2:
        norm = part(ctx, node, "reduce_l2", (x,), "norm", {"axes": axes})
    else:
        size = part(ctx, node, "abs", (x,), "size")
        norm = part(ctx, node, "reduce_sum", (size,), "norm", {"axes": axes})
    ctx.emit(node, "div", (x, norm), {})


def lower_cum_sum(ctx: Context, node: onnx.NodeProto) -> None:
    """CumSum: a product with a triangle of ones along the axis."""
    x = ctx.activation(node.input[0])
    asked = ctx.ints(node.input[1], "the axis")
    if len(asked) != 1:
        raise ModelError(f"expected one axis, got {list(asked)}; export again")
    axis = axis_in(asked[0], len(x.shape))
    exclusive = int(bool(attribute(node, "exclusive", 0)))
    check_table(x.shape[axis] ** 2, MOST_FACTORS)
    ones = np.tril(np.ones((x.shape[axis],) * 2, np.float32), -exclusive)
    matrix = ones.T.copy() if attribute(node, "reverse", 0) else ones
    ctx.env[node.output[0]] = Active(along(ctx, node, x, axis, matrix))
