"""Rectifier; its gradient needs only the output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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

_SOURCE = "relu.c"


class Relu(Operator):
    """y = max(x, 0); NaN stays NaN."""

    name = "relu"
    in_place = ((0, 0),)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (inputs[0],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x = np.asarray(inputs[0], np.float32)
        return (np.where(x <= 0, np.float32(0), x),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return vector_kernel("poet_relu_fwd_f32", _SOURCE, ("in0", "out0"), outputs[0])

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        name = f"d_{inputs[0].name}"
        return build.emit("relu_bwd", (outputs[0], grads[0]), {}, name)


class ReluBwd(Operator):
    """dx = dy where y > 0, else 0; may run over dy."""

    name = "relu_bwd"
    in_place = ((0, 1), (0, 0))

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (inputs[1],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        y, dy = (np.asarray(a, np.float32) for a in inputs)
        return (np.where(y > 0, dy, np.float32(0)),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return vector_kernel("poet_relu_bwd_f32", _SOURCE, ("in0", "in1", "out0"), outputs[0])


OPERATORS = (Relu(), ReluBwd())
