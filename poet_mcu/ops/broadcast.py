"""Broadcasting as the C kernels see it: merged axes and a stride for each operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Value
from poet_mcu.ops.operator import Emitter, Kernel

AXES = 6  # POET_AXES in poet/kernels.h
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a result: its size and each operand's stride in elements, 0 where repeated."""

    size: int
    strides: tuple[int, ...]


def result_shape(*shapes: Shape) -> Shape:
    """The shape that ``shapes`` broadcast to; raises ModelError when they do not."""
    try:
        return tuple(int(size) for size in np.broadcast_shapes(*shapes))
    except ValueError as error:
        names = " and ".join(str(list(shape)) for shape in shapes)
        raise ModelError(
            f"expected shapes that broadcast against each other, got {names}"
        ) from error


def strides_to(shape: Shape, target: Shape) -> tuple[int, ...]:
    """Strides of a dense ``shape`` along the axes of ``target``, 0 where it is repeated."""
    padded = (1,) * (len(target) - len(shape)) + shape
    strides = [math.prod(padded[i + 1 :]) for i in range(len(padded))]
    return tuple(0 if size == 1 else stride for size, stride in zip(padded, strides, strict=True))


def merged(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The same walk with as few axes as possible, at least one."""
    found: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if found and found[-1].strides == tuple(s * axis.size for s in axis.strides):
            axis = Axis(found.pop().size * axis.size, axis.strides)  # noqa: PLW2901 - grows
        found.append(axis)
    return tuple(found) or (Axis(1, tuple(0 for _ in axes[0].strides) if axes else ()),)


def check_axes(count: int, shape: Shape) -> None:
    """Raise ModelError when a kernel cannot walk so many axes."""
    if count > AXES:
        raise ModelError(
            f"expected at most {AXES} axes that cannot be merged, got {count} of {list(shape)}; "
            "reshape to fewer dimensions before export"
        )


def array_fields(name: str, numbers: Sequence[int]) -> tuple[tuple[str, int], ...]:
    """The initializers of an array member of a descriptor."""
    return tuple((f"{name}[{i}]", number) for i, number in enumerate(numbers))


def broadcast_kernel(
    function: str, source: str, args: tuple[str, ...], out: Shape, operands: Sequence[Shape]
) -> Kernel:
    """The call of a kernel that walks ``out`` and up to three operands broadcast to it."""
    strides = [strides_to(shape, out) for shape in operands]
    sizes = out or (1,)
    axes = merged(
        [Axis(size, tuple(s[i] if s else 0 for s in strides)) for i, size in enumerate(sizes)]
    )
    check_axes(len(axes), out)
    fields: list[tuple[str, int]] = [("rank", len(axes))]
    fields += array_fields("d", [axis.size for axis in axes])
    for i, letter in zip(range(len(operands)), "abc", strict=False):
        fields += array_fields(letter, [axis.strides[i] for axis in axes])
    return Kernel(function, source, args, "poet_broadcast_shape", tuple(fields))


def reduced_axes(shape: Shape, target: Shape) -> tuple[int, ...]:
    """The axes of ``shape`` that a sum must take away to reach ``target``."""
    padded = (1,) * (len(shape) - len(target)) + target
    return tuple(i for i, size in enumerate(padded) if size == 1 and shape[i] != 1)


def reduce_to(build: Emitter, value: Value, target: Shape, name: str) -> Value:
    """``value`` summed over the axes along which ``target`` was repeated."""
    axes = reduced_axes(value.shape, target)
    if axes:
        value = build.emit("reduce_sum", (value,), {"axes": axes}, name)[0]
    return value if value.shape == target else build.view(value, target, f"{name}_view")


def product_to(build: Emitter, dy: Value, factor: Value, target: Shape, name: str) -> Value:
    """``dy * factor`` summed likewise, without the product in memory where axes are reduced."""
    axes = reduced_axes(dy.shape, target)
    if axes:
        found = build.emit("reduce_product", (dy, factor), {"axes": axes}, name)[0]
    else:
        found = build.emit("mul", (dy, factor), {}, name)[0]
    return found if found.shape == target else build.view(found, target, f"{name}_view")
