"""Resize by linear or cubic interpolation: one matrix an axis, of what each output is made of.

Both are sums of inputs with factors known at build time, so an axis is a product with a constant
matrix: a dense layer along the last axis, a convolution of 1 x 1 along any other one, whose
channels that axis becomes. Their gradients are those of the layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Active, Context, attribute
from poet_mcu.frontend.lower_elementwise import part
from poet_mcu.ir.graph import Attr, Role, TensorType, Value

Matrix = npt.NDArray[np.float32]
Position = Callable[[int, float, int, int], float]

_POINT: dict[str, Attr] = {
    "strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0), "group": 1
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One axis: its size before and after, the scale, and where tf_crop_and_resize cuts it."""

    axis: int
    size: int
    out: int
    scale: float
    crop: tuple[float, float] = (0.0, 1.0)


def _tent(t: float, _a: float) -> float:
    return max(0.0, 1.0 - abs(t))


def _cubic(t: float, a: float) -> float:
    """Keys' kernel (ONNX Operators, Resize-19, cubic_coeff_a)."""
    t = abs(t)
    if t <= 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a if t < 2 else 0.0


_KERNELS = {"linear": (_tent, 1), "cubic": (_cubic, 2)}


def lower_interpolate(
    ctx: Context, node: onnx.NodeProto, x: Value, lines: Sequence[Line], place: Position | None
) -> None:
    """The node's output from ``x``; ``place`` None is tf_crop_and_resize."""
    name = node.output[0]
    outside: list[npt.NDArray[np.bool_]] = []
    for line in lines:
        matrix, missed = _matrix(node, line, place or _crop(line))
        outside.append(missed if place is None else np.zeros_like(missed))
        if matrix.shape[0] != matrix.shape[1] or not np.array_equal(matrix, np.eye(line.size)):
            x = along(ctx, node, x, line.axis, matrix)
    fill = float(attribute(node, "extrapolation_value", 0.0))
    if any(missed.any() for missed in outside) and fill != 0.0:
        shown = np.zeros([line.out for line in lines], np.bool_)
        for i, missed in enumerate(outside):
            shown |= missed.reshape([-1 if i == j else 1 for j in range(len(lines))])
        array = np.where(shown, np.float32(fill), np.float32(0))
        kind = TensorType(array.shape)
        values = ctx.builder.value(f"{name}_outside", kind, Role.CONSTANT, "", array)
        x = part(ctx, node, "add", (x, values), "filled")
    ctx.env[name] = Active(x)


def _crop(line: Line) -> Position:
    """tf_crop_and_resize: positions between the ends of the region of interest."""
    first, last = (edge * (line.size - 1) for edge in line.crop)

    def place(x: int, _scale: float, _size: int, out: int) -> float:
        return first + x * (last - first) / (out - 1) if out > 1 else (first + last) / 2

    return place


def _matrix(
    node: onnx.NodeProto, line: Line, place: Position
) -> tuple[Matrix, npt.NDArray[np.bool_]]:
    """Factors [out, size], and which outputs lie outside (their rows are 0 when cropping)."""
    kernel, radius = _KERNELS[attribute(node, "mode", "nearest")]
    a = float(attribute(node, "cubic_coeff_a", -0.75))
    smooth = bool(attribute(node, "antialias", 0))
    cropping = attribute(node, "coordinate_transformation_mode", "") == "tf_crop_and_resize"
    narrow = min(line.scale, 1.0) if smooth else 1.0
    exclude = bool(attribute(node, "exclude_outside", 0))
    reach = math.ceil(radius / narrow)
    matrix = np.zeros((line.out, line.size))
    missed = np.zeros(line.out, np.bool_)
    for i in range(line.out):
        at = place(i, line.scale, line.size, line.out)
        missed[i] = not 0 <= at <= line.size - 1
        if cropping and missed[i]:
            continue
        for k in range(math.floor(at) - reach, math.floor(at) + reach + 2):
            factor = kernel((k - at) * narrow, a)
            if 0 <= k < line.size:
                matrix[i, k] += factor
            elif not exclude:
                matrix[i, min(max(k, 0), line.size - 1)] += factor
        total = matrix[i].sum()
        if not abs(total) > 1e-9:
            raise ModelError(
                f"expected factors that add up to 1, got {total:g} for output {i} along axis "
                f"{line.axis}; export with exclude_outside=0"
            )
        matrix[i] /= total
    return matrix.astype(np.float32), missed


def along(ctx: Context, node: onnx.NodeProto, x: Value, axis: int, matrix: Matrix) -> Value:
    """``matrix`` times each line of x along ``axis``."""
    name, build = node.output[0], ctx.builder
    label = f"{name}_axis{axis}"
    out, size = matrix.shape
    shape = (*x.shape[:axis], out, *x.shape[axis + 1 :])
    if axis == len(x.shape) - 1:
        factors = build.value(
            f"{label}_factors", TensorType((out, size)), Role.CONSTANT, "", matrix
        )
        rows = build.view(x, (x.type.elements // size, size), f"{label}_rows")
        y = part(ctx, node, "dense", (rows, factors), f"axis{axis}", {"w_rows_are_outputs": 1})
        return build.view(y, shape, f"{label}_shape")
    kernel = matrix.reshape(out, size, 1, 1)
    factors = build.value(f"{label}_factors", TensorType(kernel.shape), Role.CONSTANT, "", kernel)
    lines = (math.prod(x.shape[:axis]), size, 1, math.prod(x.shape[axis + 1 :]))
    planes = build.view(x, lines, f"{label}_planes")
    y = build.emit("conv2d", (planes, factors), _POINT, label, node.name or name)[0]
    return build.view(y, shape, f"{label}_shape")
