"""Batch normalization by the statistics of the batch or by given ones.

Three nodes: ``batch_stats`` makes mean and variance (it may be run again), ``running_stats`` tracks
them over the steps (it runs once a step), ``batchnorm`` normalizes. Apart, so that recomputing the
normalization never updates the running statistics twice. The gradient through the batch's
statistics is part of ``batchnorm``'s.
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

_SHAPE = "poet_batchnorm_shape"
_SOURCE = "batchnorm.c"
F32 = npt.NDArray[np.float32]


def _fields(x: tuple[int, ...], attrs: Attrs) -> tuple[tuple[str, int | float], ...]:
    plane = math.prod(x[2:])
    return (("n", x[0]), ("c", x[1]), ("plane", plane), ("eps", number(attrs, "eps")))


def _axes(x: F32) -> tuple[int, ...]:
    return tuple(i for i in range(x.ndim) if i != 1)


def _wide(vector: Array, x: F32) -> F32:
    """A vector of channels, ready to broadcast over x."""
    return np.asarray(vector, np.float32).reshape(-1, *(1,) * (x.ndim - 2))


def _inverse(var: Array, attrs: Attrs) -> F32:
    deviation = np.sqrt(np.asarray(var, np.float32) + np.float32(number(attrs, "eps")))
    return np.asarray(np.float32(1) / deviation, np.float32)


def _check(x: TensorType, vectors: Types) -> None:
    if len(x.shape) < 2:
        raise ModelError(f"expected x with 2 or more dimensions, got {x.shape}")
    for vector in vectors:
        if vector.shape != (x.shape[1],):
            raise ModelError(
                f"expected {x.shape[1]} numbers, one a channel of {x.shape}, got {vector.shape}"
            )


class BatchStats(Operator):
    """mean[c] and population variance[c] of x[n, c, ...]."""

    name = "batch_stats"
    suffixes = ("_mean", "_var")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        _check(inputs[0], ())
        channels = TensorType((inputs[0].shape[1],))
        return channels, channels

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x = np.asarray(inputs[0], np.float32)
        mean = x.mean(_axes(x), dtype=np.float32)
        centred = x - _wide(mean, x)
        return mean, np.square(centred).mean(_axes(x), dtype=np.float32)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=2 * inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = _fields(inputs[0].shape, {"eps": 0.0})
        return Kernel("poet_batch_stats_f32", _SOURCE, ("in0", "out0", "out1"), _SHAPE, fields)


class RunningStats(Operator):
    """Inputs running mean, running variance, mean, variance; overwrites the first two.

    running <- ``momentum`` * running + (1 - momentum) * batch, the batch's variance times
    ``correction`` (count / (count - 1) where the unbiased one is tracked, as PyTorch does).
    """

    name = "running_stats"
    recomputable = False
    mutates = (0, 1)
    in_evaluation = ((2, 0), (3, 1))

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        if len({kind.shape for kind in inputs}) != 1:
            raise ModelError(
                f"expected running statistics of {inputs[2].shape[0]} channels, got "
                f"{inputs[0].shape} and {inputs[1].shape}"
            )
        return ()

    def _factors(self, attrs: Attrs) -> tuple[np.float32, np.float32, np.float32]:
        keep = number(attrs, "momentum")
        return np.float32(keep), np.float32(1 - keep), np.float32(number(attrs, "correction"))

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        keep, take, correction = self._factors(attrs)
        mean, var, batch_mean, batch_var = (np.asarray(a, np.float32) for a in inputs)
        return keep * mean + take * batch_mean, keep * var + take * (batch_var * correction)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("update", elements=2 * inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        names = ("keep", "take", "correction")
        values = (float(factor) for factor in self._factors(attrs))
        return Kernel(
            "poet_running_stats_f32",
            _SOURCE,
            ("in2", "in3", "in0", "in1"),
            "poet_running_stats_shape",
            (("c", inputs[0].elements), *zip(names, values, strict=True)),
        )


class BatchNorm(Operator):
    """y = (x - mean) / sqrt(var + eps) * scale + bias; inputs x, mean, var, scale, bias.

    With ``batch`` 1 mean and variance are those of x itself and the gradient goes through them.
    """

    name = "batchnorm"
    in_place = ((0, 0),)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        _check(inputs[0], inputs[1:])
        return (inputs[0],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x = np.asarray(inputs[0], np.float32)
        _, mean, var, scale, bias = (np.asarray(a, np.float32) for a in inputs)
        factor = _wide(_inverse(var, attrs) * scale, x)
        return ((x - _wide(mean, x)) * factor + _wide(bias, x),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "in2", "in3", "in4", "out0")
        fields = _fields(inputs[0].shape, attrs)
        return Kernel("poet_batchnorm_fwd_f32", _SOURCE, args, _SHAPE, fields)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        x, mean, var, scale = inputs[:4]
        dy, attrs = grads[0], {"eps": node.attrs["eps"]}
        through = needs[0] and bool(ints(node.attrs, "batch")[0])
        dx = dscale = dbias = None
        if needs[3] or needs[4] or through:
            name = f"d_{scale.name}"
            dscale, dbias = build.emit("batchnorm_bwd_w", (x, dy, mean, var), attrs, name)
        if through and dscale is not None and dbias is not None:
            sums = (x, dy, mean, var, scale, dscale, dbias)
            dx = build.emit("batchnorm_bwd_x", sums, attrs, f"d_{x.name}")[0]
        elif needs[0]:
            dx = build.emit("batchnorm_frozen_bwd_x", (dy, var, scale), attrs, f"d_{x.name}")[0]
        return dx, None, None, dscale, dbias


class BatchNormBwdW(Operator):
    """dscale and dbias from x, dy, mean, var."""

    name = "batchnorm_bwd_w"
    suffixes = ("", "_bias")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return inputs[2], inputs[3]

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x, dy = (np.asarray(a, np.float32) for a in inputs[:2])
        _, _, mean, var = inputs
        products = ((x - _wide(mean, x)) * dy).sum(_axes(x), dtype=np.float32)
        return products * _inverse(var, attrs), dy.sum(_axes(x), dtype=np.float32)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=2 * inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "in2", "in3", "out0", "out1")
        fields = _fields(inputs[0].shape, attrs)
        return Kernel("poet_batchnorm_bwd_w_f32", _SOURCE, args, _SHAPE, fields)


class BatchNormBwdX(Operator):
    """dx from x, dy, mean, var, scale, dscale, dbias; may run over dy."""

    name = "batchnorm_bwd_x"
    in_place = ((0, 1),)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (inputs[0],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x, dy, mean, var, scale, dscale, dbias = (np.asarray(a, np.float32) for a in inputs)
        count = np.float32(x.size // x.shape[1])
        inverse = _inverse(var, attrs)
        slope = _wide(inverse * dscale / count, x)
        level = _wide(dbias / count, x)
        dx = (dy - level - (x - _wide(mean, x)) * slope) * _wide(inverse * scale, x)
        return (dx.astype(np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=2 * outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = (*(f"in{i}" for i in range(7)), "out0")
        fields = _fields(inputs[0].shape, attrs)
        return Kernel("poet_batchnorm_bwd_x_f32", _SOURCE, args, _SHAPE, fields)


class BatchNormFrozenBwdX(Operator):
    """dx from dy, var, scale when the statistics do not depend on x; may run over dy."""

    name = "batchnorm_frozen_bwd_x"
    in_place = ((0, 0),)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (inputs[0],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dy, var, scale = (np.asarray(a, np.float32) for a in inputs)
        return (dy * _wide(_inverse(var, attrs) * scale, dy),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "in2", "out0")
        fields = _fields(inputs[0].shape, attrs)
        return Kernel("poet_batchnorm_frozen_bwd_x_f32", _SOURCE, args, _SHAPE, fields)


OPERATORS = (
    BatchStats(),
    RunningStats(),
    BatchNorm(),
    BatchNormBwdW(),
    BatchNormBwdX(),
    BatchNormFrozenBwdX(),
)
