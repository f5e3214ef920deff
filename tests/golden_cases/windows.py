"""Convolutions and poolings."""

# ruff: noqa: ARG005 - every case is called alike

from __future__ import annotations

from typing import Any

from models import node, weights

from golden_cases.case import Case, Torch


def _conv(
    x: tuple[int, ...], w: tuple[int, ...], torch: Torch, bias: int = 1, **attrs: Any
) -> Case:
    tensors = {"w": weights(*w)} | ({"b": weights(w[0])} if bias else {})
    return Case([node("Conv", "h w b" if bias else "h w", "y", **attrs)], x, torch, tensors)


def _plain(stride: Any = 1, pad: Any = 0, dilation: Any = 1, groups: int = 1) -> Torch:
    return lambda t, f, h, w: f.conv2d(h, w["w"], w["b"], stride, pad, dilation, groups)


def _up(w: tuple[int, ...], m: int, torch: Torch, x: tuple[int, ...], **attrs: Any) -> Case:
    tensors = {"w": weights(*w), "b": weights(m)}
    return Case([node("ConvTranspose", "h w b", "y", **attrs)], x, torch, tensors)


def _upwards(stride: Any = 2, pad: Any = 0, extra: int = 0, groups: int = 1, dil: Any = 1) -> Torch:
    return lambda t, f, h, w: f.conv_transpose2d(h, w["w"], w["b"], stride, pad, extra, groups, dil)


def _pool(op: str, x: tuple[int, ...], torch: Torch, opset: int = 17, **attrs: Any) -> Case:
    return Case([node(op, "h", "y", **attrs)], x, torch, opset=opset)


