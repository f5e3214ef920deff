"""Operators on tensors known at build time: the shape arithmetic that exporters leave behind."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Array, attribute

# Folding is for shapes and small tables; a product of two large constants is not one of them.
MAX_ELEMENTS = 2**24


@dataclass(frozen=True, slots=True)
class _Call:
    """One node with its operands; absent ones are None."""

    node: onnx.NodeProto
    inputs: Sequence[Array | None]
    opset: int

    def need(self, index: int) -> Array:
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise ValueError(f"input {index} is missing")
        return found

    def ints(self, index: int) -> tuple[int, ...] | None:
        found = self.inputs[index] if index < len(self.inputs) else None
        return None if found is None else _as_ints(found)

    def attribute(self, name: str, default: Any) -> Any:
        return attribute(self.node, name, default)

    @property
    def axes(self) -> tuple[int, ...] | None:
        return axes_of(self.node, self.inputs, self.opset)


Rule = Callable[[_Call], Array]


def fold(node: onnx.NodeProto, inputs: Sequence[Array | None], opset: int) -> Array:
    """The first output of ``node``; absent inputs are None. Raises ModelError on bad operands."""
    try:
        return np.asarray(RULES[node.op_type](_Call(node, inputs, opset)))
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError) as error:
        raise ModelError(
            f"expected constants that can be folded, got: {error}; fold them before export"
        ) from error


def axes_of(
    node: onnx.NodeProto, inputs: Sequence[Array | None], opset: int
) -> tuple[int, ...] | None:
    """Axes of Squeeze, Unsqueeze or ReduceProd: an attribute first, later the second input."""
    since_input = 18 if node.op_type == "ReduceProd" else 13
    if opset < since_input:
        found = attribute(node, "axes", None)
        return None if found is None else tuple(int(i) for i in found)
    if len(inputs) < 2 or inputs[1] is None:
        return None
    return _as_ints(inputs[1])


def _as_ints(array: Array) -> tuple[int, ...]:
    if array.dtype.kind not in "iu":
        raise TypeError(f"{array.dtype} where integers are needed")
    return tuple(int(i) for i in array.ravel())


def _same(call: _Call) -> Array:
    return call.need(0)


def _cast(call: _Call) -> Array:
    return call.need(0).astype(onnx.helper.tensor_dtype_to_np_dtype(call.attribute("to", 0)))


def _gather(call: _Call) -> Array:
    _limit(call.need(1).size * call.need(0).size)
    return np.take(call.need(0), call.need(1).astype(np.int64), axis=call.attribute("axis", 0))


def _concat(call: _Call) -> Array:
    parts = [call.need(i) for i in range(len(call.inputs))]
    return np.concatenate(parts, call.attribute("axis", 0))


def _squeeze(call: _Call) -> Array:
    return np.squeeze(call.need(0), call.axes)


def _unsqueeze(call: _Call) -> Array:
    return np.expand_dims(call.need(0), call.axes or ())


def _transpose(call: _Call) -> Array:
    return np.ascontiguousarray(np.transpose(call.need(0), call.attribute("perm", None)))


def _slice(call: _Call) -> Array:
    data = call.need(0)
    if call.opset < 10:
        starts, ends = call.attribute("starts", ()), call.attribute("ends", ())
        axes, steps = call.attribute("axes", None), None
    else:
        starts, ends = call.ints(1) or (), call.ints(2) or ()
        axes, steps = call.ints(3), call.ints(4)
    axes = axes or tuple(range(len(starts)))
    index = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps or (1,) * len(axes), strict=True):
        # An end below -size of a negative step means "up to the first"; Python says None.
        stop = None if step < 0 and end < -data.shape[axis] else end
        index[axis] = slice(start, stop, step)
    return data[tuple(index)]


def _binary(function: Callable[[Any, Any], Any]) -> Rule:
    def rule(call: _Call) -> Array:
        a, b = call.need(0), call.need(1)
        _limit(math.prod(np.broadcast_shapes(a.shape, b.shape)))
        if a.dtype != b.dtype or a.dtype.kind not in "iuf":
            raise TypeError(f"operands of types {a.dtype} and {b.dtype}")
        with np.errstate(all="ignore"):
            return np.asarray(function(a, b)).astype(a.dtype)

    return rule


def _variadic(function: Callable[[Any, Any], Any]) -> Rule:
    """Of integers alone: the same of floats may be trained and is computed on the board."""

    def rule(call: _Call) -> Array:
        parts: list[Any] = [call.need(i) for i in range(len(call.inputs))]
        if any(part.dtype.kind not in "iu" for part in parts):
            raise TypeError(f"an operand of type {parts[0].dtype}")
        _limit(math.prod(np.broadcast_shapes(*(part.shape for part in parts))))
        return np.asarray(functools.reduce(function, parts))

    return rule


def _tile(call: _Call) -> Array:
    data, repeats = call.need(0), _as_ints(call.need(1))
    _limit(data.size * math.prod(repeats))
    return np.tile(data, repeats)


def _cumulated(call: _Call) -> Array:
    data: Any = call.need(0)
    (axis,) = _as_ints(call.need(1))
    turned = np.flip(data, axis) if call.attribute("reverse", 0) else data
    total = np.cumsum(turned, axis, dtype=data.dtype)
    total = total - turned if call.attribute("exclusive", 0) else total
    return np.asarray(np.flip(total, axis) if call.attribute("reverse", 0) else total)


def _size(call: _Call) -> Array:
    return np.asarray(call.need(0).size, np.int64)


def _unary(function: Callable[[Any], Any]) -> Rule:
    def rule(call: _Call) -> Array:
        a = call.need(0)
        if a.dtype.kind not in "if":
            raise TypeError(f"an operand of type {a.dtype}")
        with np.errstate(all="ignore"):
            return np.asarray(function(a)).astype(a.dtype)

    return rule


def _compare(function: Callable[[Any, Any], Any]) -> Rule:
    def rule(call: _Call) -> Array:
        a, b = call.need(0), call.need(1)
        _limit(math.prod(np.broadcast_shapes(a.shape, b.shape)))
        return np.asarray(function(a, b))

    return rule


def _power(call: _Call) -> Array:
    a: Any = call.need(0)
    b: Any = call.need(1)
    _limit(math.prod(np.broadcast_shapes(a.shape, b.shape)))
    with np.errstate(all="ignore"):
        return np.asarray(np.power(a, b.astype(a.dtype))).astype(a.dtype)


def _where(call: _Call) -> Array:
    parts = [call.need(i) for i in range(3)]
    _limit(math.prod(np.broadcast_shapes(*(part.shape for part in parts))))
    return np.where(parts[0], parts[1], parts[2]).astype(parts[1].dtype)


def _range(call: _Call) -> Array:
    start, stop, step = (call.need(i).reshape(()) for i in range(3))
    count = max(0, math.ceil((stop.item() - start.item()) / step.item()))
    _limit(count)
    return np.asarray(start + np.arange(count, dtype=start.dtype) * step, start.dtype)


def _expand(call: _Call) -> Array:
    data = call.need(0)
    shape = np.broadcast_shapes(data.shape, _as_ints(call.need(1)))
    _limit(math.prod(shape))
    return np.ascontiguousarray(np.broadcast_to(data, shape))


def _divide(a: Any, b: Any) -> Any:
    """ONNX divides integers towards zero, as C does."""
    if a.dtype.kind == "f":
        return np.divide(a, b)
    if not np.all(b):
        raise ZeroDivisionError("an integer division by zero")
    return (a - np.fmod(a, b)) // b  # fmod has the sign of a, so the division is exact


def _mod(call: _Call) -> Array:
    """The sign is the divisor's, with ``fmod`` that of the dividend (ONNX Operators, Mod)."""
    function = np.fmod if call.attribute("fmod", 0) else np.mod
    if call.need(1).dtype.kind in "iu" and not np.all(call.need(1)):
        raise ZeroDivisionError("a remainder of a division by zero")
    return _binary(function)(call)


