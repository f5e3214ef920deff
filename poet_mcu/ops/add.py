"""Sum of two tensors of one shape: residual connections and gradients that meet."""

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
    vector_kernel,
)


class Add(Operator):
    """y = a + b, element by element; may run over either."""

    name = "add"
    in_place = ((0, 0), (0, 1))

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        if inputs[0].shape != inputs[1].shape:
            shapes = f"{inputs[0].shape} and {inputs[1].shape}"
            raise ModelError(f"expected two tensors of one shape, got {shapes}")
        return (inputs[0],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        return (np.asarray(inputs[0], np.float32) + np.asarray(inputs[1], np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return vector_kernel("poet_add_fwd_f32", "add.c", ("in0", "in1", "out0"), outputs[0])

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        return grads[0], grads[0]


OPERATORS = (Add(),)
