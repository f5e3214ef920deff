"""Stochastic gradient descent: overwrites the parameter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import TensorType
from poet_mcu.ops.operator import Array, Attrs, Cost, Kernel, Operator, Types, vector_kernel


class Sgd(Operator):
    """w <- w - lr * g. Inputs w, g; the reference takes lr as attribute ``lr``."""

    name = "sgd"
    recomputable = False
    mutates = (0,)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        w, g = inputs
        if w != g:
            raise ModelError(f"sgd: expected a gradient like the parameter {w}, got {g}")
        return ()

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        w, g = (np.asarray(a, np.float32) for a in inputs)
        lr = attrs["lr"]
        return ((w - np.float32(lr) * g).astype(np.float32),)  # type: ignore[arg-type]

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("update", elements=inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return vector_kernel("poet_sgd_f32", "sgd.c", ("in1", "lr", "in0"), inputs[0])


OPERATORS = (Sgd(),)
