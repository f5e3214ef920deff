"""Batch, layer, instance and group normalization."""

from __future__ import annotations

import math

import numpy as np
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Active, Context, Tensor, attribute
from poet_mcu.frontend.lower_elementwise import part
from poet_mcu.ir.graph import Role, TensorType, Value


def lower_batch_norm(ctx: Context, node: onnx.NodeProto) -> None:
    """BatchNormalization by the batch's statistics (trained) or the stored ones (frozen).

    Training mode is ``training_mode`` since opset 14 and further outputs before (ONNX Operators,
    BatchNormalization-9, -14). Which of the two is built is the choice of --batchnorm alone: an
    exported model says how it ran when it was exported, not how it is to be trained.
    """
    _need_no_more_outputs(ctx, node, "the running statistics are written back by name")
    x = ctx.activation(node.input[0])
    if len(x.shape) < 2:
        raise ModelError(f"expected an input [N, C, ...], got {list(x.shape)}; export it so")
    if not attribute(node, "spatial", 1) and math.prod(x.shape[2:]) != 1:
        raise ModelError("expected spatial=1, got 0; export with opset 9 or newer")
    scale = ctx.operand(node.input[1])
    bias = ctx.operand(node.input[2])
    attrs = {"eps": float(attribute(node, "epsilon", 1e-5))}
    count = x.type.elements // x.shape[1]
    by_batch = _by_batch(ctx, node, scale, count)
    if by_batch:
        mean, var = _tracked(ctx, node, x, count)
    else:
        mean, var = (
            ctx.fixed(node.input[i], ctx.tensor(node.input[i], what))
            for i, what in ((3, "the running mean"), (4, "the running variance"))
        )
    ctx.emit(node, "batchnorm", (x, mean, var, scale, bias), {**attrs, "batch": int(by_batch)})


def _by_batch(ctx: Context, node: onnx.NodeProto, scale: Value, count: int) -> bool:
    label = f"'{node.name or node.output[0]}'"
    if ctx.batchnorm == "train" and count == 1:
        raise ModelError(
            "expected two or more values a channel for --batchnorm train, got one (batch 1 on one "
            "position), whose variance is 0; raise --batch or choose --batchnorm frozen"
        )
    if ctx.batchnorm != "auto":
        return ctx.batchnorm == "train"
    trained = scale.role is Role.PARAMETER
    if trained and count == 1:
        ctx.notes.append(
            f"batch normalization {label} keeps its running statistics: a batch of one value a "
            "channel has no variance"
        )
    return trained and count > 1


def _tracked(ctx: Context, node: onnx.NodeProto, x: Value, count: int) -> tuple[Value, Value]:
    """Mean and variance of the batch, which the running ones follow."""
    running = [
        ctx.statistic(node.input[i], ctx.tensor(node.input[i], what))
        for i, what in ((3, "the running mean"), (4, "the running variance"))
    ]
    name, origin = node.output[0], node.name or node.output[0]
    mean, var = ctx.builder.emit("batch_stats", (x,), {}, name, origin)
    # ONNX tracks the variance over the population, PyTorch the unbiased one. A model in training
    # mode says what it wants; one in evaluation mode leaves it open, and then PyTorch is followed.
    training = attribute(node, "training_mode", 0) or (ctx.opset < 14 and len(node.output) > 1)
    attrs = {
        "momentum": float(attribute(node, "momentum", 0.9)),
        "correction": 1.0 if training else count / (count - 1),
    }
    ctx.builder.emit("running_stats", (*running, mean, var), attrs, f"{name}_running", origin)
    return mean, var


def _need_no_more_outputs(ctx: Context, node: onnx.NodeProto, why: str) -> None:
    used = [n for n in node.output[1:] if n and (ctx.consumers.get(n) or n in ctx.outputs)]
    if used:
        raise ModelError(
            f"expected {node.op_type} with one output in use, got '{used[0]}' read as well; "
            f"export without it ({why})"
        )


