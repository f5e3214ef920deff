"""Reductions over any axes and the sums that undo broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.broadcast import Axis, array_fields, check_axes, merged, strides_to
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints

_SOURCE = "reduce.c"


def _kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """``shape`` with ones in place of ``axes``."""
    return tuple(1 if i in axes else size for i, size in enumerate(shape))


def _fields(
    shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[tuple[str, int | float], ...]:
    """Kept axes first, then reduced ones; ``shapes`` are the operands', broadcast to ``shape``."""
    strides = [strides_to(operand, shape) for operand in shapes]
    walk = [Axis(size, tuple(s[i] for s in strides)) for i, size in enumerate(shape)]
    kept = merged([axis for i, axis in enumerate(walk) if i not in axes])
    reduced = merged([walk[i] for i in axes])
    kept = tuple(axis for axis in kept if axis.size > 1)
    check_axes(len(kept) + len(reduced), shape)
    every = (*kept, *reduced)
    divisor = float(math.prod(shape[i] for i in axes))
    fields: list[tuple[str, int | float]] = [
        ("rank", len(every)), ("kept", len(kept)), ("divisor", divisor)
    ]  # fmt: skip
    fields += array_fields("d", [axis.size for axis in every])
    for i, name in zip(range(len(shapes)), ("x", "factor"), strict=False):
        fields += array_fields(name, [axis.strides[i] if axis.strides else 0 for axis in every])
    return tuple(fields)


class _Reduction(Operator):
    """``axes`` (not negative) become ones; a view drops them where ONNX asks for that."""

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(_kept(inputs[0].shape, ints(attrs, "axes"))),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = _fields([k.shape for k in inputs], inputs[0].shape, ints(attrs, "axes"))
        args = ("in0", "in1", "out0") if len(inputs) > 1 else ("in0", "out0")
        return Kernel(f"poet_{self.name}_f32", _SOURCE, args, "poet_reduce_shape", fields)


@dataclass(frozen=True, slots=True)
class Given:
    """What a gradient rule may read, all in the shape with ones for reduced axes."""

    x: Value
    y: Value
    dy: Value
    axes: tuple[int, ...]
    build: Emitter

    @property
    def name(self) -> str:
        """Of the gradient."""
        return f"d_{self.x.name}"

    def expand(self, value: Value) -> Value:
        """``value`` repeated to the shape of x."""
        return self.build.emit("expand", (value,), {"shape": self.x.shape}, self.name)[0]

    def emit(self, op: str, a: Value, b: Value, part: str = "") -> Value:
        """A binary node."""
        return self.build.emit(op, (a, b), {}, self.name + part)[0]


def _mean_gradient(g: Given) -> Value:
    factor = 1.0 / math.prod(g.x.shape[i] for i in g.axes)
    return g.expand(g.build.emit("scale", (g.dy,), {"alpha": factor}, f"{g.name}_share")[0])


def _winner_gradient(g: Given) -> Value:
    """dy shared equally by all winners, as torch.amax does."""
    won = g.emit("equal", g.x, g.y, "_won")
    count = g.build.emit("reduce_sum", (won,), {"axes": g.axes}, f"{g.name}_count")[0]
    return g.emit("mul", won, g.emit("div", g.dy, count, "_share"))


def _l2_gradient(g: Given) -> Value:
    """x * dy / y, and 0 where the norm is 0."""
    return g.emit("mul", g.x, g.emit("ratio", g.dy, g.y, "_ratio"))


@dataclass(frozen=True, slots=True)
class Row:
    """One reduction: its value over ``axes`` with dimensions kept, and its gradient."""

    name: str
    value: Callable[[Any, tuple[int, ...]], Any]
    gradient: Callable[[Given], Value]


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    return x.sum(axis=axes, keepdims=True, dtype=np.float32)


ROWS = (
    Row("reduce_sum", _sum, lambda g: g.expand(g.dy)),
    Row(
        "reduce_mean",
        lambda x, axes: x.mean(axis=axes, keepdims=True, dtype=np.float32),
        _mean_gradient,
    ),
    Row("reduce_max", lambda x, axes: x.max(axis=axes, keepdims=True), _winner_gradient),
    Row("reduce_min", lambda x, axes: x.min(axis=axes, keepdims=True), _winner_gradient),
    Row("reduce_l2", lambda x, axes: np.sqrt(_sum(x * x, axes)), _l2_gradient),
)


class Reduction(_Reduction):
    """One row of the table."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.name = row.name

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x = np.asarray(inputs[0], np.float32)
        return (np.asarray(self.row.value(x, ints(attrs, "axes")), np.float32),)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        axes = ints(node.attrs, "axes")
        return (self.row.gradient(Given(inputs[0], outputs[0], grads[0], axes, build)),)


class ReduceProduct(_Reduction):
    """Sum over ``axes`` of x * factor, where factor broadcasts to x: gradient of a factor."""

    name = "reduce_product"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        if np.broadcast_shapes(inputs[0].shape, inputs[1].shape) != inputs[0].shape:
            raise InternalError(f"reduce_product: {inputs[1].shape} exceeds {inputs[0].shape}")
        return super().infer(inputs, attrs)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x, factor = (np.asarray(a, np.float32) for a in inputs)
        return (np.asarray(_sum(x * factor, ints(attrs, "axes")), np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", macs=inputs[0].elements, elements=inputs[0].elements)


OPERATORS = (*(Reduction(row) for row in ROWS), ReduceProduct())
