"""Mean absolute error and its gradient in one node."""

from __future__ import annotations

import numpy as np

from poet_mcu.ops.elementwise_loss import ElementwiseLoss, Floats
from poet_mcu.ops.operator import Attrs, Kernel, Types, vector_kernel


class L1(ElementwiseLoss):
    """Mean of |y - t|; the gradient is 0 where both are equal."""

    name = "l1"

    def terms(self, y: Floats, t: Floats, attrs: Attrs) -> tuple[Floats, Floats]:
        return np.abs(y - t), np.sign(y - t)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "out0", "out1")
        return vector_kernel("poet_l1_f32", "l1.c", args, inputs[0])


OPERATORS = (L1(),)
