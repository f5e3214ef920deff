"""Conv and pooling: windows, strides and every way ONNX has to say padding; 1-D as height 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Context, Pending, attribute
from poet_mcu.ir.graph import Attr, Value
from poet_mcu.ops.operator import ints

# The C runtime keeps geometry in int32; a window attribute above this is damage, not a model.
_MOST = 32767
# A winner's number is a byte.
_MOST_WINNERS = 255


def lower_conv(ctx: Context, node: onnx.NodeProto) -> None:
    """Conv with 1-D or 2-D kernels to conv2d; a bias may come from an Add behind it."""
    x, axes = planes(ctx, node)
    w = flat_kernel(ctx, node, axes)
    kernel = (w.shape[2], w.shape[3])
    attrs = {**window(node, x.shape, kernel, axes), "group": group_of(node)}
    channels = w.shape[0]
    shape = unplane(ctx.infer("conv2d", (x, w), attrs), axes)
    if len(node.input) > 2 and node.input[2]:
        bias = ctx.operand(node.input[2])
        ctx.emit_as(node, "conv2d", (x, w, bias), attrs, shape)
        return
    if not ctx.waits_for_bias(node):
        ctx.emit_as(node, "conv2d", (x, w), attrs, shape)
        return
    name = node.output[0]
    ctx.env[name] = Pending("conv2d", (x, w), attrs, channels, shape, name, node.name or name)


def group_of(node: onnx.NodeProto) -> int:
    """The attribute group, in range."""
    group = attribute(node, "group", 1)
    if not 1 <= group <= _MOST:
        raise ModelError(f"expected group 1..{_MOST}, got {group}; export the model again")
    return int(group)


def flat_kernel(ctx: Context, node: onnx.NodeProto, axes: int) -> Value:
    """The kernel with two window axes; a 1-D one is seen with height 1.

    kernel_shape, where it is given, must repeat its rows and columns.
    """
    w = ctx.operand(node.input[1])
    if len(w.shape) != 2 + axes:
        raise ModelError(f"expected a kernel of {2 + axes} dimensions, got {list(w.shape)}")
    stated = attribute(node, "kernel_shape", w.shape[2:])
    if tuple(stated) != w.shape[2:]:
        raise ModelError(
            f"expected kernel_shape {list(w.shape[2:])} as in '{node.input[1]}', "
            f"got {list(stated)}; export the model again"
        )
    rows = w.shape[2] if axes == 2 else 1
    return ctx.builder.view(w, (*w.shape[:2], rows, w.shape[-1]), f"{node.output[0]}_kernel")


def planes(ctx: Context, node: onnx.NodeProto) -> tuple[Value, int]:
    """The input as [N, C, H, W] and its number of window axes; a line is a plane of height 1."""
    x = ctx.activation(node.input[0])
    if len(x.shape) == 3:
        shape = (*x.shape[:2], 1, x.shape[2])
        return ctx.builder.view(x, shape, f"{node.output[0]}_plane"), 1
    if len(x.shape) == 4:
        return x, 2
    raise ModelError(
        f"expected 1-D or 2-D {node.op_type} on [N, C, L] or [N, C, H, W], got an input of shape "
        f"{list(x.shape)}; reshape before export"
    )


def unplane(shape: tuple[int, ...], axes: int) -> tuple[int, ...]:
    """[N, C, 1, L] back to [N, C, L] where there is one window axis."""
    return shape if axes == 2 else (*shape[:2], shape[3])


def lower_max_pool(ctx: Context, node: onnx.NodeProto) -> None:
    """MaxPool with 1-D or 2-D windows and without Indices to maxpool2d."""
    if len(node.output) > 1 and node.output[1]:
        raise ModelError(
            f"expected MaxPool with one output, got Indices '{node.output[1]}'; "
            "export without return_indices"
        )
    _pool(ctx, node, "maxpool2d", {})


def lower_average_pool(ctx: Context, node: onnx.NodeProto) -> None:
    """AveragePool with 1-D or 2-D windows to avgpool2d."""
    extra: dict[str, Attr] = {"count_pads": int(bool(attribute(node, "count_include_pad", 0)))}
    _pool(ctx, node, "avgpool2d", extra)


def _pool(ctx: Context, node: onnx.NodeProto, op: str, extra: Mapping[str, Attr]) -> None:
    x, axes = planes(ctx, node)
    kernel = _pair(node, "kernel_shape", (), 1, axes)
    ceil_mode = attribute(node, "ceil_mode", 0)
    mode = attribute(node, "auto_pad", "NOTSET")
    if ceil_mode and mode == "VALID":
        # The ONNX text and ONNX Runtime give different output sizes for this pair.
        raise ModelError(
            "expected ceil_mode=0 with auto_pad=VALID, got 1, which runtimes read differently; "
            "export with explicit pads"
        )
    attrs: dict[str, Attr] = {**window(node, x.shape, kernel, axes), **extra}
    dilations = attrs["dilations"]
    if mode.startswith("SAME") and dilations != (1, 1):
        # ONNX pads for the widened window, ONNX Runtime for the plain one.
        shown = list(attribute(node, "dilations", ()))
        raise ModelError(
            f"expected dilations {[1] * axes} with auto_pad={mode}, got {shown}, "
            "which runtimes read differently; export with explicit pads"
        )
    attrs["kernel"] = kernel
    # SAME_* fixes the output size by itself: there is nothing left to round.
    attrs["ceil_mode"] = int(bool(ceil_mode) and mode == "NOTSET")
    if op == "maxpool2d" and kernel[0] * kernel[1] > _MOST_WINNERS:
        x, attrs = _columns_first(ctx, node, x, attrs)
    shape = unplane(ctx.infer(op, (x,), attrs), axes)
    ctx.emit_as(node, op, (x,), attrs, shape)


def _columns_first(
    ctx: Context, node: onnx.NodeProto, x: Value, attrs: dict[str, Attr]
) -> tuple[Value, dict[str, Attr]]:
    """Pool along the rows; what is left to do along the columns.

    The winner is kept as a byte, so one pooling takes at most 255 elements. The largest of the
    rows' largest is the largest, and the first of several wins in both stages as in one.
    """
    neutral: Mapping[str, tuple[int, ...]] = {
        "kernel": (1, 1), "strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)
    }  # fmt: skip
    sides: list[dict[str, Attr]] = []
    for side in (0, 1):
        own = dict(attrs)
        for key, values in neutral.items():
            found = ints(attrs, key)
            own[key] = tuple(
                v if i % 2 == side else n
                for i, (v, n) in enumerate(zip(found, values, strict=True))
            )
        sides.append(own)
    name = f"{node.output[0]}_rows"
    return ctx.builder.emit("maxpool2d", (x,), sides[1], name, node.name or name)[0], sides[0]


def _whole(value: Value) -> tuple[int, int]:
    return value.shape[2], value.shape[3]


_PLAIN: Mapping[str, Attr] = MappingProxyType(
    {"pads": (0, 0, 0, 0), "dilations": (1, 1), "ceil_mode": 0, "count_pads": 0}
)


def _global_planes(ctx: Context, node: onnx.NodeProto) -> tuple[Value, tuple[int, ...]]:
    """The input as [N, C, H, W] (a cube's axes run together) and the output's shape."""
    x = ctx.activation(node.input[0])
    if len(x.shape) < 3:
        raise ModelError(f"expected an input [N, C, ...], got {list(x.shape)}; export it so")
    shape = (*x.shape[:2], *(1,) * (len(x.shape) - 2))
    if len(x.shape) == 4:
        return x, shape
    plane = (*x.shape[:2], 1, math.prod(x.shape[2:]))
    return ctx.builder.view(x, plane, f"{node.output[0]}_plane"), shape


def lower_global_average_pool(ctx: Context, node: onnx.NodeProto) -> None:
    """GlobalAveragePool: an average pooling whose one window is the plane."""
    x, shape = _global_planes(ctx, node)
    attrs = {**_PLAIN, "kernel": _whole(x), "strides": (1, 1)}
    ctx.emit_as(node, "avgpool2d", (x,), attrs, shape)


def lower_global_max_pool(ctx: Context, node: onnx.NodeProto) -> None:
    """GlobalMaxPool: a max pooling over the plane, in stages where the plane is large.

    The winner is kept as a byte, so a stage takes at most 255 elements: whole rows into one, or
    pieces of rows. The first of several largest wins in each stage, and so in all of them.
    """
    x, shape = _global_planes(ctx, node)
    while x.shape[2] * x.shape[3] > _MOST_WINNERS:
        kernel = (1, min(x.shape[3], _MOST_WINNERS)) if x.shape[3] > 1 else (_MOST_WINNERS, 1)
        attrs = {**_PLAIN, "kernel": kernel, "strides": kernel, "ceil_mode": 1}
        name = f"{node.output[0]}_part"
        x = ctx.builder.emit("maxpool2d", (x,), attrs, name, node.name or name)[0]
    attrs = {**_PLAIN, "kernel": _whole(x), "strides": (1, 1)}
    ctx.emit_as(node, "maxpool2d", (x,), attrs, shape)


def window(
    node: onnx.NodeProto, x_shape: tuple[int, ...], kernel: Sequence[int], axes: int
) -> dict[str, Attr]:
    """strides, pads and dilations of a window on planes; an axis the node lacks is neutral."""
    strides = _pair(node, "strides", (1,) * axes, 1, axes)
    dilations = _pair(node, "dilations", (1,) * axes, 1, axes)
    mode = attribute(node, "auto_pad", "NOTSET")
    if mode == "NOTSET":
        pads = explicit_pads(node, axes)
    elif mode == "VALID":
        pads = (0, 0, 0, 0)
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        sides = [_same(x_shape[2 + i], kernel[i], strides[i], dilations[i], mode) for i in range(2)]
        pads = (sides[0][0], sides[1][0], sides[0][1], sides[1][1])
    else:
        raise ModelError(
            f"expected auto_pad NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {mode}; "
            "export with explicit pads"
        )
    return {"strides": strides, "pads": pads, "dilations": dilations}


def _same(size: int, kernel: int, stride: int, dilation: int, mode: str) -> tuple[int, int]:
    """Padding before and after so that the output has ceil(size / stride) elements."""
    out = -(-size // stride)
    total = max(0, (out - 1) * stride + dilation * (kernel - 1) + 1 - size)
    small, large = total // 2, total - total // 2
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def explicit_pads(node: onnx.NodeProto, axes: int) -> tuple[int, int, int, int]:
    """The attribute pads as top, left, bottom, right."""
    found = tuple(attribute(node, "pads", (0,) * (2 * axes)))
    if len(found) != 2 * axes or not all(0 <= pad <= _MOST for pad in found):
        raise ModelError(
            f"expected {'four' if axes == 2 else 'two'} pads of 0..{_MOST}, got {list(found)}; "
            "crop with a smaller input instead of negative pads"
        )
    return (0, found[0], 0, found[1]) if axes == 1 else (found[0], found[1], found[2], found[3])


def _pair(
    node: onnx.NodeProto, name: str, default: tuple[int, ...], least: int, axes: int
) -> tuple[int, int]:
    """A value for rows and one for columns; 1 for the rows of a line."""
    found = tuple(attribute(node, name, default))
    if len(found) != axes or not all(least <= item <= _MOST for item in found):
        raise ModelError(
            f"expected {'two' if axes == 2 else 'one'} {name} of {least}..{_MOST}, "
            f"got {list(found)}; export the model again"
        )
    return (1, found[0]) if axes == 1 else (found[0], found[1])