def _logic(function: Callable[..., Any], arity: int) -> Rule:
    def rule(call: _Call) -> Array:
        parts = [call.need(i) for i in range(arity)]
        if any(part.dtype != np.bool_ for part in parts):
            raise TypeError(f"operands of types {', '.join(str(p.dtype) for p in parts)}")
        _limit(math.prod(np.broadcast_shapes(*(part.shape for part in parts))))
        return np.asarray(function(*parts))

    return rule


def _trilu(call: _Call) -> Array:
    diagonal = call.ints(1) or (0,)
    function = np.triu if call.attribute("upper", 1) else np.tril
    return np.asarray(function(call.need(0), diagonal[0]))


def _reduce_prod(call: _Call) -> Array:
    data: Any = call.need(0)
    keep = bool(call.attribute("keepdims", 1))
    return np.asarray(np.prod(data, axis=call.axes, keepdims=keep, dtype=data.dtype))


def _constant_of_shape(call: _Call) -> Array:
    shape = _as_ints(call.need(0))
    _limit(math.prod(shape))
    value = call.attribute("value", None)
    fill = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    return np.full(shape, fill.ravel()[0])


def _limit(elements: int) -> None:
    if elements > MAX_ELEMENTS:
        raise ValueError(f"a result of {elements} elements")


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "Abs": _unary(np.abs),
        "Add": _binary(np.add),
        "And": _logic(np.logical_and, 2),
        "Cast": _cast,
        "Ceil": _unary(np.ceil),
        "Concat": _concat,
        "ConstantOfShape": _constant_of_shape,
        "Cos": _unary(np.cos),
        "CumSum": _cumulated,
        "Div": _binary(_divide),
        "Equal": _compare(np.equal),
        "Exp": _unary(np.exp),
        "Expand": _expand,
        "Floor": _unary(np.floor),
        "Gather": _gather,
        "Greater": _compare(np.greater),
        "GreaterOrEqual": _compare(np.greater_equal),
        "Identity": _same,
        "Less": _compare(np.less),
        "LessOrEqual": _compare(np.less_equal),
        "Log": _unary(np.log),
        "Max": _variadic(np.maximum),
        "Min": _variadic(np.minimum),
        "Mod": _mod,
        "Mul": _binary(np.multiply),
        "Neg": _unary(np.negative),
        "Not": _logic(np.logical_not, 1),
        "Or": _logic(np.logical_or, 2),
        "Pow": _power,
        "Range": _range,
        "Reciprocal": _unary(np.reciprocal),
        "ReduceProd": _reduce_prod,
        "Sign": _unary(np.sign),
        "Sin": _unary(np.sin),
        "Size": _size,
        "Slice": _slice,
        "Sqrt": _unary(np.sqrt),
        "Squeeze": _squeeze,
        "Sub": _binary(np.subtract),
        "Tile": _tile,
        "Transpose": _transpose,
        "Trilu": _trilu,
        "Unsqueeze": _unsqueeze,
        "Where": _where,
    }
)
