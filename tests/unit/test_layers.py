"""Each operator, forward and backward, in numpy and in C against PyTorch and ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import pytest
import torch
from layers import Layer, check
from models import node, weights
from torch.nn import functional as F  # noqa: N812 - its usual name

w0 = weights


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, np.int64)


def avg(x, **attrs):
    return [node("AveragePool", "h", "y", **attrs)]


POOLS = {
    "average": Layer(
        avg(0, kernel_shape=[2, 2], strides=[2, 2]), (2, 3, 6, 5), lambda h, w: F.avg_pool2d(h, 2)
    ),
    "average padded": Layer(
        avg(0, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        (2, 3, 7, 6),
        lambda h, w: F.avg_pool2d(h, 3, 2, 1, count_include_pad=False),
    ),
    "average padding counted": Layer(
        avg(0, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 1, 1], count_include_pad=1),
        (2, 3, 7, 6),
        lambda h, w: F.avg_pool2d(h, (3, 2), (2, 1), 1),
    ),
    "average ceil": Layer(
        avg(0, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1),
        (2, 3, 6, 6),
        lambda h, w: F.avg_pool2d(h, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    ),
    "average ceil counted": Layer(
        avg(
            0, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1,
            count_include_pad=1,
        ),
        (2, 3, 6, 6),
        lambda h, w: F.avg_pool2d(h, 3, 2, 1, ceil_mode=True),
    ),
    "average same upper": Layer(
        avg(0, kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
        (1, 2, 4, 4),
        lambda h, w: F.avg_pool2d(F.pad(h, (0, 1, 0, 1)), 2, 1)
        / F.avg_pool2d(F.pad(torch.ones_like(h), (0, 1, 0, 1)), 2, 1),
    ),
    "average dilated": Layer(
        avg(0, kernel_shape=[2, 2], dilations=[2, 2]),
        (1, 2, 6, 6),
        lambda h, w: (
            h[..., :-2, :-2] + h[..., 2:, :-2] + h[..., :-2, 2:] + h[..., 2:, 2:]
        ) / 4,
        opset=19,
    ),
    "average 1-D": Layer(
        avg(0, kernel_shape=[3], strides=[2], pads=[1, 1]),
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
    return lambda h, w: F.conv_transpose2d(
        h, w["w"], w["b"], stride, pads, extra, groups, dilation
    )


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


def resized(scale):
    return lambda h, w: F.interpolate(h, scale_factor=scale, mode="nearest")


LAYOUT = {
    "transpose": Layer(
        [node("Transpose", "h", "y", perm=[0, 2, 3, 1])], (2, 3, 4, 5), lambda h, w: h.permute(0, 2, 3, 1)
    ),
    "transpose 5-D": Layer(
        [node("Transpose", "h", "y", perm=[4, 1, 3, 0, 2])],
        (2, 3, 2, 2, 3),
        lambda h, w: h.permute(4, 1, 3, 0, 2),
    ),
    "concat": Layer(
        [node("Concat", "h v h", "y", axis=1)],
        (2, 3, 4),
        lambda h, w: torch.cat([h, w["v"], h], 1),
        {"v": w0(2, 2, 4)},
    ),
    "concat of many": Layer(
        [node("Concat", "h h v h h h v", "y", axis=-1)],
        (2, 3),
        lambda h, w: torch.cat([h, h, w["v"], h, h, h, w["v"]], 1),
        {"v": w0(2, 2)},
    ),
    "split": Layer(
        [
            node("Split", "h sizes", "a b c", axis=1),
            node("Concat", "c a", "y", axis=1),
        ],
        (2, 6, 3),
        lambda h, w: torch.cat([h[:, 3:], h[:, :2]], 1),
        {"sizes": ints(2, 1, 3)},
    ),
    "split by an attribute": Layer(
        [node("Split", "h", "a b", axis=0, split=[1, 3]), node("Concat", "b a", "y", axis=0)],
        (4, 3),
        lambda h, w: torch.cat([h[1:], h[:1]], 0),
        opset=11,
    ),
    "split in equal parts": Layer(
        [node("Split", "h", "a b", axis=1, num_outputs=2), node("Concat", "b a", "y", axis=1)],
        (2, 5),
        lambda h, w: torch.cat([h[:, 3:], h[:, :3]], 1),
        opset=18,
    ),
    "slice": Layer(
        [node("Slice", "h s e a t", "y")],
        (4, 6, 5),
        lambda h, w: h[:, 1:6:2, :].flip(2)[..., :4],
        {"s": ints(1, -1), "e": ints(100, 0), "a": ints(1, -1), "t": ints(2, -1)},
    ),
    "slice by attributes": Layer(
        [node("Slice", "h", "y", starts=[-3, 1], ends=[-1, 4], axes=[0, 1])],
        (5, 6),
        lambda h, w: h[-3:-1, 1:4],
        opset=9,
    ),
    "pad": Layer(
        [node("Pad", "h pads v", "y")],
        (2, 3, 4, 4),
        lambda h, w: F.pad(h, (2, 1, 0, 3), value=0.5),
        {"pads": ints(0, 0, 0, 2, 0, 0, 3, 1), "v": np.float32(0.5)},
    ),
    "pad by an attribute": Layer(
        [node("Pad", "h", "y", pads=[0, 1, 0, 2])], (2, 3), lambda h, w: F.pad(h, (1, 2)), opset=9
    ),
    "pad along an axis, negative": Layer(
        [node("Pad", "h pads - axes", "y")],
        (2, 5, 3),
        lambda h, w: F.pad(h[:, 1:], (0, 0, 0, 2)),
        {"pads": ints(-1, 2), "axes": ints(1)},
        opset=18,
    ),
    "expand": Layer(
        [node("Expand", "h shape", "y")],
        (2, 1, 3, 1),
        lambda h, w: h.expand(4, 2, 5, 3, 2),
        {"shape": ints(4, 1, 5, 1, 2)},
    ),
    "depth to space": Layer(
        [node("DepthToSpace", "h", "y", blocksize=2, mode="CRD")],
        (2, 8, 2, 3),
        lambda h, w: F.pixel_shuffle(h, 2),
    ),
    "depth to space DCR": Layer(
        [node("DepthToSpace", "h", "y", blocksize=2)],
        (2, 8, 2, 3),
        lambda h, w: h.reshape(2, 2, 2, 2, 2, 3).permute(0, 3, 4, 1, 5, 2).reshape(2, 2, 4, 6),
    ),
    "space to depth": Layer(
        [node("SpaceToDepth", "h", "y", blocksize=2)],
        (2, 3, 4, 6),
        lambda h, w: h.reshape(2, 3, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(2, 12, 2, 3),
    ),
    "resize": Layer(
        [
            node(
                "Resize", "h - s", "y", mode="nearest", nearest_mode="floor",
                coordinate_transformation_mode="asymmetric",
            )
        ],
        (2, 3, 4, 5),
        resized(2),
        {"s": np.float32([1, 1, 2, 2])},
    ),
    "resize to a size": Layer(
        [node("Resize", "h - - s", "y")],
        (1, 2, 4, 5),
        lambda h, w: h[:, :, [0, 0, 1, 2, 2, 3]][..., [0, 2, 4]],
        {"s": ints(1, 2, 6, 3)},
    ),
    "upsample": Layer(
        [node("Upsample", "h s", "y")], (2, 3, 2, 3), resized((2, 3)), {"s": np.float32([1, 1, 2, 3])},
        opset=9,
    ),
    "resize 1-D": Layer(
        [node("Resize", "h - s", "y", coordinate_transformation_mode="asymmetric",
              nearest_mode="floor")],
        (2, 3, 4),
        resized(3),
        {"s": np.float32([1, 1, 3])},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LAYOUT)
def test_layout(case: str, tmp_path: Path) -> None:
    check(LAYOUT[case], tmp_path)


def mm(*nodes):
    return list(nodes) or [node("MatMul", "h v", "y")]


PRODUCTS = {
    "stack of weights": Layer(mm(), (2, 3, 4), lambda h, w: h @ w["v"], {"v": w0(2, 4, 5)}),
    "broadcast left": Layer(mm(), (3, 4), lambda h, w: h @ w["v"], {"v": w0(2, 4, 5)}),
    "broadcast both": Layer(
        mm(), (2, 1, 3, 4), lambda h, w: h @ w["v"], {"v": w0(3, 4, 5)}
    ),
    "one matrix of three axes": Layer(
        mm(), (2, 3, 4), lambda h, w: h @ w["v"], {"v": w0(1, 4, 5)}
    ),
    "weight on the left": Layer(
        mm(node("MatMul", "v h", "y")), (2, 4, 3), lambda h, w: w["v"] @ h, {"v": w0(5, 4)}
    ),
    "vector": Layer(mm(), (2, 3, 4), lambda h, w: h @ w["v"], {"v": w0(4)}),
    "vector on the left": Layer(
        mm(node("MatMul", "v h", "y")), (2, 4, 3), lambda h, w: w["v"] @ h, {"v": w0(4)}
    ),
    "both computed": Layer(
        mm(node("Transpose", "h", "t", perm=[0, 2, 1]), node("MatMul", "h t", "y")),
        (2, 3, 4),
        lambda h, w: h @ h.transpose(1, 2),
    ),
    "rows by a computed matrix": Layer(
        mm(
            node("MatMul", "a b", "m"),
            node("MatMul", "h m", "y"),
        ),
        (2, 3, 4),
        lambda h, w: h @ (w["a"] @ w["b"]),
        {"a": w0(4, 5), "b": w0(5, 6)},
    ),
    "gemm transA": Layer(
        mm(node("Gemm", "h v c", "y", transA=1, transB=1)),
        (4, 3),
        lambda h, w: h.T @ w["v"].T + w["c"],
        {"v": w0(5, 4), "c": w0(5)},
    ),
    "gemm of two computed": Layer(
        mm(node("Relu", "h", "r"), node("Gemm", "h r c", "y", transB=1)),
        (4, 3),
        lambda h, w: h @ h.relu().T + w["c"],
        {"c": w0(4)},
    ),
    "gemm of two computed, turned": Layer(
        mm(node("Relu", "h", "r"), node("Gemm", "h r c", "y", transA=1)),
        (4, 3),
        lambda h, w: h.T @ h.relu() + w["c"],
        {"c": w0(3, 1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PRODUCTS)
def test_products(case: str, tmp_path: Path) -> None:
    check(PRODUCTS[case], tmp_path)
