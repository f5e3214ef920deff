"""Softmax and cross-entropy with class weights and label smoothing, loss and gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import DType, TensorType
from poet_mcu.ops.operator import Array, Attrs, Cost, Kernel, Operator, Types, number


class WeightedXent(Operator):
    """From logits z [n,k], labels [n] (int32) and weights [k]: the loss, a scalar, and dz [n,k].

    PyTorch's ``cross_entropy(z, labels, weights, label_smoothing=smoothing)``: the sum over the
    batch is divided by the sum of the labels' weights. A label outside 0..k-1 gives a NaN loss.
    """

    name = "weighted_xent"
    recomputable = False  # its loss is an output of the step
    in_place = ((1, 0),)
    suffixes = ("", "_gradient")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        z, labels, weights = inputs
        if len(z.shape) != 2:
            raise ModelError(f"cross-entropy: expected logits [batch, classes], got {z.shape}")
        if labels != TensorType(z.shape[:1], DType.I32):
            raise ModelError(f"cross-entropy: expected {z.shape[0]} int32 labels, got {labels}")
        if weights != TensorType(z.shape[1:]):
            raise ModelError(
                f"--class-weights: expected {z.shape[1]} numbers, one a class, "
                f"got {weights.elements}"
            )
        return TensorType(()), z

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        z, weights = (np.asarray(inputs[i], np.float32) for i in (0, 2))
        labels, smoothing = inputs[1].astype(np.intp), np.float32(number(attrs, "smoothing"))
        rows, k = np.arange(z.shape[0]), np.float32(z.shape[1])
        bad = (labels < 0) | (labels >= z.shape[1])
        picked = np.where(bad, 0, labels)
        shifted = z - z.max(1, keepdims=True)
        exp = np.exp(shifted)
        total = exp.sum(1, keepdims=True, dtype=np.float32)
        target = np.tile(smoothing / k * weights, (z.shape[0], 1))
        target[rows, picked] += (1 - smoothing) * weights[picked]
        whole = np.where(bad, np.float32(np.nan), weights[picked]).sum(dtype=np.float32)
        losses = np.where(target > 0, target * (np.log(total) - shifted), np.float32(0))
        dz = (target.sum(1, keepdims=True, dtype=np.float32) * (exp / total) - target) / whole
        loss = losses.sum(dtype=np.float32) / whole
        return np.asarray(loss, np.float32), dz.astype(np.float32)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        count = inputs[0].elements
        return Cost("loss", elements=2 * count, transcendental=count + inputs[0].shape[0])

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        n, k = inputs[0].shape
        return Kernel(
            "poet_weighted_xent_f32",
            "weighted_xent.c",
            ("in0", "in1", "in2", "out0", "out1"),
            "poet_weighted_xent_shape",
            (("n", n), ("k", k), ("smoothing", number(attrs, "smoothing"))),
        )


OPERATORS = (WeightedXent(),)
