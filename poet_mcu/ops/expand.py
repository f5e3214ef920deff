"""Expand: a tensor repeated along axes; its gradient is the sum over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.broadcast import broadcast_kernel, reduce_to, result_shape
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints


class Expand(Operator):
    """y has the attribute ``shape``, to which x broadcasts."""

    name = "expand"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        shape = ints(attrs, "shape")
        if result_shape(inputs[0].shape, shape) != shape:
            raise ModelError(f"expected x that repeats to {list(shape)}, got {inputs[0].shape}")
        return (TensorType(shape),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x = np.asarray(inputs[0], np.float32)
        return (np.ascontiguousarray(np.broadcast_to(x, ints(attrs, "shape"))),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "out0")
        return broadcast_kernel(
            "poet_expand_fwd_f32", "expand.c", args, outputs[0].shape, [inputs[0].shape]
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
        x = inputs[0]
        return (reduce_to(build, grads[0], x.shape, f"d_{x.name}"),)


OPERATORS = (Expand(),)
