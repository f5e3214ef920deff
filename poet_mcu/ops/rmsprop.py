"""RMSprop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.ops.operator import Array, Attrs, Kernel, Types, number
from poet_mcu.ops.update import Update, scalar


class RmsProp(Update):
    """PyTorch's RMSprop without momentum, not centered. Inputs w, g, square."""

    name = "rmsprop"
    mutates = (0, 2)
    transcendental = 1  # a root and a division

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        w, g, square = (np.asarray(a, np.float32) for a in inputs)
        d = g + scalar(attrs, "weight_decay") * w
        complement = np.float32(1 - number(attrs, "alpha"))
        square = (scalar(attrs, "alpha") * square + complement * (d * d)).astype(np.float32)
        root = np.sqrt(square) + scalar(attrs, "eps")
        moved = (w - scalar(attrs, "lr") * (d / root)).astype(np.float32)
        return moved, square

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = (
            ("count", inputs[0].elements),
            ("alpha", number(attrs, "alpha")),
            ("complement", 1 - number(attrs, "alpha")),
            ("eps", number(attrs, "eps")),
            ("weight_decay", number(attrs, "weight_decay")),
        )
        args = ("in1", "lr", "in2", "in0")
        return Kernel("poet_rmsprop_f32", "rmsprop.c", args, "poet_rmsprop_shape", fields)


OPERATORS = (RmsProp(),)
