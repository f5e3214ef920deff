"""MatMul and Gemm of two computed operands, and of stacks of matrices."""

from __future__ import annotations

import math

import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend import lower_dense
from poet_mcu.frontend.context import Context, Tensor, attribute
from poet_mcu.frontend.lower_layout import broadcast, expanded
from poet_mcu.ir.graph import Value

_PLAIN = {"a_is_turned": 0, "c_is_turned": 0}


def lower_matmul(ctx: Context, node: onnx.NodeProto) -> None:
    """MatMul: rows times a stored matrix is dense, everything else a batched product."""
    second = ctx.entry(node.input[1])
    if isinstance(second, Tensor) and second.array.ndim == 2:
        first = ctx.entry(node.input[0])
        if not isinstance(first, Tensor) and len(ctx.activation(node.input[0]).shape) > 1:
            lower_dense.lower_matmul(ctx, node)
            return
    a, c = (ctx.operand(name) for name in node.input)
    if not a.shape or not c.shape:
        raise ModelError(
            f"expected two operands of 1 or more dimensions, got {list(a.shape)} and "
            f"{list(c.shape)}; export a Mul"
        )
    # A vector is a row on the left and a column on the right, and its axis goes again.
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = c.shape if len(c.shape) > 1 else (*c.shape, 1)
    if left[-1] != right[-2]:
        raise ModelError(
            f"expected as many columns as rows, got {list(a.shape)} and {list(c.shape)}; "
            "export again"
        )
    stack = broadcast(left[:-2], right[:-2])
    rows = left[-2:-1] if len(a.shape) > 1 else ()
    columns = right[-1:] if len(c.shape) > 1 else ()
    name = node.output[0]
    a = ctx.builder.view(a, left, f"{name}_left")
    c = ctx.builder.view(c, right, f"{name}_right")
    if math.prod(right[:-2]) == 1 and math.prod(left[:-2]) == math.prod(stack):
        # One matrix for all rows.
        pair = (_stacked(ctx, a, 1, f"{name}_rows"), _stacked(ctx, c, 1, f"{name}_matrix"))
    else:
        wide_a = expanded(ctx, node, a, (*stack, *left[-2:]))
        wide_c = expanded(ctx, node, c, (*stack, *right[-2:]))
        count = math.prod(stack)
        pair = (
            _stacked(ctx, wide_a, count, f"{name}_rows"),
            _stacked(ctx, wide_c, count, f"{name}_matrices"),
        )
    ctx.emit_as(node, "matmul", pair, _PLAIN, (*stack, *rows, *columns))


def _stacked(ctx: Context, value: Value, count: int, name: str) -> Value:
    """The value as ``count`` matrices."""
    rows = value.type.elements // (count * value.shape[-1])
    return ctx.builder.view(value, (count, rows, value.shape[-1]), name)


def lower_gemm(ctx: Context, node: onnx.NodeProto) -> None:
    """Gemm: with a stored B it is dense, with a computed one a product and a sum."""
    if isinstance(ctx.entry(node.input[1]), Tensor) and not isinstance(
        ctx.entry(node.input[0]), Tensor
    ):
        lower_dense.lower_gemm(ctx, node)
        return
    a, b = (ctx.operand(name) for name in node.input[:2])
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ModelError(
            f"expected two matrices, got {list(a.shape)} and {list(b.shape)}; "
            "export as MatMul + Add"
        )
    turned = [attribute(node, name, 0) for name in ("transA", "transB")]
    attrs = {"a_is_turned": int(bool(turned[0])), "c_is_turned": int(bool(turned[1]))}
    pair = [_stacked(ctx, x, 1, f"{node.output[0]}_{i}") for x, i in ((a, "a"), (b, "b"))]
    _, n, m = ctx.infer("matmul", pair, attrs)
    y = ctx.emit(node, "matmul", pair, attrs)
    alpha = attribute(node, "alpha", 1.0)
    if alpha != 1.0:
        y = ctx.emit(node, "scale", (y,), {"alpha": alpha})
    y = ctx.show(node, y, (n, m))
    if len(node.input) > 2 and node.input[2]:
        ctx.emit(node, "add", (y, lower_dense.gemm_c(ctx, node, (n, m))), {})
