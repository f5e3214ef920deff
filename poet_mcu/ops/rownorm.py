"""Layer, instance and group normalization: rows normalized by their own mean and variance.

x is seen as rows of equal length; row r belongs to group r % ``groups``, and each group has its
own part of scale and bias, every number of which serves ``inner`` neighbouring elements. The
backward kernels make the statistics again from x: nothing is saved for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import (
    Array,
    Attrs,
    Cost,
    Emitter,
    Kernel,
    Operator,
    Types,
    ints,
    number,
)

_SHAPE = "poet_rownorm_shape"
_SOURCE = "rownorm.c"
F32 = npt.NDArray[np.float32]


def _split(attrs: Attrs) -> tuple[int, int, int]:
    """features, groups, inner."""
    return ints(attrs, "features")[0], ints(attrs, "groups")[0], ints(attrs, "inner")[0]


def _fields(x: TensorType, attrs: Attrs) -> tuple[tuple[str, int | float], ...]:
    features, groups, inner = _split(attrs)
    rows = x.elements // features
    shape = (("rows", rows), ("features", features), ("groups", groups), ("inner", inner))
    return (*shape, ("eps", number(attrs, "eps")))


def _rows(x: Array, attrs: Attrs) -> F32:
    """x as [samples, groups, channels of a group, inner]."""
    features, groups, inner = _split(attrs)
    return np.asarray(x, np.float32).reshape(-1, groups, features // inner, inner)


def _per_channel(vector: Array, attrs: Attrs) -> F32:
    features, groups, inner = _split(attrs)
    return np.asarray(vector, np.float32).reshape(1, groups, features // inner, 1)


def _centred(rows: F32, attrs: Attrs) -> tuple[F32, F32]:
    """Rows less their mean, and their inverse deviation."""
    centred = rows - rows.mean((2, 3), keepdims=True, dtype=np.float32)
    var = np.square(centred).mean((2, 3), keepdims=True, dtype=np.float32)
    inverse = np.float32(1) / np.sqrt(var + np.float32(number(attrs, "eps")))
    return centred, inverse.astype(np.float32)


class RowNorm(Operator):
    """y = (x - mean) / sqrt(var + eps) * scale + bias, mean and var of each row; in place."""

    name = "rownorm"
    in_place = ((0, 0),)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        features, groups, inner = _split(attrs)
        if features % inner or inputs[0].elements % (features * groups):
            raise ModelError(
                f"expected rows of {features} elements in {groups} groups, got {inputs[0].shape}"
            )
        channels = groups * (features // inner)
        for vector in inputs[1:]:
            if math.prod(vector.shape) != channels:
                raise ModelError(f"expected {channels} scales and biases, got {vector.shape}")
        return (inputs[0],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x, scale, bias = inputs
        centred, inverse = _centred(_rows(x, attrs), attrs)
        y = centred * (inverse * _per_channel(scale, attrs)) + _per_channel(bias, attrs)
        return (y.reshape(x.shape).astype(np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=3 * outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "in2", "out0")
        return Kernel("poet_rownorm_fwd_f32", _SOURCE, args, _SHAPE, _fields(inputs[0], attrs))

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        x, scale, _ = inputs
        dy = grads[0]
        dx = dscale = dbias = None
        if needs[1] or needs[2]:
            name = f"d_{scale.name}"
            dscale, dbias = build.emit("rownorm_bwd_w", (x, dy), node.attrs, name)
        if needs[0]:
            dx = build.emit("rownorm_bwd_x", (x, dy, scale), node.attrs, f"d_{x.name}")[0]
        return dx, dscale, dbias


class RowNormBwdX(Operator):
    """dx from x, dy, scale; may run over dy."""

    name = "rownorm_bwd_x"
    in_place = ((0, 1),)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (inputs[0],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x, dy, scale = inputs
        centred, inverse = _centred(_rows(x, attrs), attrs)
        g = _rows(dy, attrs) * _per_channel(scale, attrs)
        level = g.mean((2, 3), keepdims=True, dtype=np.float32)
        slope = (centred * g).mean((2, 3), keepdims=True, dtype=np.float32) * inverse * inverse
        dx = (g - level - centred * slope) * inverse
        return (dx.reshape(x.shape).astype(np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=5 * outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "in2", "out0")
        return Kernel("poet_rownorm_bwd_x_f32", _SOURCE, args, _SHAPE, _fields(inputs[0], attrs))


class RowNormBwdW(Operator):
    """dscale and dbias, one dimension each, from x and dy."""

    name = "rownorm_bwd_w"
    suffixes = ("", "_bias")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        features, groups, inner = _split(attrs)
        channels = TensorType((groups * (features // inner),))
        return channels, channels

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        centred, inverse = _centred(_rows(inputs[0], attrs), attrs)
        dy = _rows(inputs[1], attrs)
        dscale = (centred * inverse * dy).sum((0, 3), dtype=np.float32)
        return dscale.reshape(-1), dy.sum((0, 3), dtype=np.float32).reshape(-1)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=4 * inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "out0", "out1")
        return Kernel("poet_rownorm_bwd_w_f32", _SOURCE, args, _SHAPE, _fields(inputs[0], attrs))


OPERATORS = (RowNorm(), RowNormBwdX(), RowNormBwdW())
