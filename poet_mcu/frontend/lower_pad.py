"""Pad: with a number around the tensor, or with its own elements, as tables of indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.checks import check_table
from poet_mcu.frontend.context import Active, Context, attribute
from poet_mcu.frontend.lower_layout import axis_in, cut
from poet_mcu.ir.graph import Attr, DType, Role, TensorType, Value

_LIMIT = float(np.finfo(np.float32).max)
# The element that position ``i`` shows of an axis of ``n`` (ONNX Operators, Pad-19).
_Source = Callable[[int, int], int]


def _reflect(i: int, n: int) -> int:
    period = max(1, 2 * (n - 1))
    i %= period
    return min(i, period - i)


_SOURCES: Mapping[str, _Source] = MappingProxyType(
    {
        "edge": lambda i, n: min(max(i, 0), n - 1),
        "reflect": _reflect,
        "wrap": lambda i, n: i % n,
    }
)


def lower_pad(ctx: Context, node: onnx.NodeProto) -> None:
    """Pad; pads are an attribute before opset 11, then an input."""
    mode = attribute(node, "mode", "constant")
    if mode != "constant" and mode not in _SOURCES:
        known = ", ".join(_SOURCES)
        raise ModelError(f"expected mode constant, {known}, got {mode}; export with one of them")
    x = ctx.activation(node.input[0])
    before, after = _pads(ctx, node, len(x.shape))
    if any(dim + b + a < 1 for dim, b, a in zip(x.shape, before, after, strict=True)):
        raise ModelError(
            f"expected pads that leave elements of {list(x.shape)}, got {list(before)} before and "
            f"{list(after)} after"
        )
    if mode == "constant":
        _place(ctx, node, x, before, after, _number(ctx, node))
    else:
        _show(ctx, node, x, (before, after), _SOURCES[mode])


def _pads(ctx: Context, node: onnx.NodeProto, rank: int) -> tuple[list[int], list[int]]:
    """Elements before and after each axis."""
    axes: Sequence[int] = range(rank)
    if ctx.opset < 11:
        pads = tuple(attribute(node, "pads", ()))
    else:
        pads = ctx.ints(node.input[1], "the pads")
        if len(node.input) > 3 and node.input[3]:
            axes = [axis_in(axis, rank) for axis in ctx.ints(node.input[3], "the axes")]
    if len(pads) != 2 * len(axes):
        raise ModelError(
            f"expected {2 * len(axes)} pads for {len(axes)} axes, got {len(pads)}; export again"
        )
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[len(axes) + i]
    return before, after


def _number(ctx: Context, node: onnx.NodeProto) -> float:
    """What to pad with; -inf before a MaxPool is the lowest float, which wins as little."""
    value = 0.0
    if ctx.opset < 11:
        value = float(attribute(node, "value", 0.0))
    elif len(node.input) > 2 and node.input[2]:
        value = float(ctx.tensor(node.input[2], "the padding value").array.ravel()[0])
    if math.isnan(value):
        raise ModelError("expected a number to pad with, got NaN; export again")
    return min(max(value, -_LIMIT), _LIMIT)


def _place(
    ctx: Context,
    node: onnx.NodeProto,
    x: Value,
    before: Sequence[int],
    after: Sequence[int],
    value: float,
) -> None:
    """Negative pads cut off first, positive ones are placed around what is left."""
    ranges = [
        (max(0, -b), dim - max(0, -b) - max(0, -a), 1)
        for dim, b, a in zip(x.shape, before, after, strict=True)
    ]
    inner = cut(ctx, node, x, ranges, f"{node.output[0]}_cut")
    starts = tuple(max(0, b) for b in before)
    shape = tuple(
        dim + start + max(0, a) for dim, start, a in zip(inner.shape, starts, after, strict=True)
    )
    if shape == inner.shape:
        ctx.env[node.output[0]] = Active(inner)
        return
    attrs: dict[str, Attr] = {
        "shape": shape,
        "starts": starts,
        "steps": (1,) * len(shape),
        "value": value,
    }
    ctx.emit(node, "place", (inner,), attrs)


def _show(
    ctx: Context,
    node: onnx.NodeProto,
    x: Value,
    pads: tuple[Sequence[int], Sequence[int]],
    source: _Source,
) -> None:
    """Each padded axis by a table of what it shows; rows and columns of planes in one go."""
    name, origin = node.output[0], node.name or node.output[0]
    for dim, b, a in zip(x.shape, *pads, strict=True):
        check_table(dim + b + a)
    tables = {
        axis: np.asarray([source(i, x.shape[axis]) for i in range(-b, x.shape[axis] + a)], np.int32)
        for axis, (b, a) in enumerate(zip(*pads, strict=True))
        if b or a
    }
    if len(x.shape) == 4 and set(tables) == {2, 3}:
        both = [_table(ctx, f"{name}_{axis}", tables[axis]) for axis in (2, 3)]
        ctx.emit(node, "resize_nearest", (x, *both), {})
        return
    for axis, table in tables.items():
        indices = _table(ctx, f"{name}_{axis}", table)
        x = ctx.builder.emit("gather", (x, indices), {"axis": axis}, name, origin)[0]
    ctx.env[name] = Active(x)


def _table(ctx: Context, name: str, table: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Value:
    kind = TensorType(table.shape, DType.I32)
    return ctx.builder.value(f"{name}_shown", kind, Role.CONSTANT, "", table)
