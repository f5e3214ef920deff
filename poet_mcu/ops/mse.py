"""Mean squared error and its gradient in one node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import TensorType
from poet_mcu.ops.operator import Array, Attrs, Cost, Kernel, Operator, Types, vector_kernel


class Mse(Operator):
    """From output y and target t of one shape: mean of (y - t)^2, a scalar, and dy."""

    name = "mse"
    recomputable = False  # its loss is an output of the step
    in_place = ((1, 0),)
    suffixes = ("", "_gradient")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        y, t = inputs
        if y != t:
            raise ModelError(f"mse: expected targets like the output {y}, got {t}")
        return TensorType(()), y

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        difference = np.asarray(inputs[0], np.float32) - np.asarray(inputs[1], np.float32)
        count = np.float32(difference.size)
        loss = (difference * difference).sum(dtype=np.float32) / count
        dy = difference * (np.float32(2) / count)
        return np.asarray(loss, np.float32), dy.astype(np.float32)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("loss", elements=inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "out0", "out1")
        return vector_kernel("poet_mse_f32", "mse.c", args, inputs[0])


OPERATORS = (Mse(),)
