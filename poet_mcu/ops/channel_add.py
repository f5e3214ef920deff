"""A bias added to each channel: the bias of operators whose kernel has none."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types


class ChannelAdd(Operator):
    """y[n, m, ...] = x[n, m, ...] + b[m]; may run in place."""

    name = "channel_add"
    in_place = ((0, 0),)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        x, b = inputs
        if len(x.shape) < 2 or b.shape != (x.shape[1],):
            raise ModelError(f"expected a bias for each channel of {x.shape}, got {b.shape}")
        return (x,)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x, b = (np.asarray(a, np.float32) for a in inputs)
        return (x + b.reshape(-1, *(1,) * (x.ndim - 2)),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        shape = inputs[0].shape
        fields = (("n", shape[0]), ("m", shape[1]), ("plane", math.prod(shape[2:])))
        args = ("in0", "in1", "out0")
        return Kernel(
            "poet_channel_add_f32", "channel_add.c", args, "poet_channel_sum_shape", fields
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
        db = None
        if needs[1]:
            db = build.emit("channel_sum", (grads[0],), {}, f"d_{inputs[1].name}")[0]
        return grads[0], db


OPERATORS = (ChannelAdd(),)
