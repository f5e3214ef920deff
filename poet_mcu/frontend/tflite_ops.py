"""One rule for each operator of TensorFlow Lite that has windows, weights or arithmetic.

Sources: the operators' kernels in TensorFlow Lite for padding (SAME: as little as possible, the
larger half behind) and shapes; ONNX Operators for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.frontend.tflite_file import LiteOp
from poet_mcu.frontend.tflite_graph import Lite

Rule = Callable[[Lite, LiteOp], None]


def _pads(
    op: LiteOp, sizes: tuple[int, ...], kernel: tuple[int, int], dilations: tuple[int, int]
) -> list[int]:
    """Padding of rows and columns before, then behind."""
    if op.options["Padding"] == 1:
        return [0, 0, 0, 0]
    strides = _strides(op)
    total = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        out = -(-size // stride)
        total.append(max((out - 1) * stride + (k - 1) * dilation + 1 - size, 0))
    return [total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2]


def _strides(op: LiteOp) -> tuple[int, int]:
    strides = (op.options["StrideH"], op.options["StrideW"])
    if min(strides) < 1:
        raise ModelError(f"expected strides of 1 or more, got {list(strides)}; convert again")
    return strides


def _kernel_of(lite: Lite, index: int) -> tuple[int, int, int, int]:
    shape = lite.shape(lite.source(index))
    if len(shape) != 4 or 0 in shape:
        raise ModelError(f"expected a kernel of 4 dimensions, got {list(shape)}; convert again")
    return shape[0], shape[1], shape[2], shape[3]


def _bias(lite: Lite, op: LiteOp, place: int) -> list[str]:
    if len(op.inputs) <= place or op.inputs[place] < 0:
        return []
    return [lite.operand(op.inputs[place])]


def _plane(lite: Lite, index: int) -> tuple[int, int, int]:
    """Rows, columns, channels of [N, H, W, C]."""
    shape = lite.shape(index)
    if len(shape) != 4:
        raise ModelError(f"expected [N, H, W, C], got {list(shape)}")
    return shape[1], shape[2], shape[3]


def conv(lite: Lite, op: LiteOp) -> None:
    """Kernel [M, H, W, C]; fewer channels than the input's make groups."""
    rows, columns, channels = _plane(lite, op.inputs[0])
    _, kh, kw, per_group = _kernel_of(lite, op.inputs[1])
    if channels % per_group:
        raise ModelError(f"expected channels divisible by {per_group}, got {channels}")
    w = lite.weight(op.inputs[1], "as OIHW", lambda a: a.transpose(0, 3, 1, 2))
    _convolution(lite, op, (rows, columns), w, (kh, kw), channels // per_group)


def depthwise(lite: Lite, op: LiteOp) -> None:
    """Kernel [1, H, W, C * multiplier]."""
    rows, columns, channels = _plane(lite, op.inputs[0])
    one, kh, kw, _ = _kernel_of(lite, op.inputs[1])
    if one != 1:
        raise ModelError(f"expected a kernel [1, H, W, C], got {one} in place of 1")
    w = lite.weight(op.inputs[1], "as CIHW", lambda a: a.transpose(3, 0, 1, 2))
    _convolution(lite, op, (rows, columns), w, (kh, kw), channels)


def _convolution(
    lite: Lite, op: LiteOp, sizes: tuple[int, int], w: str, kernel: tuple[int, int], group: int
) -> None:
    dilations = (op.options["DilationHFactor"], op.options["DilationWFactor"])
    y = lite.add(
        "Conv",
        [lite.channels_first(op.inputs[0]), w, *_bias(lite, op, 2)],
        lite.name(op.outputs[0]),
        kernel_shape=kernel,
        strides=_strides(op),
        dilations=dilations,
        pads=_pads(op, sizes, kernel, dilations),
        group=group,
    )
    lite.channels_last(op, y)


def transpose_conv(lite: Lite, op: LiteOp) -> None:
    """Inputs: the output's shape, kernel [M, H, W, C], x, bias. The shape is in the file."""
    _plane(lite, op.inputs[2])
    out = _plane(lite, op.outputs[0])[:2]
    _, kh, kw, _ = _kernel_of(lite, op.inputs[1])
    sizes = _plane(lite, op.inputs[2])[:2]
    strides, kernel = _strides(op), (kh, kw)
    # What a convolution of the output would be padded by; a negative rest is padding of ours.
    full = [(s - 1) * t + k for s, t, k in zip(sizes, strides, kernel, strict=True)]
    cut = [f - o for f, o in zip(full, out, strict=True)]
    before = [max(c, 0) // 2 for c in cut]
    w = lite.weight(op.inputs[1], "as IOHW", lambda a: a.transpose(3, 0, 1, 2))
    y = lite.add(
        "ConvTranspose",
        [lite.channels_first(op.inputs[2]), w, *_bias(lite, op, 3)],
        lite.name(op.outputs[0]),
        kernel_shape=kernel,
        strides=strides,
        pads=[*before, *(max(c, 0) - b for c, b in zip(cut, before, strict=True))],
        output_padding=[max(-c, 0) for c in cut],
    )
    lite.channels_last(op, y)


def pool(lite: Lite, op: LiteOp) -> None:
    """Max and average pooling; padding is never counted."""
    kernel = (op.options["FilterHeight"], op.options["FilterWidth"])
    sizes = _plane(lite, op.inputs[0])[:2]
    kind = "MaxPool" if op.name == "MAX_POOL_2D" else "AveragePool"
    y = lite.add(
        kind,
        [lite.channels_first(op.inputs[0])],
        lite.name(op.outputs[0]),
        kernel_shape=kernel,
        strides=_strides(op),
        pads=_pads(op, sizes, kernel, (1, 1)),
    )
    lite.channels_last(op, y)


def fully_connected(lite: Lite, op: LiteOp) -> None:
    """y = x w^T + b with w [M, K]; x of more axes is rows of K."""
    if op.options["WeightsFormat"]:
        raise ModelError("expected weights in default order, got them shuffled; convert again")
    shape, out = lite.shape(op.inputs[0]), lite.shape(op.outputs[0])
    features = lite.shape(lite.source(op.inputs[1]))[-1]
    x, like = lite.operand(op.inputs[0]), lite.name(op.outputs[0])
    inputs = [lite.operand(op.inputs[1]), *_bias(lite, op, 2)]
    if len(shape) == 2 == len(out) and shape[1] == features:
        lite.result(op, "Gemm", [x, *inputs], transB=1)
        return
    x = lite.add("Reshape", [x, lite.number([-1, features], like)], like)
    y = lite.add("Gemm", [x, *inputs], like, transB=1)
    lite.reshape(op, lite.activated(y, op), rows=shape[0] == 1)


def arithmetic(lite: Lite, op: LiteOp) -> None:
    """Two operands that broadcast; what is stored with a batch of one serves all samples."""
    lite.result(op, _BINARY[op.name], [lite.operand(i) for i in op.inputs])


def squared_difference(lite: Lite, op: LiteOp) -> None:
    """(a - b)^2."""
    a, b = (lite.operand(i) for i in op.inputs)
    difference = lite.add("Sub", [a, b], lite.name(op.outputs[0]))
    lite.result(op, "Mul", [difference, difference])


def function(lite: Lite, op: LiteOp) -> None:
    """An element-wise function without numbers."""
    lite.result(op, _FUNCTIONS[op.name], [lite.operand(op.inputs[0])])


def clip(lite: Lite, op: LiteOp) -> None:
    """Relu6 and Relu between -1 and 1."""
    lowest, highest = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}[op.name]
    like = lite.name(op.outputs[0])
    numbers = [lite.number(lowest, like), lite.number(highest, like)]
    lite.result(op, "Clip", [lite.operand(op.inputs[0]), *numbers])


def leaky_relu(lite: Lite, op: LiteOp) -> None:
    """x, or alpha x below 0."""
    alpha = float(op.options["Alpha"])
    lite.result(op, "LeakyRelu", [lite.operand(op.inputs[0])], alpha=alpha)


def gelu(lite: Lite, op: LiteOp) -> None:
    """Exact, or by tanh."""
    how = "tanh" if op.options["Approximate"] else "none"
    lite.result(op, "Gelu", [lite.operand(op.inputs[0])], approximate=how)


def rsqrt(lite: Lite, op: LiteOp) -> None:
    """1 / sqrt(x)."""
    root = lite.add("Sqrt", [lite.operand(op.inputs[0])], lite.name(op.outputs[0]))
    lite.result(op, "Reciprocal", [root])


def square(lite: Lite, op: LiteOp) -> None:
    """x^2."""
    x = lite.operand(op.inputs[0])
    lite.result(op, "Mul", [x, x])


def softmax(lite: Lite, op: LiteOp) -> None:
    """Over the last axis, of beta x."""
    x, like = lite.operand(op.inputs[0]), lite.name(op.outputs[0])
    beta = float(op.options.get("Beta", 1.0))
    if beta != 1.0:
        x = lite.add("Mul", [x, lite.number(beta, like)], like)
    lite.apart(len(lite.shape(op.inputs[0])) > 1, op)
    kind = "Softmax" if op.name == "SOFTMAX" else "LogSoftmax"
    lite.result(op, kind, [x], axis=-1)


def matmul(lite: Lite, op: LiteOp) -> None:
    """Stacks of matrices, each turned where the options say so."""
    names = []
    for index, turned in zip(op.inputs, (op.options["AdjX"], op.options["AdjY"]), strict=True):
        name, rank = lite.operand(index), len(lite.shape(index))
        if turned:
            perm = [*range(rank - 2), rank - 1, rank - 2]
            name = lite.add("Transpose", [name], lite.name(op.outputs[0]), perm=perm)
        names.append(name)
    lite.apart(len(lite.shape(op.outputs[0])) > 2, op)
    lite.result(op, "MatMul", names)


def reduce(lite: Lite, op: LiteOp) -> None:
    """Mean, sum, largest, smallest over stored axes."""
    rank = len(lite.shape(op.inputs[0]))
    axes = sorted(axis % rank if rank else 0 for axis in lite.ints(op.inputs[1], "the axes"))
    lite.apart(0 not in axes, op)
    inputs = [lite.operand(op.inputs[0]), lite.number(axes, lite.name(op.outputs[0]))]
    lite.result(op, _REDUCTIONS[op.name], inputs, keepdims=int(bool(op.options["KeepDims"])))


def resize(lite: Lite, op: LiteOp) -> None:
    """Nearest neighbours, to the size in the file."""
    out = _plane(lite, op.outputs[0])
    sizes = _plane(lite, op.inputs[0])
    corners, half = bool(op.options["AlignCorners"]), bool(op.options["HalfPixelCenters"])
    if corners and half:
        raise ModelError("expected align_corners or half_pixel_centers, got both; convert again")
    scales = np.asarray([1, 1, out[0] / sizes[0], out[1] / sizes[1]], np.float32)
    like = lite.name(op.outputs[0])
    name = lite.fresh(f"{like}/scales")
    lite.stored[name] = scales
    # TFLite: floor((i + 0.5) * in / out) with half pixels, round(i * ...) with corners, else floor.
    position = "tf_half_pixel_for_nn" if half else "align_corners" if corners else "asymmetric"
    y = lite.add(
        "Resize",
        [lite.channels_first(op.inputs[0]), "", name],
        like,
        mode="nearest",
        coordinate_transformation_mode=position,
        nearest_mode="round_prefer_ceil" if corners else "floor",
    )
    lite.channels_last(op, y)


def compare(lite: Lite, op: LiteOp) -> None:
    """A comparison of two operands that broadcast."""
    lite.result(op, _COMPARISONS[op.name], [lite.operand(i) for i in op.inputs])


def select(lite: Lite, op: LiteOp) -> None:
    """A choice by a mask."""
    lite.result(op, "Where", [lite.operand(i) for i in op.inputs])


def same(lite: Lite, op: LiteOp) -> None:
    """QUANTIZE and DEQUANTIZE: real numbers stay as they are."""
    (source,), (target,) = op.inputs, op.outputs
    if lite.data(source) is not None:
        lite.alias(target, source)
        return
    tensors = lite.file.tensors
    if not (tensors[source].is_float and tensors[target].is_float):
        raise ModelError("expected quantized or real numbers, got integers; convert again")
    lite.result(op, "Identity", [lite.operand(source)])


_BINARY: Mapping[str, str] = MappingProxyType(
    {
        "ADD": "Add",
        "DIV": "Div",
        "MAXIMUM": "Max",
        "MINIMUM": "Min",
        "MUL": "Mul",
        "POW": "Pow",
        "PRELU": "PRelu",
        "SUB": "Sub",
    }
)
_FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "ABS": "Abs",
        "ELU": "Elu",
        "EXP": "Exp",
        "HARD_SWISH": "HardSwish",
        "LOG": "Log",
        "LOGISTIC": "Sigmoid",
        "NEG": "Neg",
        "RELU": "Relu",
        "SQRT": "Sqrt",
        "TANH": "Tanh",
    }
)
_REDUCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "MEAN": "ReduceMean",
        "REDUCE_MAX": "ReduceMax",
        "REDUCE_MIN": "ReduceMin",
        "SUM": "ReduceSum",
    }
)
_COMPARISONS: Mapping[str, str] = MappingProxyType(
    {
        "EQUAL": "Equal",
        "GREATER": "Greater",
        "GREATER_EQUAL": "GreaterOrEqual",
        "LESS": "Less",
        "LESS_EQUAL": "LessOrEqual",
    }
)

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(_BINARY, arithmetic),
        **dict.fromkeys(_FUNCTIONS, function),
        **dict.fromkeys(_REDUCTIONS, reduce),
        **dict.fromkeys(_COMPARISONS, compare),
        "AVERAGE_POOL_2D": pool,
        "BATCH_MATMUL": matmul,
        "CONV_2D": conv,
        "DEPTHWISE_CONV_2D": depthwise,
        "DEQUANTIZE": same,
        "FULLY_CONNECTED": fully_connected,
        "GELU": gelu,
        "LEAKY_RELU": leaky_relu,
        "LOG_SOFTMAX": softmax,
        "MAX_POOL_2D": pool,
        "QUANTIZE": same,
        "RELU6": clip,
        "RELU_N1_TO_1": clip,
        "RESIZE_NEAREST_NEIGHBOR": resize,
        "RSQRT": rsqrt,
        "SELECT": select,
        "SELECT_V2": select,
        "SOFTMAX": softmax,
        "SQUARE": square,
        "SQUARED_DIFFERENCE": squared_difference,
        "TRANSPOSE_CONV": transpose_conv,
    }
)
