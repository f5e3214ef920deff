"""Reordering of axes that moves elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints
from poet_mcu.ops.strided import Box, box_kernel, strides


class Transpose(Operator):
    """y has axis i of x's axis ``perm[i]``."""

    name = "transpose"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        shape, perm = inputs[0].shape, ints(attrs, "perm")
        if sorted(perm) != list(range(len(shape))):
            raise ModelError(f"expected perm to order {len(shape)} axes, got {list(perm)}")
        result = TensorType(tuple(shape[axis] for axis in perm), inputs[0].dtype)
        self._box(shape, result.shape, perm).merged()
        return (result,)

    def _box(self, x: tuple[int, ...], y: tuple[int, ...], perm: tuple[int, ...]) -> Box:
        steps = strides(x)
        return Box(y, tuple(steps[axis] for axis in perm), strides(y))

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        return (np.ascontiguousarray(np.transpose(inputs[0], ints(attrs, "perm"))),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        box = self._box(inputs[0].shape, outputs[0].shape, ints(attrs, "perm"))
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
        perm = ints(node.attrs, "perm")
        back = tuple(perm.index(axis) for axis in range(len(perm)))
        return build.emit("transpose", (grads[0],), {"perm": back}, f"d_{inputs[0].name}")


OPERATORS = (Transpose(),)
