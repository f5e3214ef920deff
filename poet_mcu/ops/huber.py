"""Huber's loss and its gradient in one node."""

from __future__ import annotations

import numpy as np

from poet_mcu.ops.elementwise_loss import ElementwiseLoss, Floats
from poet_mcu.ops.operator import Attrs, Kernel, Types, number


class Huber(ElementwiseLoss):
    """d^2 / 2 where |d| <= ``delta``, else delta (|d| - delta / 2), with d = y - t; the mean."""

    name = "huber"

    def terms(self, y: Floats, t: Floats, attrs: Attrs) -> tuple[Floats, Floats]:
        delta = np.float32(number(attrs, "delta"))
        d = y - t
        far = np.abs(d) > delta
        loss = np.where(far, delta * (np.abs(d) - delta / 2), d / 2 * d)
        return loss, np.where(far, np.copysign(delta, d), d)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = (("count", inputs[0].elements), ("delta", number(attrs, "delta")))
        args = ("in0", "in1", "out0", "out1")
        return Kernel("poet_huber_f32", "huber.c", args, "poet_huber_shape", fields)


OPERATORS = (Huber(),)
