"""Bias gradient: the sum of dy over batch and plane, one value a channel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from poet_mcu.ir.graph import TensorType
from poet_mcu.ops.operator import Array, Attrs, Cost, Kernel, Operator, Types


class ChannelSum(Operator):
    """db[m] = sum of dy[n, m, ...]; dy has two or more dimensions."""

    name = "channel_sum"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType((inputs[0].shape[1],)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dy = np.asarray(inputs[0], np.float32)
        axes = tuple(i for i in range(dy.ndim) if i != 1)
        return (dy.sum(axis=axes, dtype=np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        shape = inputs[0].shape
        fields = (("n", shape[0]), ("m", shape[1]), ("plane", math.prod(shape[2:])))
        args = ("in0", "out0")
        return Kernel(
            "poet_channel_sum_f32", "channel_sum.c", args, "poet_channel_sum_shape", fields
        )


OPERATORS = (ChannelSum(),)
