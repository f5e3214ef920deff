"""Resize and Upsample by nearest neighbours: which input each output shows, as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Active, Context, attribute
from poet_mcu.frontend.lower_window import planes, unplane
from poet_mcu.ir.graph import DType, Role, TensorType, Value

# Position in the input of output position x; arguments x, scale, input and output size
# (ONNX Operators, Resize-19, coordinate_transformation_mode).
_Position = Callable[[int, float, int, int], float]
_POSITIONS: Mapping[str, _Position] = MappingProxyType(
    {
        "half_pixel": lambda x, scale, _i, _o: (x + 0.5) / scale - 0.5,
        "pytorch_half_pixel": lambda x, scale, _i, out: (x + 0.5) / scale - 0.5 if out > 1 else 0.0,
        "asymmetric": lambda x, scale, _i, _o: x / scale,
        "align_corners": lambda x, _s, size, out: x * (size - 1) / (out - 1) if out > 1 else 0.0,
        "tf_half_pixel_for_nn": lambda x, scale, _i, _o: (x + 0.5) / scale,
        "half_pixel_symmetric": lambda x, scale, size, out: (
            size / 2 * (1 - out / (scale * size)) + (x + 0.5) / scale - 0.5
        ),
    }
)
_ROUNDINGS: Mapping[str, Callable[[float], int]] = MappingProxyType(
    {
        "round_prefer_floor": lambda p: math.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: math.floor(p + 0.5),
        "floor": math.floor,
        "ceil": math.ceil,
    }
)


def lower_resize(ctx: Context, node: onnx.NodeProto) -> None:
    """Resize, mode nearest, of the axes behind N and C; Upsample is its older form."""
    mode = attribute(node, "mode", "nearest")
    if mode != "nearest":
        raise ModelError(f"expected mode nearest, got {mode}; export with nearest upsampling")
    x, axes = planes(ctx, node)
    sizes, scales = _target(ctx, node, unplane(x.shape, axes))
    old = ctx.opset < 11
    position = attribute(node, "coordinate_transformation_mode", "half_pixel")
    rounding = attribute(node, "nearest_mode", "round_prefer_floor")
    position, rounding = ("asymmetric", "floor") if old else (position, rounding)
    if position not in _POSITIONS or rounding not in _ROUNDINGS:
        raise ModelError(
            f"expected coordinate_transformation_mode {', '.join(_POSITIONS)} and nearest_mode "
            f"{', '.join(_ROUNDINGS)}, got {position} and {rounding}; export with one of them"
        )
    place, nearest = _POSITIONS[position], _ROUNDINGS[rounding]
    tables = [np.zeros(1, np.int32)] if axes == 1 else []
    for size, out, scale in zip(unplane(x.shape, axes)[2:], sizes, scales, strict=True):
        found = [min(max(nearest(place(i, scale, size, out)), 0), size - 1) for i in range(out)]
        tables.append(np.asarray(found, np.int32))
    if all(np.array_equal(t, np.arange(n)) for t, n in zip(tables, x.shape[2:], strict=True)):
        ctx.env[node.output[0]] = Active(ctx.activation(node.input[0]))
        return
    rows, columns = (_table(ctx, node, t, what) for t, what in zip(tables, "rc", strict=True))
    shape = unplane((*x.shape[:2], rows.shape[0], columns.shape[0]), axes)
    ctx.emit_as(node, "resize_nearest", (x, rows, columns), {}, shape)


def _table(
    ctx: Context, node: onnx.NodeProto, table: np.ndarray[tuple[int], np.dtype[np.int32]], what: str
) -> Value:
    name = f"{node.output[0]}_{'rows' if what == 'r' else 'columns'}"
    return ctx.builder.value(name, TensorType(table.shape, DType.I32), Role.CONSTANT, "", table)


def _target(
    ctx: Context, node: onnx.NodeProto, shape: tuple[int, ...]
) -> tuple[list[int], list[float]]:
    """Sizes and scales of the axes behind N and C."""
    rank = len(shape)
    axes = tuple(attribute(node, "axes", range(rank)))
    axes = tuple(axis % rank for axis in axes)
    if attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        raise ModelError("expected keep_aspect_ratio_policy stretch; export with fixed sizes")
    scales, sizes = [1.0] * rank, list(shape)
    given = [name for name in node.input[1:] if name]
    last = len(node.input) == 4 and bool(node.input[3])
    if last:
        for axis, size in zip(axes, ctx.ints(node.input[3], "the sizes"), strict=True):
            sizes[axis] = size
            scales[axis] = size / shape[axis]
    else:
        factors = _scales(ctx, node, given)
        for axis, factor in zip(axes, factors, strict=True):
            scales[axis] = factor
            sizes[axis] = math.floor(shape[axis] * Fraction(factor))
    if sizes[:2] != list(shape[:2]) or min(sizes) < 1:
        raise ModelError(
            f"expected sizes of 1 or more that leave N and C as they are, got {sizes} for "
            f"{list(shape)}; export so"
        )
    return sizes[2:], scales[2:]


def _scales(ctx: Context, node: onnx.NodeProto, given: list[str]) -> list[float]:
    """An attribute of Upsample-7, the second input of opset 9 and 10, the third since 11."""
    if not given:
        return [float(f) for f in attribute(node, "scales", ())]
    index = 1 if len(node.input) == 2 else 2
    return [float(f) for f in ctx.tensor(node.input[index], "the scales").array.ravel()]
