"""Element-wise operators: activations of one tensor, arithmetic of several that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.checks import check_size
from poet_mcu.frontend.context import Active, Context, Tensor, attribute
from poet_mcu.ir.graph import Attr, Value

_LIMIT = float(np.finfo(np.float32).max)
Handler = Callable[[Context, onnx.NodeProto], None]


@dataclass(frozen=True, slots=True)
class Spelling:
    """Our operator for one of ONNX, and what ONNX calls its numbers, with its defaults."""

    op: str
    alpha: tuple[str, float] | None = None
    beta: tuple[str, float] | None = None


ACTIVATIONS: Mapping[str, Spelling] = MappingProxyType(
    {
        "Abs": Spelling("abs"),
        "Celu": Spelling("celu", ("alpha", 1.0)),
        "Elu": Spelling("elu", ("alpha", 1.0)),
        "Erf": Spelling("erf"),
        "Exp": Spelling("exp"),
        "HardSigmoid": Spelling("hard_sigmoid", ("alpha", 0.2), ("beta", 0.5)),
        "HardSwish": Spelling("hard_swish"),
        "LeakyRelu": Spelling("leaky_relu", ("alpha", 0.01)),
        "Log": Spelling("log"),
        "Mish": Spelling("mish"),
        "Neg": Spelling("neg"),
        "Reciprocal": Spelling("reciprocal"),
        "Selu": Spelling("selu", ("alpha", 1.6732631921768188), ("gamma", 1.0507010221481323)),
        "Shrink": Spelling("shrink", ("bias", 0.0), ("lambd", 0.5)),
        "Softplus": Spelling("softplus"),
        "Softsign": Spelling("softsign"),
        "Sqrt": Spelling("sqrt"),
        "Swish": Spelling("swish", ("alpha", 1.0)),
        "Tanh": Spelling("tanh"),
        "ThresholdedRelu": Spelling("thresholded_relu", ("alpha", 1.0)),
    }
)


def lower_activation(ctx: Context, node: onnx.NodeProto) -> None:
    """An element-wise function of one tensor."""
    spelling = ACTIVATIONS[node.op_type]
    attrs = {
        key: float(attribute(node, *found))
        for key, found in (("alpha", spelling.alpha), ("beta", spelling.beta))
        if found is not None
    }
    ctx.emit(node, spelling.op, (ctx.activation(node.input[0]),), attrs)


def lower_gelu(ctx: Context, node: onnx.NodeProto) -> None:
    """Gelu, exact or by tanh."""
    how = attribute(node, "approximate", "none")
    if how not in ("none", "tanh"):
        raise ModelError(f"expected approximate 'none' or 'tanh', got '{how}'; export again")
    op = "gelu_tanh" if how == "tanh" else "gelu"
    ctx.emit(node, op, (ctx.activation(node.input[0]),), {})


def lower_clip(ctx: Context, node: onnx.NodeProto) -> None:
    """Clip; the bounds are attributes before opset 11, then inputs."""
    lowest = _bound(ctx, node, 1, "min", -_LIMIT)
    highest = _bound(ctx, node, 2, "max", _LIMIT)
    attrs = {"alpha": lowest, "beta": highest}
    ctx.emit(node, "clip", (ctx.activation(node.input[0]),), attrs)


def _bound(ctx: Context, node: onnx.NodeProto, index: int, name: str, default: float) -> float:
    if ctx.opset < 11:
        found = float(attribute(node, name, default))
    elif len(node.input) > index and node.input[index]:
        array = ctx.tensor(node.input[index], name).array
        if array.size != 1:
            raise ModelError(f"expected one number as {name}, got shape {list(array.shape)}")
        found = float(array.ravel()[0])
    else:
        found = default
    return min(max(found, -_LIMIT), _LIMIT)


def operand(ctx: Context, name: str) -> Value:
    """An operand of arithmetic: computed, a weight, or a constant."""
    found = ctx.entry(name)
    return stored(ctx, name, found) if isinstance(found, Tensor) else ctx.activation(name)


def stored(ctx: Context, name: str, tensor: Tensor) -> Value:
    """A stored operand. Without axes it is a constant: exporters write factors that way.

    Of one element with axes it may be either, so it is a weight and a number.
    """
    if tensor.array.ndim and tensor.array.size == 1:
        ctx.numbers.update(tensor.sources)
    return ctx.weight(name, tensor if tensor.array.ndim else Tensor(tensor.array))


def masked(ctx: Context, name: str) -> Value:
    """An operand of Add or Where, where -inf means 'not this one' to the Softmax behind.

    The lowest float means the same, and a row of nothing else then has shares instead of NaN. A
    tensor with such elements is a mask and never trained.
    """
    found = ctx.entry(name)
    if not isinstance(found, Tensor):
        return ctx.activation(name)
    array: npt.NDArray[Any] = found.array
    if array.dtype == np.float32 and np.isneginf(array).any():
        low = np.where(np.isneginf(array), np.float32(-_LIMIT), array)
        ctx.notes.append(f"-inf in the mask '{name}' became the lowest float: the same to Softmax")
        found = Tensor(np.asarray(low, np.float32))
    return stored(ctx, name, found)


def lower_binary(ctx: Context, node: onnx.NodeProto) -> None:
    """Sub, Mul, Div: two operands that broadcast."""
    pair = (operand(ctx, node.input[0]), operand(ctx, node.input[1]))
    ctx.emit(node, node.op_type.lower(), pair, {})


def lower_prelu(ctx: Context, node: onnx.NodeProto) -> None:
    """PRelu: the slope repeats to the shape of the input."""
    x, slope = ctx.activation(node.input[0]), operand(ctx, node.input[1])
    learned = ctx.entry(node.input[1])
    if isinstance(learned, Tensor):  # one slope for all is no number of a formula
        ctx.numbers.difference_update(learned.sources)
    channels = slope.type.elements
    if len(x.shape) > 1 and slope.shape == (x.shape[1],) and channels not in (1, x.shape[-1]):
        # Before opset 7 a slope [C] was one a channel; converters of old models leave it so.
        per_channel = (channels, *(1,) * (len(x.shape) - 2))
        slope = ctx.builder.view(slope, per_channel, f"{node.output[0]}_slope")
        ctx.notes.append(f"PRelu '{node.name or node.output[0]}' takes its slope per channel")
    pair = (x, slope)
    if ctx.infer("prelu", pair, {}) != pair[0].shape:
        raise ModelError(
            f"expected a slope that repeats to {list(pair[0].shape)}, got {list(pair[1].shape)}; "
            "export a slope per channel of shape [C, 1, 1]"
        )
    ctx.emit(node, "prelu", pair, {})


_POWERS = {0.5: "sqrt", -1.0: "reciprocal"}


def lower_pow(ctx: Context, node: onnx.NodeProto) -> None:
    """Pow; square, root and reciprocal by the cheaper operators. One exponent is a constant."""
    base = operand(ctx, node.input[0])
    name = node.input[1]
    found = ctx.entry(name)
    if not isinstance(found, Tensor):
        ctx.emit(node, "pow", (base, ctx.activation(name)), {})
        return
    array = found.array.astype(np.float32) if found.array.dtype.kind in "iu" else found.array
    if array.size == 1 and array.ndim <= len(base.shape):
        if found.sources and any(ctx.trainable(source) for source in found.sources):
            ctx.notes.append(f"the exponent '{name}' of one element is a number: it is not trained")
        found = Tensor(array.reshape(()))
        number = float(array.ravel()[0])
        if number == 2.0:
            ctx.emit(node, "mul", (base, base), {})
            return
        if number in _POWERS:
            ctx.emit(node, _POWERS[number], (base,), {})
            return
    exponent = Tensor(array) if found.array.dtype != array.dtype else found
    ctx.emit(node, "pow", (base, stored(ctx, name, exponent)), {})


@dataclass(frozen=True, slots=True)
class Variadic:
    """An operator of any number of operands as a chain of ours."""

    op: str
    mean: bool = False


VARIADIC: Mapping[str, Variadic] = MappingProxyType(
    {
        "Max": Variadic("max"),
        "Mean": Variadic("add", mean=True),
        "Min": Variadic("min"),
        "Sum": Variadic("add"),
    }
)


def lower_variadic(ctx: Context, node: onnx.NodeProto) -> None:
    """Min, Max, Sum and Mean: one operand after the other."""
    rule = VARIADIC[node.op_type]
    values = [operand(ctx, name) for name in node.input]
    result = values[0]
    for i, value in enumerate(values[1:], 1):
        result = part(ctx, node, rule.op, (result, value), f"part{i}")
    if rule.mean and len(values) > 1:
        factor = {"alpha": 1.0 / len(values)}
        result = part(ctx, node, "scale", (result,), "mean", factor)
    ctx.env[node.output[0]] = Active(result)


def part(
    ctx: Context,
    node: onnx.NodeProto,
    op: str,
    inputs: tuple[Value, ...],
    label: str,
    attrs: Mapping[str, Attr] | None = None,
) -> Value:
    """A node of ours for ``node``, named after its output and ``label``."""
    name = node.output[0]
    label = f"{name}_{label}" if label else name
    value = ctx.builder.emit(op, inputs, attrs or {}, label, origin=node.name or name)[0]
    check_size(value.name, value.shape)
    return value


#: comparison -> ours, and whether the operands change places
COMPARISONS: Mapping[str, tuple[str, bool]] = MappingProxyType(
    {
        "Equal": ("equal_mask", False),
        "Greater": ("greater_mask", False),
        "GreaterOrEqual": ("greater_equal_mask", False),
        "Less": ("greater_mask", True),
        "LessOrEqual": ("greater_equal_mask", True),
    }
)


def lower_compare(ctx: Context, node: onnx.NodeProto) -> None:
    """A comparison of two operands that broadcast: bytes for Where."""
    op, swap = COMPARISONS[node.op_type]
    pair = [operand(ctx, name) for name in node.input]
    ctx.emit(node, op, pair[::-1] if swap else pair, {})


def lower_where(ctx: Context, node: onnx.NodeProto) -> None:
    """Where with a stored mask or one that a comparison made."""
    mask = ctx.mask(node.input[0])
    sides = (masked(ctx, node.input[1]), masked(ctx, node.input[2]))
    ctx.emit(node, "where", (mask, *sides), {})


def lower_gather(ctx: Context, node: onnx.NodeProto) -> None:
    """Gather of rows by indices known at build time or given as the input."""
    data = operand(ctx, node.input[0])
    axis = attribute(node, "axis", 0)
    rank = len(data.shape)
    if not -rank <= axis < rank:
        raise ModelError(f"expected axis in {-rank}..{rank - 1}, got {axis}; export again")
    axis %= rank
    indices = ctx.indices(node.input[1], data.shape[axis])
    ctx.emit(node, "gather", (data, indices), {"axis": axis})


def lower_expand(ctx: Context, node: onnx.NodeProto) -> None:
    """Expand to a shape known at build time; both shapes broadcast."""
    value = ctx.activation(node.input[0])
    asked = ctx.ints(node.input[1], "the shape")
    try:
        shape = tuple(int(size) for size in np.broadcast_shapes(value.shape, asked))
    except ValueError as error:
        raise ModelError(
            f"expected a shape that {list(value.shape)} repeats to, got {list(asked)}"
        ) from error
    if math.prod(shape) == math.prod(value.shape):
        ctx.env[node.output[0]] = Active(ctx.builder.view(value, shape, node.output[0]))
        return
    ctx.emit(node, "expand", (value,), {"shape": shape})
