"""Conv and MaxPool: windows, strides and every way ONNX has to say padding."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Context, Pending, attribute
from poet_mcu.ir.graph import Attr

# The C runtime keeps geometry in int32; a window attribute above this is damage, not a model.
_MOST = 32767


def lower_conv(ctx: Context, node: onnx.NodeProto) -> None:
    """Conv with 2-D kernels to conv2d; a bias may come from an Add behind it."""
    x = ctx.activation(node.input[0])
    w_tensor = ctx.tensor(node.input[1], "the kernel")
    _need_2d("Conv", x.shape)
    if w_tensor.array.ndim != 4:
        raise ModelError(f"expected a kernel of 4 dimensions, got {list(w_tensor.array.shape)}")
    kernel = w_tensor.array.shape[2:]
    stated = attribute(node, "kernel_shape", kernel)
    if tuple(stated) != kernel:
        raise ModelError(
            f"expected kernel_shape {list(kernel)} as in '{node.input[1]}', got {list(stated)}; "
            "export the model again"
        )
    group = attribute(node, "group", 1)
    if not 1 <= group <= _MOST:
        raise ModelError(f"expected group 1..{_MOST}, got {group}; export the model again")
    attrs = {**_window(node, x.shape, kernel), "group": group}
    w = ctx.weight(node.input[1], w_tensor)
    channels = w.shape[0]
    if len(node.input) > 2 and node.input[2]:
        b_tensor = ctx.tensor(node.input[2], "the bias")
        ctx.emit(node, "conv2d", (x, w, ctx.weight(node.input[2], b_tensor)), attrs)
        return
    if not ctx.waits_for_bias(node):
        ctx.emit(node, "conv2d", (x, w), attrs)
        return
    name = node.output[0]
    shape = ctx.infer("conv2d", (x, w), attrs)
    ctx.env[name] = Pending("conv2d", (x, w), attrs, channels, shape, name, node.name or name)


def lower_max_pool(ctx: Context, node: onnx.NodeProto) -> None:
    """MaxPool with 2-D windows and without Indices to maxpool2d."""
    if len(node.output) > 1 and node.output[1]:
        raise ModelError(
            f"expected MaxPool with one output, got Indices '{node.output[1]}'; "
            "export without return_indices"
        )
    x = ctx.activation(node.input[0])
    _need_2d("MaxPool", x.shape)
    kernel = _pair(node, "kernel_shape", (), 1)
    ceil_mode = attribute(node, "ceil_mode", 0)
    mode = attribute(node, "auto_pad", "NOTSET")
    if ceil_mode and mode == "VALID":
        # The ONNX text and ONNX Runtime give different output sizes for this pair.
        raise ModelError(
            "expected ceil_mode=0 with auto_pad=VALID, got 1, which runtimes read differently; "
            "export with explicit pads"
        )
    attrs: dict[str, Attr] = dict(_window(node, x.shape, kernel))
    dilations = _pair(node, "dilations", (1, 1), 1)
    if mode.startswith("SAME") and dilations != (1, 1):
        # ONNX pads for the widened window, ONNX Runtime for the plain one.
        raise ModelError(
            f"expected dilations [1, 1] with auto_pad={mode}, got {list(dilations)}, "
            "which runtimes read differently; export with explicit pads"
        )
    attrs["kernel"] = kernel
    # SAME_* fixes the output size by itself: there is nothing left to round.
    attrs["ceil_mode"] = int(bool(ceil_mode) and mode == "NOTSET")
    ctx.emit(node, "maxpool2d", (x,), attrs)


def _need_2d(op: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 4:
        raise ModelError(
            f"expected 2-D {op} on [N, C, H, W], got an input of shape {list(shape)}; "
            "reshape to 4 dimensions before export"
        )


def _window(
    node: onnx.NodeProto, x_shape: tuple[int, ...], kernel: Sequence[int]
) -> dict[str, Attr]:
    strides = _pair(node, "strides", (1, 1), 1)
    dilations = _pair(node, "dilations", (1, 1), 1)
    mode = attribute(node, "auto_pad", "NOTSET")
    if mode == "NOTSET":
        pads = _pads(node)
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


def _pads(node: onnx.NodeProto) -> tuple[int, int, int, int]:
    found = tuple(attribute(node, "pads", (0, 0, 0, 0)))
    if len(found) != 4 or not all(0 <= pad <= _MOST for pad in found):
        raise ModelError(
            f"expected four pads of 0..{_MOST}, got {list(found)}; "
            "crop with a smaller input instead of negative pads"
        )
    return found[0], found[1], found[2], found[3]


def _pair(node: onnx.NodeProto, name: str, default: tuple[int, ...], least: int) -> tuple[int, int]:
    found = tuple(attribute(node, name, default))
    if len(found) != 2 or not all(least <= item <= _MOST for item in found):
        raise ModelError(
            f"expected two {name} of {least}..{_MOST}, got {list(found)}; export the model again"
        )
    return found[0], found[1]
