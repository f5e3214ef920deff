"""Gradients of several batches summed up in state for one update."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.ir.graph import TensorType
from poet_mcu.ops.operator import Array, Attrs, Kernel, Types, number, vector_kernel
from poet_mcu.ops.update import Update, scalar

_SOURCE = "accumulate.c"


class Accumulate(Update):
    """sum <- sum + scale * g. Inputs sum (state), g."""

    name = "accumulate"

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        total, g = (np.asarray(a, np.float32) for a in inputs)
        return (total + scalar(attrs, "scale") * g,)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = (("count", inputs[0].elements), ("scale", number(attrs, "scale")))
        args = ("in1", "in0")
        return Kernel("poet_accumulate_f32", _SOURCE, args, "poet_accumulate_shape", fields)


class Clear(Update):
    """sum <- 0. Input sum (state)."""

    name = "clear"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return ()

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        return (np.zeros_like(inputs[0]),)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return vector_kernel("poet_clear_f32", _SOURCE, ("in0",), inputs[0])


OPERATORS = (Accumulate(), Clear())
