"""The table of ONNX operators we lower, and what to do about some of those we do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend import (
    lower_composed,
    lower_conv_transpose,
    lower_dense,
    lower_dropout,
    lower_einsum,
    lower_elementwise,
    lower_layout,
    lower_matmul,
    lower_norm,
    lower_pad,
    lower_recurrent,
    lower_reduce,
    lower_resize,
    lower_shape,
    lower_window,
)
from poet_mcu.frontend.context import Array, Context, Tensor
from poet_mcu.frontend.fold import RULES, fold
from poet_mcu.frontend.model_file import ONNX_DOMAINS
from poet_mcu.ir.graph import Value

Handler = Callable[[Context, onnx.NodeProto], None]


@dataclass(frozen=True, slots=True)
class Lowering:
    """How to lower one operator; ``newest`` is the last version of its definition we know."""

    handler: Handler
    newest: int


HANDLERS: Mapping[str, Lowering] = MappingProxyType(
    {
        "Add": Lowering(lower_dense.lower_add, 14),
        "Cast": Lowering(lower_shape.lower_cast, 28),
        "Constant": Lowering(lower_shape.lower_constant, 25),
        "Conv": Lowering(lower_window.lower_conv, 22),
        "Dropout": Lowering(lower_dropout.lower_dropout, 22),
        "Flatten": Lowering(lower_shape.lower_flatten, 25),
        "Gemm": Lowering(lower_matmul.lower_gemm, 13),
        "Identity": Lowering(lower_shape.lower_identity, 25),
        "MatMul": Lowering(lower_matmul.lower_matmul, 13),
        "MaxPool": Lowering(lower_window.lower_max_pool, 22),
        "Relu": Lowering(lower_shape.lower_relu, 14),
        "Reshape": Lowering(lower_shape.lower_reshape, 25),
        "Shape": Lowering(lower_shape.lower_shape, 25),
        "Softmax": Lowering(lower_reduce.lower_softmax, 13),
        "Squeeze": Lowering(lower_shape.lower_squeeze, 25),
        "Transpose": Lowering(lower_shape.lower_transpose, 25),
        "Unsqueeze": Lowering(lower_shape.lower_unsqueeze, 25),
        "Abs": Lowering(lower_elementwise.lower_activation, 13),
        "Celu": Lowering(lower_elementwise.lower_activation, 28),
        "Clip": Lowering(lower_elementwise.lower_clip, 13),
        "Div": Lowering(lower_elementwise.lower_binary, 14),
        "Elu": Lowering(lower_elementwise.lower_activation, 22),
        "Erf": Lowering(lower_elementwise.lower_activation, 13),
        "Exp": Lowering(lower_elementwise.lower_activation, 13),
        "Expand": Lowering(lower_elementwise.lower_expand, 13),
        "Gather": Lowering(lower_elementwise.lower_gather, 13),
        "Gelu": Lowering(lower_elementwise.lower_gelu, 20),
        "HardSigmoid": Lowering(lower_elementwise.lower_activation, 22),
        "HardSwish": Lowering(lower_elementwise.lower_activation, 22),
        "LeakyRelu": Lowering(lower_elementwise.lower_activation, 16),
        "Log": Lowering(lower_elementwise.lower_activation, 13),
        "LogSoftmax": Lowering(lower_reduce.lower_log_softmax, 13),
        "Max": Lowering(lower_elementwise.lower_variadic, 13),
        "Mean": Lowering(lower_elementwise.lower_variadic, 13),
        "Min": Lowering(lower_elementwise.lower_variadic, 13),
        "Mish": Lowering(lower_elementwise.lower_activation, 22),
        "Mul": Lowering(lower_elementwise.lower_binary, 14),
        "Neg": Lowering(lower_elementwise.lower_activation, 13),
        "PRelu": Lowering(lower_elementwise.lower_prelu, 16),
        "Pow": Lowering(lower_elementwise.lower_pow, 15),
        "Reciprocal": Lowering(lower_elementwise.lower_activation, 13),
        "ReduceL1": Lowering(lower_reduce.lower_reduce, 18),
        "ReduceL2": Lowering(lower_reduce.lower_reduce, 18),
        "ReduceLogSum": Lowering(lower_reduce.lower_reduce, 28),
        "ReduceLogSumExp": Lowering(lower_reduce.lower_reduce, 28),
        "ReduceMax": Lowering(lower_reduce.lower_reduce, 20),
        "ReduceMean": Lowering(lower_reduce.lower_reduce, 18),
        "ReduceMin": Lowering(lower_reduce.lower_reduce, 20),
        "ReduceSum": Lowering(lower_reduce.lower_reduce, 13),
        "ReduceSumSquare": Lowering(lower_reduce.lower_reduce, 18),
        "Selu": Lowering(lower_elementwise.lower_activation, 22),
        "Shrink": Lowering(lower_elementwise.lower_activation, 9),
        "Sigmoid": Lowering(lower_reduce.lower_sigmoid, 13),
        "Softplus": Lowering(lower_elementwise.lower_activation, 22),
        "Softsign": Lowering(lower_elementwise.lower_activation, 22),
        "Sqrt": Lowering(lower_elementwise.lower_activation, 13),
        "Sub": Lowering(lower_elementwise.lower_binary, 14),
        "Sum": Lowering(lower_elementwise.lower_variadic, 13),
        "Swish": Lowering(lower_elementwise.lower_activation, 24),
        "Tanh": Lowering(lower_elementwise.lower_activation, 13),
        "ThresholdedRelu": Lowering(lower_elementwise.lower_activation, 22),
        "Equal": Lowering(lower_elementwise.lower_compare, 19),
        "Greater": Lowering(lower_elementwise.lower_compare, 13),
        "GreaterOrEqual": Lowering(lower_elementwise.lower_compare, 16),
        "Less": Lowering(lower_elementwise.lower_compare, 13),
        "LessOrEqual": Lowering(lower_elementwise.lower_compare, 16),
        "Where": Lowering(lower_elementwise.lower_where, 16),
        "AveragePool": Lowering(lower_window.lower_average_pool, 22),
        "BatchNormalization": Lowering(lower_norm.lower_batch_norm, 15),
        "Concat": Lowering(lower_layout.lower_concat, 13),
        "ConvTranspose": Lowering(lower_conv_transpose.lower_conv_transpose, 22),
        "DepthToSpace": Lowering(lower_layout.lower_depth_to_space, 28),
        "GlobalAveragePool": Lowering(lower_window.lower_global_average_pool, 22),
        "GlobalMaxPool": Lowering(lower_window.lower_global_max_pool, 22),
        "GroupNormalization": Lowering(lower_norm.lower_group_norm, 21),
        "InstanceNormalization": Lowering(lower_norm.lower_instance_norm, 22),
        "GRU": Lowering(lower_recurrent.lower_gru, 22),
        "LSTM": Lowering(lower_recurrent.lower_lstm, 22),
        "RNN": Lowering(lower_recurrent.lower_rnn, 22),
        "LayerNormalization": Lowering(lower_norm.lower_layer_norm, 17),
        "Pad": Lowering(lower_pad.lower_pad, 25),
        "Resize": Lowering(lower_resize.lower_resize, 19),
        "Slice": Lowering(lower_layout.lower_slice, 13),
        "SpaceToDepth": Lowering(lower_layout.lower_space_to_depth, 28),
        "Split": Lowering(lower_layout.lower_split, 18),
        "Tile": Lowering(lower_layout.lower_tile, 13),
        "CumSum": Lowering(lower_composed.lower_cum_sum, 14),
        "Einsum": Lowering(lower_einsum.lower_einsum, 12),
        "LpNormalization": Lowering(lower_composed.lower_lp_norm, 22),
        "RMSNormalization": Lowering(lower_composed.lower_rms_norm, 23),
        "Upsample": Lowering(lower_resize.lower_resize, 10),
    }
)

# Tensors keep their identity through these, so they are not folded as arithmetic.
_KEEPS_TENSOR = frozenset({"Identity", "Squeeze", "Transpose", "Unsqueeze"})
# Folded as shape arithmetic; floats may be trained and are computed on the board.
_INTEGERS_ONLY = frozenset({"Max", "Min"})
# Folded from trained tensors too: the board computes them in every step.
_COMPUTED = frozenset(RULES) & frozenset(HANDLERS) - {"Cast"}
# What may turn tensors known at build time into another one.
STATIC_OPS = frozenset(RULES) | {"Constant", "Flatten", "Reshape"}

_ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "QuantizeLinear": "export the float model: training needs float32",
        "DequantizeLinear": "export the float model: training needs float32",
        "If": "export with fixed control flow",
        "Loop": "export with fixed control flow",
        "Scan": "export with fixed control flow",
    }
)


def lower_node(ctx: Context, node: onnx.NodeProto) -> None:
    """Lower or fold one node; raises ModelError without the node's name, which the caller adds."""
    if node.domain not in ONNX_DOMAINS:
        raise ModelError(
            f"expected an operator of domain 'ai.onnx', got domain '{node.domain}'; "
            "export without custom operators or contrib fusions"
        )
    if node.op_type in RULES and _foldable(ctx, node):
        ctx.env[node.output[0]] = _folded(ctx, node)
        return
    _lower(ctx, node)


