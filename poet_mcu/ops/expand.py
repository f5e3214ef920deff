"""Repetition along axes of size 1, and its gradient, a sum over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints
from poet_mcu.ops.strided import Box, box_kernel, strides


def _repeating(small: tuple[int, ...], large: tuple[int, ...]) -> tuple[int, ...]:
    """Steps in the small tensor along the axes of the large one; 0 where it is repeated."""
    steps = zip(strides(small), small, large, strict=True)
    return tuple(0 if size == 1 and target > 1 else step for step, size, target in steps)


def _check(small: tuple[int, ...], large: tuple[int, ...]) -> None:
    fits = len(small) == len(large) and all(a in (1, b) for a, b in zip(small, large, strict=False))
    if not fits:
        raise ModelError(f"expected sizes of 1 or those of {list(large)}, got {list(small)}")


class Expand(Operator):
    """y of ``shape`` repeats x along x's axes of size 1; both have the same number of axes."""

    name = "expand"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        shape = ints(attrs, "shape")
        _check(inputs[0].shape, shape)
        return (TensorType(shape, inputs[0].dtype),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        return (np.ascontiguousarray(np.broadcast_to(inputs[0], ints(attrs, "shape"))),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        y = outputs[0].shape
        box = Box(y, _repeating(inputs[0].shape, y), strides(y))
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
        attrs: Attrs = {"shape": inputs[0].shape}
        return build.emit("expand_bwd", (grads[0],), attrs, f"d_{inputs[0].name}")


class ExpandBwd(Operator):
    """dx of ``shape``: the sum of dy over the axes that were repeated."""

    name = "expand_bwd"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        shape = ints(attrs, "shape")
        _check(shape, inputs[0].shape)
        return (TensorType(shape),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dy, shape = np.asarray(inputs[0], np.float32), ints(attrs, "shape")
        axes = tuple(i for i, size in enumerate(shape) if size != dy.shape[i])
        return (dy.sum(axis=axes, keepdims=True, dtype=np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        dy = inputs[0].shape
        box = Box(dy, strides(dy), _repeating(outputs[0].shape, dy))
        return box_kernel("poet_strided_add_f32", box, outputs[0])


OPERATORS = (Expand(), ExpandBwd())
