"""Gradient descent with momentum, plain or Nesterov's, with coupled weight decay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.ops.operator import Array, Attrs, Kernel, Types, number
from poet_mcu.ops.update import Update, scalar


class Momentum(Update):
    """PyTorch's SGD(momentum, weight_decay, nesterov), dampening 0. Inputs w, g, velocity."""

    name = "momentum"
    mutates = (0, 2)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        w, g, velocity = (np.asarray(a, np.float32) for a in inputs)
        mu = scalar(attrs, "momentum")
        d = g + scalar(attrs, "weight_decay") * w
        velocity = d + mu * velocity
        along = d + mu * velocity if attrs["nesterov"] else velocity
        return (w - scalar(attrs, "lr") * along).astype(np.float32), velocity

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = (
            ("count", inputs[0].elements),
            ("momentum", number(attrs, "momentum")),
            ("weight_decay", number(attrs, "weight_decay")),
            ("nesterov", int(number(attrs, "nesterov"))),
        )
        args = ("in1", "lr", "in2", "in0")
        return Kernel("poet_momentum_f32", "momentum.c", args, "poet_momentum_shape", fields)


OPERATORS = (Momentum(),)
