"""Fully connected layer (Gemm, MatMul + Add) and its gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.ending import ENDINGS, ended, ended_cost, ended_kernel
from poet_mcu.ops.operator import (
    Array,
    Attrs,
    Cost,
    Emitter,
    Kernel,
    Operator,
    Types,
    in_memory_order,
    ints,
)

_SHAPE = "poet_dense_shape"
_SOURCE = "dense.c"


def _rows(attrs: Attrs) -> int:
    return ints(attrs, "w_rows_are_outputs")[0]


def _fields(n: int, k: int, m: int, attrs: Attrs) -> tuple[tuple[str, int], ...]:
    return (("n", n), ("k", k), ("m", m), ("w_rows_are_outputs", _rows(attrs)))


class Dense(Operator):
    """y[n,m] = b[m] + sum over k of x[n,k] * w; w is [m,k] or [k,m] by ``w_rows_are_outputs``."""

    name = "dense"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        x, w = inputs[0].shape, inputs[1].shape
        if len(x) != 2 or len(w) != 2:
            raise ModelError(f"expected x and w with 2 dimensions, got {x} and {w}")
        m, k = w if _rows(attrs) else w[::-1]
        if x[1] != k:
            raise ModelError(f"expected x with {k} columns for w {w}, got {x}")
        if len(inputs) > 2 and inputs[2].shape != (m,):
            raise ModelError(f"expected a bias of shape ({m},), got {inputs[2].shape}")
        return (TensorType((x[0], m)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x, w = (np.asarray(a, np.float32) for a in inputs[:2])
        y = np.einsum("nk,mk->nm" if _rows(attrs) else "nk,km->nm", x, w)
        if len(inputs) > 2:
            y = y + np.asarray(inputs[2])
        return ended((y.astype(np.float32),), attrs)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        macs = outputs[0].elements * inputs[0].shape[1]
        cost = Cost("dense_fwd", macs=macs, elements=outputs[0].elements)
        return ended_cost(cost, outputs[0], attrs)

    def ends_in(self, activation: str, inputs: Types, attrs: Attrs) -> bool:
        return activation in ENDINGS

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        (n, k), m = inputs[0].shape, outputs[0].shape[1]
        args = ("in0", "in1", "in2" if len(inputs) > 2 else "null", "out0")
        kernel = Kernel("poet_dense_fwd_f32", _SOURCE, args, _SHAPE, _fields(n, k, m, attrs))
        return ended_kernel(kernel, attrs)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        x, w = inputs[:2]
        dy = grads[0]

        def bwd_x() -> Value | None:
            if not needs[0]:
                return None
            return build.emit("dense_bwd_x", (dy, w), node.attrs, f"d_{x.name}")[0]

        def bwd_w() -> Value | None:
            if not needs[1]:
                return None
            return build.emit("dense_bwd_w", (x, dy), node.attrs, f"d_{w.name}")[0]

        dx, dw = in_memory_order(bwd_x, bwd_w, x, w)
        db = None
        if len(inputs) > 2 and needs[2]:
            db = build.emit("channel_sum", (dy,), {}, f"d_{inputs[2].name}")[0]
        return (dx, dw, db)[: len(inputs)]


class DenseBwdX(Operator):
    """dx from dy and w."""

    name = "dense_bwd_x"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        k = inputs[1].shape[1 if _rows(attrs) else 0]
        return (TensorType((inputs[0].shape[0], k)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dy, w = (np.asarray(a, np.float32) for a in inputs)
        return (np.einsum("nm,mk->nk" if _rows(attrs) else "nm,km->nk", dy, w),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        macs = outputs[0].elements * inputs[0].shape[1]
        return Cost("dense_bwd", macs=macs, elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        (n, k), m = outputs[0].shape, inputs[0].shape[1]
        args = ("in0", "in1", "out0")
        return Kernel("poet_dense_bwd_x_f32", _SOURCE, args, _SHAPE, _fields(n, k, m, attrs))


class DenseBwdW(Operator):
    """dw, in the layout of w, from x and dy."""

    name = "dense_bwd_w"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        k, m = inputs[0].shape[1], inputs[1].shape[1]
        return (TensorType((m, k) if _rows(attrs) else (k, m)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x, dy = (np.asarray(a, np.float32) for a in inputs)
        return (np.einsum("nk,nm->mk" if _rows(attrs) else "nk,nm->km", x, dy),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        macs = outputs[0].elements * inputs[0].shape[0]
        return Cost("dense_bwd", macs=macs, elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        (n, k), m = inputs[0].shape, inputs[1].shape[1]
        args = ("in0", "in1", "out0")
        return Kernel("poet_dense_bwd_w_f32", _SOURCE, args, _SHAPE, _fields(n, k, m, attrs))


OPERATORS = (Dense(), DenseBwdX(), DenseBwdW())
