"""ConvTranspose: every way ONNX has to say the output's size."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Context, attribute
from poet_mcu.frontend.lower_elementwise import part
from poet_mcu.frontend.lower_window import (
    explicit_pads,
    flat_kernel,
    group_of,
    planes,
    unplane,
    window,
)
from poet_mcu.ir.graph import Attr, Value
from poet_mcu.ops.operator import ints


def lower_conv_transpose(ctx: Context, node: onnx.NodeProto) -> None:
    """ConvTranspose with 1-D or 2-D kernels to conv_transpose2d, and channel_add for a bias."""
    x, axes = planes(ctx, node)
    w = flat_kernel(ctx, node, axes)
    kernel = (w.shape[2], w.shape[3])
    group = group_of(node)
    attrs = _geometry(node, x.shape, kernel, axes)
    size = ints(attrs, "y_shape")
    beyond = [size[i] - min(size[i], reach) for i, reach in enumerate(_reach(x, kernel, attrs))]
    inner = (x.shape[0], w.shape[1] * group, size[0] - beyond[0], size[1] - beyond[1])
    attrs |= {"y_shape": inner, "group": group}
    value = ctx.emit(node, "conv_transpose2d", (x, w), attrs)
    if any(beyond):
        value = _placed(ctx, node, value, (*inner[:2], *size))
    if len(node.input) > 2 and node.input[2]:
        bias = ctx.operand(node.input[2])
        value = ctx.emit(node, "channel_add", (value, bias), {})
    ctx.show(node, value, unplane(value.shape, axes))


def _reach(x: Value, kernel: tuple[int, int], attrs: Mapping[str, Attr]) -> tuple[int, int]:
    """Positions after the leading padding that a stride leads back from, rows and columns.

    Those that output_shape asks for behind them see no input.
    """
    strides, dilations, pads = (ints(attrs, key) for key in ("strides", "dilations", "pads"))
    rows, columns = (
        strides[i] * x.shape[2 + i] + (kernel[i] - 1) * dilations[i] - pads[i] - pads[2 + i]
        for i in range(2)
    )
    return rows, columns


def _placed(ctx: Context, node: onnx.NodeProto, value: Value, shape: tuple[int, ...]) -> Value:
    attrs: dict[str, Attr] = {
        "shape": shape, "starts": (0, 0, 0, 0), "steps": (1, 1, 1, 1), "value": 0.0
    }  # fmt: skip
    return part(ctx, node, "place", (value,), "placed", attrs)


def _geometry(
    node: onnx.NodeProto, x: tuple[int, ...], kernel: tuple[int, int], axes: int
) -> dict[str, Attr]:
    """strides, dilations, pads, and the output's rows and columns as ``y_shape``."""
    mode = attribute(node, "auto_pad", "NOTSET")
    # The padding of auto_pad belongs to a convolution; here it follows from the output's size.
    attrs = window(node, x, kernel, axes)
    strides, dilations = ints(attrs, "strides"), ints(attrs, "dilations")
    extra = _more(node, "output_padding", axes, 0)
    full = [
        strides[i] * (x[2 + i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
        for i in range(2)
    ]
    if attribute(node, "output_shape", ()):
        size = list(_more(node, "output_shape", axes, 1))
    elif mode.startswith("SAME"):
        size = [x[2 + i] * strides[i] for i in range(2)]
    else:
        pads = (0, 0, 0, 0) if mode == "VALID" else explicit_pads(node, axes)
        size = [full[i] - pads[i] - pads[2 + i] for i in range(2)]
        return {**attrs, "pads": pads, "y_shape": tuple(size)}
    begins, ends = [], []
    for i in range(2):
        begin, end = _split(full[i] - size[i], mode)
        begins.append(begin)
        ends.append(end)
    return {**attrs, "pads": (*begins, *ends), "y_shape": tuple(size)}


def _split(total: int, mode: str) -> tuple[int, int]:
    """Padding before and after that cuts ``total`` positions off (ONNX, ConvTranspose-11).

    A larger output than the kernels fill ends in positions that see no input.
    """
    total = max(0, total)
    small, large = total // 2, total - total // 2
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def _more(node: onnx.NodeProto, name: str, axes: int, neutral: int) -> tuple[int, int]:
    found = tuple(attribute(node, name, (0,) * axes))
    if len(found) != axes or any(item < 0 for item in found):
        raise ModelError(
            f"expected {'two' if axes == 2 else 'one'} {name} of 0 or more, got {list(found)}; "
            "export the model again"
        )
    return (neutral, found[0]) if axes == 1 else (found[0], found[1])
