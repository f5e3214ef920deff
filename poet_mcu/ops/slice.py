"""A part of a tensor, and its opposite: a tensor placed into a larger one (padding)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import (
    Array,
    Attrs,
    Cost,
    Emitter,
    Kernel,
    Operator,
    Types,
    ints,
    number,
)
from poet_mcu.ops.strided import Box, box_kernel, strides


def _check(outer: tuple[int, ...], sizes: tuple[int, ...], attrs: Attrs) -> None:
    """Raise ModelError unless every element lies inside ``outer``."""
    starts, steps = ints(attrs, "starts"), ints(attrs, "steps")
    if not len(outer) == len(sizes) == len(starts) == len(steps):
        raise ModelError(f"expected a start, size and step for each of {len(outer)} axes")
    for axis, (size, start, step) in enumerate(zip(sizes, starts, steps, strict=True)):
        last = start + (size - 1) * step
        if size < 1 or not (0 <= start < outer[axis] and 0 <= last < outer[axis]):
            raise ModelError(
                f"expected elements inside {list(outer)}, got {size} from {start} by {step} "
                f"along axis {axis}"
            )


def _inner(outer: tuple[int, ...], attrs: Attrs) -> tuple[int, tuple[int, ...]]:
    """First element and steps of the part within the dense larger tensor."""
    steps = strides(outer)
    starts = ints(attrs, "starts")
    first = sum(start * step for start, step in zip(starts, steps, strict=True))
    return first, tuple(a * b for a, b in zip(ints(attrs, "steps"), steps, strict=True))


def _index(
    sizes: tuple[int, ...], attrs: Attrs
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.intp]], ...]:
    rows = zip(ints(attrs, "starts"), sizes, ints(attrs, "steps"), strict=True)
    return np.ix_(*(start + step * np.arange(size, dtype=np.intp) for start, size, step in rows))


class Slice(Operator):
    """y[i] = x[starts + i * steps] for i below ``sizes``; steps may be negative."""

    name = "slice"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        sizes = ints(attrs, "sizes")
        _check(inputs[0].shape, sizes, attrs)
        return (TensorType(sizes, inputs[0].dtype),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        return (np.ascontiguousarray(inputs[0][_index(ints(attrs, "sizes"), attrs)]),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        first, steps = _inner(inputs[0].shape, attrs)
        box = Box(outputs[0].shape, steps, strides(outputs[0].shape), first)
        return box_kernel("poet_strided_copy_f32", box, outputs[0])

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        attrs: Attrs = {
            "shape": inputs[0].shape,
            "starts": node.attrs["starts"],
            "steps": node.attrs["steps"],
            "value": 0.0,
        }
        return build.emit("place", (grads[0],), attrs, f"d_{inputs[0].name}")


class Place(Operator):
    """y of ``shape`` is ``value`` but for y[starts + i * steps] = x[i]."""

    name = "place"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        shape = ints(attrs, "shape")
        _check(shape, inputs[0].shape, attrs)
        return (TensorType(shape, inputs[0].dtype),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        y = np.full(ints(attrs, "shape"), number(attrs, "value"), np.float32)
        y[_index(inputs[0].shape, attrs)] = inputs[0]
        return (y,)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=inputs[0].elements + outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        first, steps = _inner(outputs[0].shape, attrs)
        shape = inputs[0].shape
        box = Box(shape, strides(shape), steps, 0, first)
        return box_kernel("poet_strided_place_f32", box, outputs[0], number(attrs, "value"))

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        attrs: Attrs = {
            "sizes": inputs[0].shape,
            "starts": node.attrs["starts"],
            "steps": node.attrs["steps"],
        }
        return build.emit("slice", (grads[0],), attrs, f"d_{inputs[0].name}")


OPERATORS = (Slice(), Place())
