"""Clipping by the norm of all gradients together: sum of squares, factor, scaling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.ir.graph import TensorType
from poet_mcu.ops.operator import Array, Attrs, Cost, Kernel, Operator, Types, number, vector_kernel

_SOURCE = "clip_norm.c"


class SquareSum(Operator):
    """total = [before +] sum of g^2, a scalar. Inputs g and, but for the first, before.

    Not recomputable: g may be an accumulated gradient, which is overwritten later in the step.
    """

    name = "square_sum"
    recomputable = False

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(()),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        g, *before = (np.asarray(a, np.float32) for a in inputs)
        total = (g * g).sum(dtype=np.float32)
        return (np.asarray(before[0] + total if before else total, np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("update", elements=inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        before = "in1" if len(inputs) > 1 else "null"
        return vector_kernel("poet_square_sum_f32", _SOURCE, ("in0", before, "out0"), inputs[0])


class ClipFactor(Operator):
    """factor = min(1, most / (sqrt(total) + 1e-6)), scalars."""

    name = "clip_factor"
    recomputable = False  # its input is one
    in_place = ((0, 0),)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(()),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        total, most = np.float32(inputs[0]), np.float32(number(attrs, "most"))
        found = most / (np.sqrt(total) + np.float32(1e-6))
        return (np.asarray(np.float32(1) if found > 1 else found, np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("update", elements=1, transcendental=1)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = (("most", number(attrs, "most")),)
        args = ("in0", "out0")
        return Kernel("poet_clip_factor_f32", _SOURCE, args, "poet_clip_shape", fields)


class ScaleGradient(Operator):
    """scaled = factor * g; may run over g. Inputs g, factor."""

    name = "scale_gradient"
    recomputable = False  # its factor is not
    in_place: tuple[tuple[int, int], ...] = ((0, 0),)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (inputs[0],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        return (np.asarray(inputs[0], np.float32) * np.float32(inputs[1]),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("update", elements=inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return vector_kernel("poet_scale_f32", _SOURCE, ("in0", "in1", "out0"), inputs[0])


class ScaleState(ScaleGradient):
    """g <- factor * g for an accumulated gradient, which is state. Inputs g, factor."""

    name = "scale_state"
    in_place = ()
    mutates = (0,)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return ()

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return vector_kernel("poet_scale_f32", _SOURCE, ("in0", "in1", "in0"), inputs[0])


OPERATORS = (SquareSum(), ClipFactor(), ScaleGradient(), ScaleState())