def _row_norm(ctx: Context, node: onnx.NodeProto, layout: tuple[int, int, int]) -> None:
    """Emit rownorm with (features, groups, inner); scale and bias are inputs 1 and 2."""
    x = ctx.activation(node.input[0])
    features, groups, inner = layout
    channels = groups * (features // inner)
    scale_tensor = ctx.tensor(node.input[1], "the scale")
    scale = ctx.weight(node.input[1], _full(scale_tensor, channels))
    if len(node.input) > 2 and node.input[2]:
        bias_tensor = ctx.tensor(node.input[2], "the bias")
        bias = ctx.weight(node.input[2], _full(bias_tensor, channels))
    else:
        zeros = np.zeros(channels, np.float32)
        name = f"{node.output[0]}_no_bias"
        bias = ctx.builder.value(name, TensorType((channels,)), Role.CONSTANT, "", zeros)
    eps = float(attribute(node, "epsilon", 1e-5))
    attrs = {"features": features, "groups": groups, "inner": inner, "eps": eps}
    ctx.emit(node, "rownorm", (x, scale, bias), attrs)


def _full(tensor: Tensor, channels: int) -> Tensor:
    """The tensor, repeated where one number serves all channels."""
    if tensor.array.size != 1 or channels == 1:
        return tensor
    return tensor.changed(np.full(channels, tensor.array.ravel()[0]), "repeated")


def lower_layer_norm(ctx: Context, node: onnx.NodeProto) -> None:
    """LayerNormalization over the axes from ``axis`` on."""
    shape = ctx.activation(node.input[0]).shape
    axis = attribute(node, "axis", -1)
    if not -len(shape) <= axis < len(shape):
        raise ModelError(
            f"expected axis in {-len(shape)}..{len(shape) - 1}, got {axis}; export again"
        )
    axis %= len(shape)
    _row_norm(ctx, node, (math.prod(shape[axis:]), 1, 1))
    wanted = [n for n in node.output[1:] if n and (ctx.consumers.get(n) or n in ctx.outputs)]
    if wanted:
        _row_statistics(ctx, node, tuple(range(axis, len(shape))))


def _row_statistics(ctx: Context, node: onnx.NodeProto, axes: tuple[int, ...]) -> None:
    """Mean and inverse deviation as outputs of their own: rownorm keeps them to itself."""
    x = ctx.activation(node.input[0])
    mean = part(ctx, node, "reduce_mean", (x,), "mean", {"axes": axes})
    centred = part(ctx, node, "sub", (x, mean), "centred")
    square = part(ctx, node, "mul", (centred, centred), "square")
    variance = part(ctx, node, "reduce_mean", (square,), "variance", {"axes": axes})
    eps = np.full(1, attribute(node, "epsilon", 1e-5), np.float32)
    name = f"{node.output[0]}_epsilon"
    floor = ctx.builder.value(name, TensorType((1,)), Role.CONSTANT, "", eps)
    deviation = part(ctx, node, "sqrt", (part(ctx, node, "add", (variance, floor), "sum"),), "root")
    ctx.env[node.output[1]] = Active(mean)
    if len(node.output) > 2:
        inverse = part(ctx, node, "reciprocal", (deviation,), "inverse")
        ctx.env[node.output[2]] = Active(inverse)


def lower_instance_norm(ctx: Context, node: onnx.NodeProto) -> None:
    """InstanceNormalization of [N, C, ...]: each plane by itself."""
    shape = _planes(ctx, node)
    plane = math.prod(shape[2:])
    _row_norm(ctx, node, (plane, shape[1], plane))


def lower_group_norm(ctx: Context, node: onnx.NodeProto) -> None:
    """GroupNormalization since opset 21, scale and bias a channel; ONNX withdrew that of 18."""
    shape = _planes(ctx, node)
    groups = attribute(node, "num_groups", 0)
    if groups < 1 or shape[1] % groups:
        raise ModelError(
            f"expected num_groups that divides {shape[1]} channels, got {groups}; export again"
        )
    plane = math.prod(shape[2:])
    _row_norm(ctx, node, (shape[1] // groups * plane, groups, plane))


def _planes(ctx: Context, node: onnx.NodeProto) -> tuple[int, ...]:
    shape = ctx.activation(node.input[0]).shape
    if len(shape) < 3:
        raise ModelError(f"expected an input [N, C, ...], got {list(shape)}; export it so")
    return shape
