"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.ops.operator import Array, Attrs, Kernel, Types, number
from poet_mcu.ops.update import Update, bias_correction, scalar


class Adam(Update):
    """PyTorch's Adam, or with ``decoupled`` its AdamW. Inputs w, g, mean, square."""

    name = "adam"
    mutates = (0, 2, 3)
    transcendental = 1  # a root and two divisions

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        w, g, mean, square = (np.asarray(a, np.float32) for a in inputs)
        lr, decay = scalar(attrs, "lr"), scalar(attrs, "weight_decay")
        updates = int(number(attrs, "updates")) + 1
        bias1, bias2 = (
            bias_correction(1 - number(attrs, key), updates) for key in ("beta1", "beta2")
        )
        kept = w - lr * decay * w if attrs["decoupled"] else w
        d = g if attrs["decoupled"] else g + decay * w
        mean = mean + _complement(attrs, "beta1") * (d - mean)
        square = scalar(attrs, "beta2") * square + _complement(attrs, "beta2") * (d * d)
        root = np.sqrt(square) / np.sqrt(bias2) + scalar(attrs, "eps")
        return (kept - lr / bias1 * (mean / root)).astype(np.float32), mean, square

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = (
            ("count", inputs[0].elements),
            ("complement1", float(_complement(attrs, "beta1"))),
            ("beta2", number(attrs, "beta2")),
            ("complement2", float(_complement(attrs, "beta2"))),
            ("eps", number(attrs, "eps")),
            ("weight_decay", number(attrs, "weight_decay")),
            ("decoupled", int(number(attrs, "decoupled"))),
        )
        args = ("in1", "lr", "bias1", "bias2", "in2", "in3", "in0")
        return Kernel("poet_adam_f32", "adam.c", args, "poet_adam_shape", fields)


def _complement(attrs: Attrs, key: str) -> np.float32:
    """1 - beta, rounded once: 1 - float(0.999) would be off by 1e-5."""
    return np.float32(1 - number(attrs, key))


OPERATORS = (Adam(),)
