"""Element-wise functions of one tensor: one table row each for value, derivative, what is kept.

The derivative is taken at the output ``y`` wherever it follows from it, because the input is then
free (or overwritten) after the forward call; else at the input ``x``.
"""

# ruff: noqa: ARG001, ARG005 - all rows of the table have one signature
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poet_mcu.errors import InternalError, ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types

_SOURCE = "activations.c"
_LOWEST = float(np.finfo(np.float32).min)
_HIGHEST = float(np.finfo(np.float32).max)

#: value of the function at x, or its derivative at what is kept, given alpha and beta
Function = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One function. ``kept`` is 'x' or 'y'; ``calls`` counts exp and log per element.

    ``alpha`` and ``beta`` are the defaults of ONNX (clip: the bounds).
    """

    name: str
    value: Function
    slope: Function
    kept: str = "y"
    calls: int = 0
    alpha: float = 0.0
    beta: float = 0.0


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float32])(x)


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, np.float32(1)) / (1 + e)


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mish_slope(x: Any, _a: Any, _b: Any) -> Any:
    t = np.tanh(_softplus(x))
    return t + x * _sigmoid(x) * (1 - t * t)


def _swish_slope(x: Any, a: Any, _b: Any) -> Any:
    gate = _sigmoid(a * x)
    return gate + a * x * gate * (1 - gate)


def _gelu_slope(x: Any, _a: Any, _b: Any) -> Any:
    bell = np.exp(-x * x / 2) * np.float32(1 / math.sqrt(2 * math.pi))
    return (1 + _erf(x * np.float32(math.sqrt(0.5)))) / 2 + x * bell


_ROOT = np.float32(math.sqrt(2 / math.pi))
_CUBE = np.float32(0.044715)


def _gelu_tanh(x: Any, _a: Any, _b: Any) -> Any:
    return x / 2 * (1 + np.tanh(_ROOT * (x + _CUBE * x * x * x)))


def _gelu_tanh_slope(x: Any, _a: Any, _b: Any) -> Any:
    t = np.tanh(_ROOT * (x + _CUBE * x * x * x))
    return (1 + t) / 2 + x / 2 * (1 - t * t) * _ROOT * (1 + 3 * _CUBE * x * x)


def _shrink(x: Any, a: Any, b: Any) -> Any:
    return np.where(x < -b, x + a, np.where(x > b, x - a, np.float32(0)))


ROWS = (
    Row(
        "leaky_relu",
        lambda x, a, b: np.where(x < 0, a * x, x),
        lambda k, a, b: np.where(k > 0, np.float32(1), a),
        alpha=0.01,
    ),
    Row(
        "elu",
        lambda x, a, b: np.where(x < 0, a * np.expm1(x), x),
        lambda y, a, b: np.where(y > 0, np.float32(1), y + a),
        calls=1,
        alpha=1.0,
    ),
    Row(
        "celu",
        lambda x, a, b: np.where(x < 0, a * np.expm1(x / a), x),
        lambda y, a, b: np.where(y > 0, np.float32(1), y / a + 1),
        calls=1,
        alpha=1.0,
    ),
    Row(
        "selu",
        lambda x, a, b: np.where(x < 0, b * (a * np.expm1(x)), b * x),
        lambda y, a, b: np.where(y > 0, b, b * a + y),
        calls=1,
        alpha=1.67326319217681884765625,
        beta=1.05070102214813232421875,
    ),
    Row("sigmoid", lambda x, a, b: _sigmoid(x), lambda y, a, b: y * (1 - y), calls=1),
    Row("tanh", lambda x, a, b: np.tanh(x), lambda y, a, b: 1 - y * y, calls=1),
    Row(
        "hard_sigmoid",
        lambda x, a, b: np.clip(a * x + b, 0, 1),
        lambda y, a, b: np.where((y > 0) & (y < 1), a, np.float32(0)),
        alpha=0.2,
        beta=0.5,
    ),
    Row(
        "hard_swish",
        lambda x, a, b: x * np.clip(x + 3, 0, 6) / 6,
        lambda x, a, b: np.where(x < -3, 0, np.where(x > 3, 1, x / 3 + np.float32(0.5))),
        kept="x",
    ),
    Row("softplus", lambda x, a, b: _softplus(x), lambda y, a, b: -np.expm1(-y), calls=2),
    Row("mish", lambda x, a, b: x * np.tanh(_softplus(x)), _mish_slope, kept="x", calls=3),
    Row(
        "softsign",
        lambda x, a, b: x / (1 + np.abs(x)),
        lambda y, a, b: np.square(1 - np.abs(y)),
    ),
    Row("swish", lambda x, a, b: x * _sigmoid(a * x), _swish_slope, "x", calls=1, alpha=1.0),
    Row(
        "gelu",
        lambda x, a, b: x / 2 * (1 + _erf(x * np.float32(math.sqrt(0.5)))),
        _gelu_slope,
        kept="x",
        calls=1,
    ),
    Row("gelu_tanh", _gelu_tanh, _gelu_tanh_slope, kept="x", calls=1),
    Row(
        "clip",
        lambda x, a, b: np.minimum(np.maximum(x, a), b),
        lambda y, a, b: np.where((y > a) & (y < b), np.float32(1), np.float32(0)),
        alpha=_LOWEST,
        beta=_HIGHEST,
    ),
    Row(
        "thresholded_relu",
        lambda x, a, b: np.where(x > a, x, np.float32(0)),
        lambda x, a, b: np.where(x > a, np.float32(1), np.float32(0)),
        kept="x",
        alpha=1.0,
    ),
    Row(
        "shrink",
        _shrink,
        lambda x, a, b: np.where(np.abs(x) > b, np.float32(1), np.float32(0)),
        kept="x",
        beta=0.5,
    ),
    Row("abs", lambda x, a, b: np.abs(x), lambda x, a, b: np.sign(x), kept="x"),
    Row("sqrt", lambda x, a, b: np.sqrt(x), lambda y, a, b: np.float32(0.5) / y),
    Row("exp", lambda x, a, b: np.exp(x), lambda y, a, b: y, calls=1),
    Row("log", lambda x, a, b: np.log(x), lambda x, a, b: 1 / x, kept="x", calls=1),
    Row(
        "erf",
        lambda x, a, b: _erf(x),
        lambda x, a, b: np.float32(2 / math.sqrt(math.pi)) * np.exp(-x * x),
        kept="x",
        calls=1,
    ),
    Row("reciprocal", lambda x, a, b: 1 / x, lambda y, a, b: -y * y),
)


def _number(attrs: Attrs, key: str, default: float) -> np.float32:
    found = attrs.get(key, default)
    if not isinstance(found, int | float):
        raise InternalError(f"attribute {key}: expected a number, got {found!r}")
    return np.float32(found)


class _Elementwise(Operator):
    """What value and derivative of a row share."""

    def __init__(self, row: Row, function: Function, verb: str) -> None:
        self.row = row
        self.function = function
        self.verb = verb
        self.name = row.name if verb == "fwd" else f"{row.name}_bwd"

    def numbers(self, attrs: Attrs) -> tuple[np.float32, np.float32]:
        """alpha and beta of a node."""
        return _number(attrs, "alpha", self.row.alpha), _number(attrs, "beta", self.row.beta)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        if self.name in ("elu", "celu") and not self.numbers(attrs)[0] > 0:
            raise ModelError(
                f"expected alpha above 0, got {self.numbers(attrs)[0]:g}; "
                "use LeakyRelu or a positive alpha"
            )
        return (inputs[0],)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        count = outputs[0].elements
        calls = self.row.calls if self.verb == "fwd" or self.row.kept == "x" else 0
        return Cost("elementwise", elements=count, transcendental=count * calls)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        alpha, beta = self.numbers(attrs)
        fields = (
            ("count", outputs[0].elements), ("alpha", float(alpha)), ("beta", float(beta)),
        )  # fmt: skip
        args = tuple(f"in{i}" for i in range(len(inputs)))
        function = f"poet_{self.row.name}_{self.verb}_f32"
        return Kernel(function, _SOURCE, (*args, "out0"), "poet_activation_shape", fields)


class Activation(_Elementwise):
    """y = f(x), element by element; may run over x."""

    in_place = ((0, 0),)

    def __init__(self, row: Row) -> None:
        super().__init__(row, row.value, "fwd")

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x = np.asarray(inputs[0], np.float32)
        return (np.asarray(self.function(x, *self.numbers(attrs)), np.float32),)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        # The sign of a leaky output is that of its input only for a slope of 0 or more.
        leaky_by_x = self.name == "leaky_relu" and self.numbers(node.attrs)[0] < 0
        kept = inputs[0] if self.row.kept == "x" or leaky_by_x else outputs[0]
        name = f"d_{inputs[0].name}"
        return build.emit(f"{self.name}_bwd", (kept, grads[0]), node.attrs, name)


class ActivationBwd(_Elementwise):
    """dx = dy * f'(kept); may run over dy or what was kept."""

    in_place = ((0, 1), (0, 0))

    def __init__(self, row: Row) -> None:
        super().__init__(row, row.slope, "bwd")

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        kept, dy = (np.asarray(a, np.float32) for a in inputs)
        return (np.asarray(dy * self.function(kept, *self.numbers(attrs)), np.float32),)


class Linear(Activation):
    """y = factor * x: the gradient is the same operator."""

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        return build.emit(self.name, (grads[0],), node.attrs, f"d_{inputs[0].name}")


def _unused(k: Any, a: Any, b: Any) -> Any:
    """Stands where a linear row has no derivative of its own."""
    return a


OPERATORS = (
    *(Activation(row) for row in ROWS),
    *(ActivationBwd(row) for row in ROWS),
    Linear(Row("neg", lambda x, a, b: -x, _unused)),
    Linear(Row("scale", lambda x, a, b: a * x, _unused, alpha=1.0)),
)
