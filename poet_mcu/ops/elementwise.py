"""Element-wise functions of two tensors that broadcast; one table row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.broadcast import broadcast_kernel, product_to, reduce_to, result_shape
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types


@dataclass(frozen=True, slots=True)
class Operands:
    """What a gradient rule may read: operands, result, its gradient; and where to emit."""

    a: Value
    b: Value
    y: Value
    dy: Value
    build: Emitter

    def emit(self, op: str, first: Value, second: Value, name: str) -> Value:
        """A binary node."""
        return self.build.emit(op, (first, second), {}, name)[0]

    def times(self, factor: Value, target: Value) -> Value:
        """dy * factor, in the shape of ``target``."""
        return product_to(self.build, self.dy, factor, target.shape, f"d_{target.name}")

    def plain(self, target: Value) -> Value:
        """dy in the shape of ``target``."""
        return reduce_to(self.build, self.dy, target.shape, f"d_{target.name}")

    def minus(self, value: Value) -> Value:
        """The negative of ``value``."""
        return self.build.emit("neg", (value,), {}, f"{value.name}_neg")[0]


Rule = Callable[[Operands], Value]


@dataclass(frozen=True, slots=True)
class Row:
    """One function of (a, b) and its gradients; without them it is a part of other gradients."""

    name: str
    value: Callable[[Any, Any], Any]
    grad_a: Rule | None = None
    grad_b: Rule | None = None
    calls: int = 0


def _div_b(o: Operands) -> Value:
    """-dy * y / b."""
    share = o.emit("div", o.dy, o.b, f"d_{o.b.name}_share")
    found = product_to(o.build, share, o.y, o.b.shape, f"d_{o.b.name}")
    return o.minus(found)


def _pow(a: Any, b: Any) -> Any:
    return np.where((a == 0) & (b < 0), np.inf, np.power(a, b))


def _pow_slope(a: Any, b: Any) -> Any:
    return np.where(b == 0, 0, b * _pow(a, b - 1))


def _by_factor(op: str, target: str, *, swap: bool = False) -> Rule:
    """The rule dy * op(a, b) (or op(b, a)) for operand ``target``."""

    def rule(o: Operands) -> Value:
        wanted = o.a if target == "a" else o.b
        first, second = (o.b, o.a) if swap else (o.a, o.b)
        return o.times(o.emit(op, first, second, f"d_{wanted.name}_factor"), wanted)

    return rule


def _prelu_b(o: Operands) -> Value:
    """dy * min(x, 0), summed over what the slope is shared by."""
    below = o.build.emit("clip", (o.a,), {"beta": 0.0}, f"d_{o.b.name}_factor")[0]
    return o.times(below, o.b)


ROWS = (
    Row("sub", lambda a, b: a - b, lambda o: o.plain(o.a), lambda o: o.minus(o.plain(o.b))),
    Row("mul", lambda a, b: a * b, lambda o: o.times(o.b, o.a), lambda o: o.times(o.a, o.b)),
    Row(
        "div",
        lambda a, b: a / b,
        lambda o: reduce_to(
            o.build, o.emit("div", o.dy, o.b, f"d_{o.a.name}_share"), o.a.shape, f"d_{o.a.name}"
        ),
        _div_b,
    ),
    Row(
        "pow",
        _pow,
        _by_factor("pow_slope", "a"),
        lambda o: o.times(o.emit("pow_log", o.a, o.y, f"d_{o.b.name}_factor"), o.b),
        calls=2,
    ),
    Row(
        "min",
        np.minimum,
        _by_factor("greater", "a", swap=True),
        _by_factor("greater", "b"),
    ),
    Row(
        "max",
        np.maximum,
        _by_factor("greater", "a"),
        _by_factor("greater", "b", swap=True),
    ),
    Row(
        "prelu",
        lambda x, s: np.where(x < 0, s * x, x),
        _by_factor("prelu_slope", "a"),
        _prelu_b,
    ),
    Row("pow_slope", _pow_slope, calls=2),
    Row("pow_log", lambda a, y: np.where(a == 0, 0, y * np.log(a)), calls=1),
    Row("prelu_slope", lambda x, s: np.where(x > 0, np.float32(1), s)),
    Row("greater", lambda a, b: np.where(a > b, 1.0, np.where(a == b, 0.5, 0.0))),
    Row("equal", lambda a, b: np.where(a == b, 1.0, 0.0)),
    Row("ratio", lambda a, b: np.where(b == 0, 0, a / np.where(b == 0, 1, b))),
)


class Elementwise(Operator):
    """y = f(a, b) over the shape both broadcast to; may run over an operand of that size."""

    in_place = ((0, 0), (0, 1))

    def __init__(self, row: Row) -> None:
        self.row = row
        self.name = row.name

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(result_shape(inputs[0].shape, inputs[1].shape)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        a, b = (np.asarray(array, np.float32) for array in inputs)
        return (np.asarray(self.row.value(a, b), np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        count = outputs[0].elements
        return Cost("elementwise", elements=count, transcendental=count * self.row.calls)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return broadcast_kernel(
            f"poet_{self.name}_fwd_broadcast_f32", "elementwise.c", ("in0", "in1", "out0"),
            outputs[0].shape, [kind.shape for kind in inputs],
        )  # fmt: skip

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        if self.row.grad_a is None or self.row.grad_b is None:
            raise InternalError(f"{self.name}: expected a forward operator, got a gradient's part")
        operands = Operands(inputs[0], inputs[1], outputs[0], grads[0], build)
        rules = (self.row.grad_a, self.row.grad_b)
        return tuple(
            rule(operands) if need else None for rule, need in zip(rules, needs, strict=True)
        )


OPERATORS = tuple(Elementwise(row) for row in ROWS)
