"""Resize and Upsample: sizes and positions; nearest neighbours as tables of what is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.checks import MOST_FACTORS, check_size
from poet_mcu.frontend.context import Active, Context, attribute
from poet_mcu.frontend.lower_interpolate import Line, Position, lower_interpolate
from poet_mcu.frontend.lower_window import planes, unplane
from poet_mcu.ir.graph import DType, Role, TensorType, Value

# Position in the input of output position x; arguments x, scale, input and output size
# (ONNX Operators, Resize-19, coordinate_transformation_mode).
_POSITIONS: Mapping[str, Position] = MappingProxyType(
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

# Beyond these no board has room, and the tables of positions take memory and time on the host.
_LARGEST = 32_767

# One scale for all axes, or 0 for each its own.
_POLICIES: Mapping[str, Callable[[Iterable[float]], float]] = MappingProxyType(
    {"stretch": lambda _: 0.0, "not_larger": min, "not_smaller": max}
)


def lower_resize(ctx: Context, node: onnx.NodeProto) -> None:
    """Resize of the axes behind N and C; Upsample is its older form."""
    mode = attribute(node, "mode", "nearest")
    mode = "linear" if mode == "bilinear" else mode  # Upsample-1
    if mode not in ("nearest", "linear", "cubic"):
        raise ModelError(f"expected mode nearest, linear or cubic, got {mode}; export with one")
    position = attribute(node, "coordinate_transformation_mode", "half_pixel")
    position = "asymmetric" if ctx.opset < 11 else position
    if mode != "nearest":
        _interpolate(ctx, node, position)
        return
    rounding = attribute(node, "nearest_mode", "round_prefer_floor")
    rounding = "floor" if ctx.opset < 11 else rounding
    if position not in _POSITIONS or rounding not in _ROUNDINGS:
        raise ModelError(
            f"expected coordinate_transformation_mode {', '.join(_POSITIONS)} and nearest_mode "
            f"{', '.join(_ROUNDINGS)}, got {position} and {rounding}; export with one of them"
        )
    _nearest(ctx, node, _POSITIONS[position], _ROUNDINGS[rounding])


def _nearest(
    ctx: Context, node: onnx.NodeProto, place: Position, nearest: Callable[[float], int]
) -> None:
    x, axes = planes(ctx, node)
    sizes, scales = _target(ctx, node, unplane(x.shape, axes))
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


def _interpolate(ctx: Context, node: onnx.NodeProto, position: str) -> None:
    x = ctx.activation(node.input[0])
    rank = len(x.shape)
    if position != "tf_crop_and_resize" and position not in _POSITIONS:
        raise ModelError(
            f"expected coordinate_transformation_mode {', '.join(_POSITIONS)} or "
            f"tf_crop_and_resize, got {position}; export with one of them"
        )
    if rank < 3:
        raise ModelError(f"expected an input [N, C, ...], got {list(x.shape)}; export it so")
    sizes, scales = _target(ctx, node, x.shape)
    crops = dict.fromkeys(range(rank), (0.0, 1.0))
    if position == "tf_crop_and_resize":
        axes = [axis % rank for axis in attribute(node, "axes", range(rank))]
        roi = [float(f) for f in ctx.tensor(node.input[1], "the region").array.ravel()]
        if len(roi) != 2 * len(axes):
            raise ModelError(f"expected {2 * len(axes)} numbers as roi, got {len(roi)}")
        crops |= {axis: (roi[i], roi[len(axes) + i]) for i, axis in enumerate(axes)}
    lines = [
        Line(2 + i, x.shape[2 + i], size, scale, crops[2 + i])
        for i, (size, scale) in enumerate(zip(sizes, scales, strict=True))
    ]
    place = None if position == "tf_crop_and_resize" else _POSITIONS[position]
    lower_interpolate(ctx, node, x, lines, _corners if position == "align_corners" else place)


def _corners(x: int, scale: float, size: int, out: int) -> float:
    """align_corners by the output's exact size, before it is rounded down (ONNX, Resize-19)."""
    exact = scale * size
    width = out if abs(exact - out) < 1e-6 else exact
    return x * (size - 1) / (width - 1) if width > 1 else 0.0


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
    policy = attribute(node, "keep_aspect_ratio_policy", "stretch")
    if policy not in _POLICIES:
        raise ModelError(
            f"expected keep_aspect_ratio_policy {', '.join(_POLICIES)}, got {policy}; export again"
        )
    scales, sizes = [1.0] * rank, list(shape)
    given = [name for name in node.input[1:] if name]
    last = len(node.input) == 4 and bool(node.input[3])
    if last:
        wanted = dict(zip(axes, ctx.ints(node.input[3], "the sizes"), strict=True))
        ratios = {axis: size / shape[axis] for axis, size in wanted.items()}
        one = _POLICIES[policy](ratios.values())
        for axis, size in wanted.items():
            scales[axis] = one or ratios[axis]
            sizes[axis] = math.floor(one * shape[axis] + 0.5) if one else size
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
    _check_places(node, shape, sizes)
    return sizes[2:], scales[2:]


def _check_places(node: onnx.NodeProto, shape: tuple[int, ...], sizes: list[int]) -> None:
    """Raise ModelError for more than the tables here and the matrices of Line may be made for."""
    pairs = [out * size for out, size in zip(sizes, shape, strict=True)]
    if max(sizes) > _LARGEST or max(pairs) > MOST_FACTORS:
        raise ModelError(
            f"expected sizes of {_LARGEST} or less, and {MOST_FACTORS} pairs of places on an axis, "
            f"got {list(shape)} resized to {sizes}; use a smaller size"
        )
    check_size(node.output[0], tuple(sizes))


def _scales(ctx: Context, node: onnx.NodeProto, given: list[str]) -> list[float]:
    """An attribute of Upsample-7, the second input of opset 9 and 10, the third since 11."""
    if not given:
        return [float(f) for f in attribute(node, "scales", ())]
    index = 1 if len(node.input) == 2 else 2
    return [float(f) for f in ctx.tensor(node.input[index], "the scales").array.ravel()]
