"""Softmax and cross-entropy in one node, forward and backward: loss and its gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import DType, TensorType
from poet_mcu.ops.operator import Array, Attrs, Cost, Kernel, Operator, Types


class SoftmaxXent(Operator):
    """From logits z [n,k] and labels [n] (int32): the mean loss, a scalar, and dz [n,k].

    A label outside 0..k-1 gives a NaN loss.
    """

    name = "softmax_xent"
    recomputable = False  # its loss is an output of the step
    in_place = ((1, 0),)
    suffixes = ("", "_gradient")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        z, labels = inputs
        if len(z.shape) != 2:
            raise ModelError(f"cross-entropy: expected logits [batch, classes], got {z.shape}")
        if labels != TensorType(z.shape[:1], DType.I32):
            raise ModelError(f"cross-entropy: expected {z.shape[0]} int32 labels, got {labels}")
        return TensorType(()), z

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        z, labels = np.asarray(inputs[0], np.float32), inputs[1].astype(np.intp)
        rows = np.arange(z.shape[0])
        bad = (labels < 0) | (labels >= z.shape[1])
        picked = np.where(bad, 0, labels)
        shifted = z - z.max(1, keepdims=True)
        exp = np.exp(shifted)
        total = exp.sum(1, dtype=np.float32)
        losses = np.where(bad, np.float32(np.nan), np.log(total) - shifted[rows, picked])
        dz = exp / total[:, None]
        dz[rows, picked] -= 1
        dz = np.where(bad[:, None], np.float32(np.nan), dz / np.float32(z.shape[0]))
        loss = losses.sum(dtype=np.float32) / np.float32(z.shape[0])
        return np.asarray(loss, np.float32), dz.astype(np.float32)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        count = inputs[0].elements
        return Cost("loss", elements=count, transcendental=count + inputs[0].shape[0])

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        n, k = inputs[0].shape
        args = ("in0", "in1", "out0", "out1")
        return Kernel(
            "poet_softmax_xent_f32", "softmax_xent.c", args, "poet_rows_shape", (("n", n), ("k", k))
        )


OPERATORS = (SoftmaxXent(),)
