"""Sum of two tensors: residual connections, biases that broadcast, gradients that meet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.broadcast import broadcast_kernel, reduce_to, result_shape
from poet_mcu.ops.ending import ENDINGS, ended, ended_cost, ended_kernel
from poet_mcu.ops.operator import (
    Array,
    Attrs,
    Cost,
    Emitter,
    Kernel,
    Operator,
    Types,
    vector_kernel,
)


class Add(Operator):
    """y = a + b over the shape both broadcast to; may run over an operand of that size."""

    name = "add"
    in_place = ((0, 0), (0, 1))

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(result_shape(inputs[0].shape, inputs[1].shape)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        total = np.asarray(inputs[0], np.float32) + np.asarray(inputs[1], np.float32)
        return ended((total,), attrs)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        cost = Cost("elementwise", elements=outputs[0].elements)
        return ended_cost(cost, outputs[0], attrs)

    def ends_in(self, activation: str, inputs: Types, attrs: Attrs) -> bool:
        return activation in ENDINGS and inputs[0].shape == inputs[1].shape

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "out0")
        if inputs[0].shape == inputs[1].shape:
            kernel = vector_kernel("poet_add_fwd_f32", "add.c", args, outputs[0])
            return ended_kernel(kernel, attrs)
        shapes = [kind.shape for kind in inputs]
        return broadcast_kernel(
            "poet_add_fwd_broadcast_f32", "elementwise.c", args, outputs[0].shape, shapes
        )

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        return tuple(
            reduce_to(build, grads[0], value.shape, f"d_{value.name}") if need else None
            for value, need in zip(inputs, needs, strict=True)
        )


OPERATORS = (Add(),)
