"""Each operator, forward and backward, in numpy and in C against PyTorch and ONNX Runtime."""

# ruff: noqa: ARG005 - every case is called alike

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from layers import Layer, check
from models import node, weights
from torch.nn import functional as F  # noqa: N812 - its usual name

w0 = weights


def avg(**attrs):
    return [node("AveragePool", "h", "y", **attrs)]


POOLS = {
    "average": Layer(
        avg(kernel_shape=[2, 2], strides=[2, 2]), (2, 3, 6, 5), lambda h, w: F.avg_pool2d(h, 2)
    ),
    "average padded": Layer(
        avg(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        (2, 3, 7, 6),
        lambda h, w: F.avg_pool2d(h, 3, 2, 1, count_include_pad=False),
    ),
    "average padding counted": Layer(
        avg(kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 1, 1], count_include_pad=1),
        (2, 3, 7, 6),
        lambda h, w: F.avg_pool2d(h, (3, 2), (2, 1), 1),
    ),
    "average ceil": Layer(
        avg(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1),
        (2, 3, 6, 6),
        lambda h, w: F.avg_pool2d(h, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    ),
    "average ceil counted": Layer(
        avg(
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[1, 1, 1, 1],
            ceil_mode=1,
            count_include_pad=1,
        ),
        (2, 3, 6, 6),
        lambda h, w: F.avg_pool2d(h, 3, 2, 1, ceil_mode=True),
    ),
    "average same upper": Layer(
        avg(kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
        (1, 2, 4, 4),
        lambda h, w: (
            F.avg_pool2d(F.pad(h, (0, 1, 0, 1)), 2, 1)
            / F.avg_pool2d(F.pad(torch.ones_like(h), (0, 1, 0, 1)), 2, 1)
        ),
    ),
    "average dilated": Layer(
        avg(kernel_shape=[2, 2], dilations=[2, 2]),
        (1, 2, 6, 6),
        lambda h, w: (h[..., :-2, :-2] + h[..., 2:, :-2] + h[..., :-2, 2:] + h[..., 2:, 2:]) / 4,
        opset=19,
    ),
    "average 1-D": Layer(
        avg(kernel_shape=[3], strides=[2], pads=[1, 1]),
        (2, 3, 9),
        lambda h, w: F.avg_pool1d(h, 3, 2, 1, count_include_pad=False),
    ),
    "global average": Layer(
        [node("GlobalAveragePool", "h", "y")],
        (2, 3, 5, 4),
        lambda h, w: h.mean((2, 3), keepdim=True),
    ),
    "global average 1-D": Layer(
        [node("GlobalAveragePool", "h", "y")], (2, 3, 7), lambda h, w: h.mean(2, keepdim=True)
    ),
    "global max": Layer(
        [node("GlobalMaxPool", "h", "y")],
        (2, 3, 5, 4),
        lambda h, w: h.amax((2, 3), keepdim=True),
    ),
    "global max of a large plane": Layer(
        [node("GlobalMaxPool", "h", "y")],
        (1, 2, 20, 300),
        lambda h, w: F.adaptive_max_pool2d(h, 1),
    ),
    "max 1-D": Layer(
        [node("MaxPool", "h", "y", kernel_shape=[3], strides=[2], pads=[1, 1])],
        (2, 3, 9),
        lambda h, w: F.max_pool1d(h, 3, 2, 1),
    ),
    "conv 1-D": Layer(
        [node("Conv", "h w b", "y", strides=[2], pads=[2, 1], dilations=[2], group=2)],
        (2, 4, 11),
        lambda h, w: F.conv1d(F.pad(h, (2, 1)), w["w"], w["b"], 2, 0, 2, 2),
        {"w": w0(6, 2, 3), "b": w0(6)},
    ),
    "conv 1-D and Add": Layer(
        [node("Conv", "h w", "c"), node("Add", "c b", "y")],
        (2, 4, 6),
        lambda h, w: F.conv1d(h, w["w"]) + w["b"],
        {"w": w0(5, 4, 3), "b": w0(1, 5, 1)},
    ),
    "conv 1-D same": Layer(
        [node("Conv", "h w", "y", auto_pad="SAME_LOWER")],
        (2, 4, 6),
        lambda h, w: F.conv1d(F.pad(h, (1, 0)), w["w"]),
        {"w": w0(5, 4, 2)},
    ),
}


@pytest.mark.parametrize("case", POOLS)
def test_windows(case: str, tmp_path: Path) -> None:
    check(POOLS[case], tmp_path)


def up(**attrs):
    return [node("ConvTranspose", "h w b", "y", **attrs)]


def transposed(pads=0, extra=0, stride=2, groups=1, dilation=1):
    return lambda h, w: F.conv_transpose2d(h, w["w"], w["b"], stride, pads, extra, groups, dilation)


UP = {
    "plain": Layer(
        up(strides=[2, 2]), (2, 3, 4, 5), transposed(), {"w": w0(3, 4, 3, 3), "b": w0(4)}
    ),
    "padded": Layer(
        up(strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
        (2, 3, 4, 5),
        transposed(1, 1),
        {"w": w0(3, 4, 3, 3), "b": w0(4)},
    ),
    "groups": Layer(
        up(strides=[1, 2], group=2, dilations=[2, 1]),
        (2, 4, 4, 5),
        transposed(stride=(1, 2), groups=2, dilation=(2, 1)),
        {"w": w0(4, 3, 3, 2), "b": w0(6)},
    ),
    "without bias": Layer(
        [node("ConvTranspose", "h w", "y", strides=[3, 2])],
        (1, 3, 3, 4),
        lambda h, w: F.conv_transpose2d(h, w["w"], None, (3, 2)),
        {"w": w0(3, 2, 3, 2)},
    ),
    "output_shape": Layer(
        up(strides=[2, 2], output_shape=[8, 10]),
        (2, 3, 4, 5),
        lambda h, w: F.conv_transpose2d(h, w["w"], w["b"], 2)[..., :8, :10],
        {"w": w0(3, 4, 2, 2), "b": w0(4)},
    ),
    "same upper": Layer(
        up(strides=[2, 2], auto_pad="SAME_UPPER"),
        (2, 3, 4, 5),
        lambda h, w: F.conv_transpose2d(h, w["w"], w["b"], 2)[..., :8, :10],
        {"w": w0(3, 4, 3, 3), "b": w0(4)},
    ),
    "same lower": Layer(
        up(strides=[2, 2], auto_pad="SAME_LOWER"),
        (2, 3, 4, 5),
        lambda h, w: F.conv_transpose2d(h, w["w"], w["b"], 2)[..., 1:, 1:],
        {"w": w0(3, 4, 3, 3), "b": w0(4)},
    ),
    "1-D": Layer(
        up(strides=[2], pads=[1, 0]),
        (2, 3, 6),
        lambda h, w: F.conv_transpose1d(h, w["w"], w["b"], 2)[..., 1:],
        {"w": w0(3, 4, 3), "b": w0(4)},
    ),
}


@pytest.mark.parametrize("case", UP)
def test_transposed_convolution(case: str, tmp_path: Path) -> None:
    check(UP[case], tmp_path)


def norm(op, inputs="h s b", **attrs):
    return [node(op, inputs, "y", **attrs)]


NORMS = {
    "layer": Layer(
        norm("LayerNormalization"),
        (3, 4, 6),
        lambda h, w: F.layer_norm(h, (6,), w["s"], w["b"]),
        {"s": w0(6, seed=1), "b": w0(6, seed=2)},
    ),
    "layer over two axes": Layer(
        norm("LayerNormalization", axis=1, epsilon=0.01),
        (3, 4, 6),
        lambda h, w: F.layer_norm(h, (4, 6), w["s"], w["b"], 0.01),
        {"s": w0(4, 6, seed=1), "b": w0(4, 6, seed=2)},
    ),
    "layer without bias": Layer(
        norm("LayerNormalization", "h s"),
        (5, 6),
        lambda h, w: F.layer_norm(h, (6,), w["s"]),
        {"s": w0(6, seed=1)},
    ),
    "instance": Layer(
        norm("InstanceNormalization", epsilon=1e-3),
        (2, 3, 4, 5),
        lambda h, w: F.instance_norm(h, None, None, w["s"], w["b"], eps=1e-3),
        {"s": w0(3, seed=1), "b": w0(3, seed=2)},
    ),
    "instance 1-D": Layer(
        norm("InstanceNormalization"),
        (2, 3, 7),
        lambda h, w: F.instance_norm(h, None, None, w["s"], w["b"]),
        {"s": w0(3, seed=1), "b": w0(3, seed=2)},
    ),
    "group": Layer(
        norm("GroupNormalization", num_groups=3),
        (2, 6, 3, 4),
        lambda h, w: F.group_norm(h, 3, w["s"], w["b"]),
        {"s": w0(6, seed=1), "b": w0(6, seed=2)},
        opset=21,
    ),
}


@pytest.mark.parametrize("case", NORMS)
def test_row_normalization(case: str, tmp_path: Path) -> None:
    check(NORMS[case], tmp_path)
