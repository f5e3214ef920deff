"""Binary cross-entropy from logits and its gradient in one node."""

from __future__ import annotations

import numpy as np

from poet_mcu.ops.elementwise_loss import ElementwiseLoss, Floats
from poet_mcu.ops.operator import Attrs, Kernel, Types, vector_kernel


class Bce(ElementwiseLoss):
    """From logits z and targets t in 0..1: mean of max(z, 0) - z t + ln(1 + e^-|z|), and dz."""

    name = "bce"
    transcendental = 2

    def terms(self, y: Floats, t: Floats, attrs: Attrs) -> tuple[Floats, Floats]:
        e = np.exp(-np.abs(y))
        sigmoid = np.where(y < 0, e, np.float32(1)) / (1 + e)
        return np.where(y < 0, np.float32(0), y) - y * t + np.log1p(e), sigmoid - t

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "out0", "out1")
        return vector_kernel("poet_bce_f32", "bce.c", args, inputs[0])


OPERATORS = (Bce(),)
