"""The model's own scalar output as the loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import DType, TensorType
from poet_mcu.ops.operator import Array, Attrs, Cost, Kernel, Operator, Types


class ScalarLoss(Operator):
    """From an output of one element: the loss, a scalar, and the gradient 1."""

    name = "scalar_loss"
    recomputable = False  # its loss is an output of the step
    in_place = ((1, 0),)
    suffixes = ("", "_gradient")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        (y,) = inputs
        if y.elements != 1 or y.dtype is not DType.F32:
            raise ModelError(
                f"none: expected an output of one float, the loss, got shape {y.shape}; "
                "choose another --loss, or export the model with its loss"
            )
        return TensorType(()), y

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        y = np.asarray(inputs[0], np.float32)
        return y.reshape(()).copy(), np.ones_like(y)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("loss", elements=1)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return Kernel("poet_scalar_loss_f32", "scalar_loss.c", ("in0", "out0", "out1"))


OPERATORS = (ScalarLoss(),)
