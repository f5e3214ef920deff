"""Stochastic gradient descent: overwrites the parameter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.ops.operator import Array, Attrs, Kernel, Types, number, vector_kernel
from poet_mcu.ops.update import Update, scalar


class Sgd(Update):
    """w <- w - lr * g. Inputs w, g."""

    name = "sgd"

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        w, g = (np.asarray(a, np.float32) for a in inputs)
        return ((w - scalar(attrs, "lr") * g).astype(np.float32),)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return vector_kernel("poet_sgd_f32", "sgd.c", ("in1", "lr", "in0"), inputs[0])


class SgdDecay(Update):
    """w <- w - lr * (g + weight_decay * w). Inputs w, g."""

    name = "sgd_decay"

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        w, g = (np.asarray(a, np.float32) for a in inputs)
        d = g + scalar(attrs, "weight_decay") * w
        return ((w - scalar(attrs, "lr") * d).astype(np.float32),)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = (("count", inputs[0].elements), ("weight_decay", number(attrs, "weight_decay")))
        args = ("in1", "lr", "in0")
        return Kernel("poet_sgd_decay_f32", "sgd.c", args, "poet_decay_shape", fields)


OPERATORS = (Sgd(), SgdDecay())
