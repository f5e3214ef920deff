"""Softmax and its logarithm along one axis; the gradients need only the output."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints


def _axis(attrs: Attrs) -> int:
    return ints(attrs, "axis")[0]


def _kernel(function: str, args: tuple[str, ...], shape: tuple[int, ...], attrs: Attrs) -> Kernel:
    axis = _axis(attrs)
    fields = (
        ("outer", math.prod(shape[:axis])), ("k", shape[axis]),
        ("inner", math.prod(shape[axis + 1 :])),
    )  # fmt: skip
    return Kernel(f"poet_{function}_f32", "softmax.c", args, "poet_softmax_shape", fields)


def _softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True, dtype=np.float32)


def _log_softmax(x: Any, axis: int) -> Any:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True, dtype=np.float32))


def _softmax_bwd(y: Any, dy: Any, axis: int) -> Any:
    return y * (dy - (y * dy).sum(axis, keepdims=True, dtype=np.float32))


def _log_softmax_bwd(y: Any, dy: Any, axis: int) -> Any:
    return dy - np.exp(y) * dy.sum(axis, keepdims=True, dtype=np.float32)


class Softmax(Operator):
    """y = softmax(x), or its logarithm, along ``axis`` (not negative); may run over x."""

    in_place = ((0, 0),)

    def __init__(self, name: str, function: Callable[[Any, int], Any]) -> None:
        self.name = name
        self.function = function

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        if not 0 <= _axis(attrs) < len(inputs[0].shape):
            raise ModelError(f"expected an axis of {inputs[0].shape}, got {_axis(attrs)}")
        return (inputs[0],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x = np.asarray(inputs[0], np.float32)
        return (np.asarray(self.function(x, _axis(attrs)), np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        count = outputs[0].elements
        return Cost("elementwise", elements=3 * count, transcendental=count)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return _kernel(f"{self.name}_fwd", ("in0", "out0"), inputs[0].shape, attrs)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        name = f"d_{inputs[0].name}"
        return build.emit(f"{self.name}_bwd", (outputs[0], grads[0]), node.attrs, name)


class SoftmaxBwd(Operator):
    """dx from y and dy; may run over either."""

    in_place = ((0, 1), (0, 0))

    def __init__(self, name: str, function: Callable[[Any, Any, int], Any], calls: int) -> None:
        self.name = name
        self.function = function
        self.calls = calls

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (inputs[1],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        y, dy = (np.asarray(a, np.float32) for a in inputs)
        return (np.asarray(self.function(y, dy, _axis(attrs)), np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        count = outputs[0].elements
        return Cost("elementwise", elements=2 * count, transcendental=count * self.calls)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return _kernel(self.name, ("in0", "in1", "out0"), inputs[0].shape, attrs)


OPERATORS = (
    Softmax("softmax", _softmax),
    Softmax("log_softmax", _log_softmax),
    SoftmaxBwd("softmax_bwd", _softmax_bwd, 0),
    SoftmaxBwd("log_softmax_bwd", _log_softmax_bwd, 1),
)