CASES = {
    "conv 3x3": _conv((2, 2, 4, 4), (3, 2, 3, 3), _plain(pad=1), pads=[1, 1, 1, 1]),
    "conv 1x1": _conv((2, 3, 2, 3), (4, 3, 1, 1), _plain()),
    "conv stride, kernel not square": _conv(
        (1, 2, 6, 7), (3, 2, 3, 2), _plain((2, 3), (1, 0)), strides=[2, 3], pads=[1, 0, 1, 0]
    ),
    "conv dilated": _conv(
        (1, 2, 6, 5), (2, 2, 3, 2), _plain(dilation=(2, 1)), dilations=[2, 1]
    ),
    "conv uneven pads": _conv(
        (1, 2, 4, 4),
        (3, 2, 2, 2),
        lambda t, f, h, w: f.conv2d(f.pad(h, (0, 1, 1, 0)), w["w"], w["b"]),
        pads=[1, 0, 0, 1],
    ),
    "conv groups": _conv((1, 4, 4, 4), (6, 2, 3, 3), _plain(groups=2), group=2),
    "conv depthwise": _conv(
        (1, 3, 5, 5), (3, 1, 3, 3), _plain(2, 1, groups=3), group=3, strides=[2, 2],
        pads=[1, 1, 1, 1],
    ),
    "conv depthwise twice": _conv((1, 3, 4, 4), (6, 1, 3, 3), _plain(groups=3), group=3),
    "conv without bias": _conv(
        (2, 2, 3, 3), (3, 2, 2, 2), lambda t, f, h, w: f.conv2d(h, w["w"]), bias=0
    ),
    "conv same upper": _conv(
        (1, 2, 5, 5),
        (3, 2, 2, 2),
        lambda t, f, h, w: f.conv2d(f.pad(h, (0, 1, 0, 1)), w["w"], w["b"], 2),
        auto_pad="SAME_UPPER",
        strides=[2, 2],
    ),
    "conv same lower": _conv(
        (1, 2, 5, 5),
        (3, 2, 2, 2),
        lambda t, f, h, w: f.conv2d(f.pad(h, (1, 0, 1, 0)), w["w"], w["b"], 2),
        auto_pad="SAME_LOWER",
        strides=[2, 2],
    ),
    "conv 1-D": _conv(
        (2, 4, 9),
        (6, 2, 3),
        lambda t, f, h, w: f.conv1d(f.pad(h, (2, 1)), w["w"], w["b"], 2, 0, 2, 2),
        strides=[2],
        pads=[2, 1],
        dilations=[2],
        group=2,
    ),
    "conv and Add": Case(
        [node("Conv", "h w", "c"), node("Add", "c b", "y")],
        (2, 2, 3, 3),
        lambda t, f, h, w: f.conv2d(h, w["w"]) + w["b"],
        {"w": weights(3, 2, 2, 2), "b": weights(1, 3, 1, 1)},
    ),
    "up 3x3": _up((2, 3, 3, 3), 3, _upwards(), (1, 2, 3, 3), strides=[2, 2]),
    "up padded": _up(
        (2, 3, 3, 3), 3, _upwards(2, 1, 1), (1, 2, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1],
        output_padding=[1, 1],
    ),
    "up groups": _up(
        (4, 3, 3, 2), 6, _upwards((1, 2), groups=2, dil=(2, 1)), (1, 4, 3, 3), strides=[1, 2],
        dilations=[2, 1], group=2,
    ),
    "up output_shape": _up(
        (2, 2, 3, 3),
        2,
        lambda t, f, h, w: f.conv_transpose2d(h, w["w"], w["b"], 2)[..., 1:, 1:],
        (1, 2, 3, 3),
        strides=[2, 2],
        output_shape=[6, 6],
    ),
    "up 1-D": _up(
        (2, 3, 3),
        3,
        lambda t, f, h, w: f.conv_transpose1d(h, w["w"], w["b"], 2)[..., 1:],
        (1, 2, 4),
        strides=[2],
        pads=[1, 0],
    ),
    "max 2x2": _pool(
        "MaxPool", (1, 2, 4, 6), lambda t, f, h, w: f.max_pool2d(h, 2), kernel_shape=[2, 2],
        strides=[2, 2],
    ),
    "max padded": _pool(
        "MaxPool", (1, 2, 5, 5), lambda t, f, h, w: f.max_pool2d(h, 3, 2, 1),
        kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
    ),
    "max ceil": _pool(
        "MaxPool", (1, 2, 5, 6), lambda t, f, h, w: f.max_pool2d(h, 2, 2, ceil_mode=True),
        kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1,
    ),
    "max dilated": _pool(
        "MaxPool", (1, 2, 6, 6), lambda t, f, h, w: f.max_pool2d(h, 2, 1, dilation=2),
        kernel_shape=[2, 2], dilations=[2, 2],
    ),
    "max 1-D": _pool(
        "MaxPool", (2, 2, 7), lambda t, f, h, w: f.max_pool1d(h, 3, 2, 1), kernel_shape=[3],
        strides=[2], pads=[1, 1],
    ),
    "max behind relu": Case(
        [node("Relu", "h", "r"), node("MaxPool", "r", "y", kernel_shape=[2, 2], strides=[2, 2])],
        (1, 2, 4, 4),
        lambda t, f, h, w: f.max_pool2d(h.relu(), 2),
    ),
    "average 2x2": _pool(
        "AveragePool", (1, 2, 4, 4), lambda t, f, h, w: f.avg_pool2d(h, 2),
        kernel_shape=[2, 2], strides=[2, 2],
    ),
    "average padded": _pool(
        "AveragePool", (1, 2, 5, 4),
        lambda t, f, h, w: f.avg_pool2d(h, 3, 2, 1, count_include_pad=False),
        kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
    ),
    "average padding counted": _pool(
        "AveragePool", (1, 2, 5, 4), lambda t, f, h, w: f.avg_pool2d(h, (3, 2), (2, 1), 1),
        kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 1, 1], count_include_pad=1,
    ),
    "average ceil": _pool(
        "AveragePool", (1, 2, 6, 6),
        lambda t, f, h, w: f.avg_pool2d(h, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1,
    ),
    "average dilated": _pool(
        "AveragePool", (1, 2, 4, 5),
        lambda t, f, h, w: (
            h[..., :-2, :-2] + h[..., 2:, :-2] + h[..., :-2, 2:] + h[..., 2:, 2:]
        ) / 4,
        19, kernel_shape=[2, 2], dilations=[2, 2],
    ),
    "average 1-D": _pool(
        "AveragePool", (2, 2, 7),
        lambda t, f, h, w: f.avg_pool1d(h, 3, 2, 1, count_include_pad=False),
        kernel_shape=[3], strides=[2], pads=[1, 1],
    ),
    "global average": _pool(
        "GlobalAveragePool", (2, 3, 3, 4), lambda t, f, h, w: h.mean((2, 3), keepdim=True)
    ),
    "global max": _pool(
        "GlobalMaxPool", (2, 3, 3, 4), lambda t, f, h, w: h.amax((2, 3), keepdim=True)
    ),
}  # fmt: skip