def lower_computed(ctx: Context, node: onnx.NodeProto) -> Value:
    """The output of ``node`` computed on the board, though its operands are known."""
    _lower(ctx, node)
    return ctx.activation(node.output[0])


def _lower(ctx: Context, node: onnx.NodeProto) -> None:
    lowering = HANDLERS.get(node.op_type)
    if lowering is None:
        raise ModelError(_unsupported(node))
    version = onnx.defs.get_schema(node.op_type, ctx.opset, "").since_version
    if version > lowering.newest:
        raise ModelError(
            f"expected {node.op_type} as defined up to opset {lowering.newest}, got its version "
            f"{version} (opset {ctx.opset}); export with an older opset"
        )
    lowering.handler(ctx, node)


def _unsupported(node: onnx.NodeProto) -> str:
    if node.op_type in RULES:
        return (
            f"expected {node.op_type} of constants only, got an operand that depends on the input; "
            "only shape arithmetic is folded: change the model before export"
        )
    names = ", ".join(sorted(HANDLERS))
    advice = _ADVICE.get(node.op_type, f"replace it before export; supported are {names}")
    return f"expected a supported operator, got {node.op_type}; {advice}"


def _foldable(ctx: Context, node: onnx.NodeProto) -> bool:
    """All operands are known, and none of them is a table that is trained."""
    if node.op_type in _KEEPS_TENSOR:
        return False
    entries = [ctx.entry(name) for name in node.input if name]
    tensors = [entry for entry in entries if isinstance(entry, Tensor)]
    if node.op_type in _INTEGERS_ONLY and any(t.array.dtype.kind == "f" for t in tensors):
        return False
    trained_table = node.op_type == "Gather" and len(tensors) == 2 and ctx.trained(tensors[0])
    return len(tensors) == len(entries) and not trained_table


def _folded(ctx: Context, node: onnx.NodeProto) -> Tensor:
    arrays: list[Array | None] = []
    sources: list[str] = []
    for name in node.input:
        tensor = ctx.tensor(name, "an operand") if name else None
        arrays.append(None if tensor is None else tensor.array)
        sources += [] if tensor is None else tensor.sources
    result = fold(node, arrays, ctx.opset)
    kept = tuple(dict.fromkeys(sources)) if result.dtype.kind == "f" else ()
    how = f"changed by {node.op_type}" if kept else ""
    return Tensor(result, kept, how, made_by=node if node.op_type in _COMPUTED else None)
