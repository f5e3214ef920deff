"""Layout and products, forward and backward, in numpy and in C against PyTorch and ONNX Runtime."""

# ruff: noqa: ARG005 - every case is called alike

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from layers import Layer, check
from models import node, weights
from torch.nn import functional as F  # noqa: N812 - its usual name

w0 = weights


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, np.int64)


def resized(scale):
    return lambda h, w: F.interpolate(h, scale_factor=scale, mode="nearest")


LAYOUT = {
    "transpose": Layer(
        [node("Transpose", "h", "y", perm=[0, 2, 3, 1])],
        (2, 3, 4, 5),
        lambda h, w: h.permute(0, 2, 3, 1),
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
        [node("Upsample", "h s", "y")],
        (2, 3, 2, 3),
        resized((2, 3)),
        {"s": np.float32([1, 1, 2, 3])},
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
