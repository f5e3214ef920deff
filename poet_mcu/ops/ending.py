"""An activation at the end of another operator: the kernel applies it before it returns.

A node has it in attribute ``ending``, with the activation's own attributes beside. The bits are
those of the two nodes, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poet_mcu.ir.graph import TensorType
from poet_mcu.ops import activations, relu
from poet_mcu.ops.operator import Array, Attrs, Cost, Kernel, Operator

_SOURCE = "ended.c"
_KINDS = {"relu": 0, "clip": 1}  # POET_END_RELU, POET_END_CLIP
_OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (*relu.OPERATORS, *activations.OPERATORS)
    if operator.name in _KINDS
}
#: the activations that may be an ending
ENDINGS = tuple(_KINDS)


def ending_of(attrs: Attrs) -> str:
    """The activation in which a node ends; '' without one."""
    return str(attrs.get("ending", ""))


def ended(outputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
    """A node's outputs, the first of them after the ending."""
    if not ending_of(attrs):
        return tuple(outputs)
    first, *rest = outputs
    return (*_of(attrs).reference([first], attrs), *rest)


def ended_cost(cost: Cost, made: TensorType, attrs: Attrs) -> Cost:
    """With that of the ending, which is no call of its own."""
    if not ending_of(attrs):
        return cost
    return replace(cost, then=replace(_of(attrs).cost([made], [made], attrs), calls=0))


def ended_kernel(kernel: Kernel, attrs: Attrs) -> Kernel:
    """The form of a kernel that ends in the activation."""
    if not ending_of(attrs):
        return kernel
    fields = tuple((f"before.{name}", value) for name, value in kernel.fields)
    low, high = _bounds(attrs)
    end = (("end.kind", _KINDS[ending_of(attrs)]), ("end.low", low), ("end.high", high))
    return Kernel(
        kernel.function.removesuffix("_f32") + "_ended_f32",
        _SOURCE,
        kernel.args,
        kernel.descriptor.removesuffix("_shape") + "_ended_shape",
        (*fields, *end),
    )


def _of(attrs: Attrs) -> Operator:
    return _OPERATORS[ending_of(attrs)]


def _bounds(attrs: Attrs) -> tuple[float, float]:
    """Of a clip; zeros for what has none."""
    fields = dict(_of(attrs).kernel([TensorType((1,))], [TensorType((1,))], attrs).fields)
    return float(fields.get("alpha", 0.0)), float(fields.get("beta", 0.0))
