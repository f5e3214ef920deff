"""Operators that move elements."""

# ruff: noqa: ARG005 - every case is called alike

from __future__ import annotations

import numpy as np
from models import node, weights

from golden_cases.case import Case, Torch, ints, number


def _turn(*perm: int) -> Case:
    shape = (2, 3, 2, 4)[: len(perm)]
    return Case([node("Transpose", "h", "y", perm=perm)], shape, lambda t, f, h, w: h.permute(perm))


def _scale(torch: Torch, x: tuple[int, ...], scales: list[float], **attrs: str) -> Case:
    return Case([node("Resize", "h - s", "y", **attrs)], x, torch, {"s": np.float32(scales)})


_FLOOR = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}

CASES = {
    "transpose 10": _turn(1, 0),
    "transpose 0231": _turn(0, 2, 3, 1),
    "transpose 0312": _turn(0, 3, 1, 2),
    "transpose 021": _turn(0, 2, 1),
    "transpose 3210": _turn(3, 2, 1, 0),
    "reshape": Case(
        [node("Reshape", "h s", "r"), node("Neg", "r", "y")],
        (2, 3, 4),
        lambda t, f, h, w: -h.reshape(4, 6),
        {"s": ints(4, -1)},
    ),
    "concat axis 0": Case(
        [node("Concat", "h v", "y", axis=0)],
        (2, 3),
        lambda t, f, h, w: t.cat([h, w["v"]], 0),
        {"v": weights(1, 3)},
    ),
    "concat axis 1": Case(
        [node("Concat", "h v h", "y", axis=1)],
        (2, 3, 2),
        lambda t, f, h, w: t.cat([h, w["v"], h], 1),
        {"v": weights(2, 2, 2)},
    ),
    "concat axis -1 of seven": Case(
        [node("Concat", "h h v h h h v", "y", axis=-1)],
        (2, 3),
        lambda t, f, h, w: t.cat([h, h, w["v"], h, h, h, w["v"]], 1),
        {"v": weights(2, 2)},
    ),
    "split": Case(
        [node("Split", "h sizes", "a b c", axis=1), node("Concat", "c a", "y", axis=1)],
        (2, 6, 2),
        lambda t, f, h, w: t.cat([h[:, 3:], h[:, :2]], 1),
        {"sizes": ints(2, 1, 3)},
    ),
    "slice steps": Case(
        [node("Slice", "h s e a t", "y")],
        (3, 6, 4),
        lambda t, f, h, w: h[:, 1:6:2, :].flip(2)[..., :3],
        {"s": ints(1, -1), "e": ints(100, 0), "a": ints(1, -1), "t": ints(2, -1)},
    ),
    "slice by attributes": Case(
        [node("Slice", "h", "y", starts=[-3, 1], ends=[-1, 4], axes=[0, 1])],
        (4, 5),
        lambda t, f, h, w: h[-3:-1, 1:4],
        opset=9,
    ),
    "pad": Case(
        [node("Pad", "h pads v", "y")],
        (2, 2, 3, 3),
        lambda t, f, h, w: f.pad(h, (2, 1, 0, 3), value=0.5),
        {"pads": ints(0, 0, 0, 2, 0, 0, 3, 1), "v": number(0.5)},
    ),
    "pad negative": Case(
        [node("Pad", "h pads - axes", "y")],
        (2, 5, 3),
        lambda t, f, h, w: f.pad(h[:, 1:], (0, 0, 0, 2)),
        {"pads": ints(-1, 2), "axes": ints(1)},
        opset=18,
    ),
    "pad by an attribute": Case(
        [node("Pad", "h", "y", pads=[0, 1, 0, 2])],
        (2, 3),
        lambda t, f, h, w: f.pad(h, (1, 2)),
        opset=9,
    ),
    "expand": Case(
        [node("Expand", "h shape", "y")],
        (2, 1, 3, 1),
        lambda t, f, h, w: h.expand(2, 2, 5, 3, 2),
        {"shape": ints(2, 1, 5, 1, 2)},
    ),
    "gather rows": Case(
        [node("Gather", "h i", "y")],
        (4, 3),
        lambda t, f, h, w: h[[2, 0, 2, 3]],
        {"i": ints(2, 0, -2, 3)},
    ),
    "gather axis 1": Case(
        [node("Gather", "h i", "y", axis=1)],
        (2, 4, 3),
        lambda t, f, h, w: h[:, [[1, 1], [3, 0]]],
        {"i": np.asarray([[1, 1], [3, 0]], np.int64)},
    ),
    "embedding": Case(
        [node("Gather", "table x", "y")],
        np.asarray([[0, 2, 2], [4, 1, 0]], np.int64),
        lambda t, f, h, w: f.embedding(h, w["table"]),
        {"table": weights(5, 4)},
    ),
    "depth to space DCR": Case(
        [node("DepthToSpace", "h", "y", blocksize=2)],
        (1, 8, 2, 2),
        lambda t, f, h, w: (
            h.reshape(1, 2, 2, 2, 2, 2).permute(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 4)
        ),
    ),
    "depth to space CRD": Case(
        [node("DepthToSpace", "h", "y", blocksize=2, mode="CRD")],
        (1, 8, 2, 2),
        lambda t, f, h, w: f.pixel_shuffle(h, 2),
    ),
    "space to depth": Case(
        [node("SpaceToDepth", "h", "y", blocksize=2)],
        (1, 2, 4, 2),
        lambda t, f, h, w: (
            h.reshape(1, 2, 2, 2, 1, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 1)
        ),
    ),
    "resize 2": _scale(
        lambda t, f, h, w: f.interpolate(h, scale_factor=2, mode="nearest"),
        (1, 2, 3, 2),
        [1, 1, 2, 2],
        **_FLOOR,
    ),
    "resize half pixel": _scale(
        lambda t, f, h, w: h[..., [0, 0, 1, 2]][..., [0, 0, 1, 1, 2, 2], :],
        (1, 2, 3, 3),
        [1, 1, 2, 1.5],
    ),
    "resize 1-D": _scale(
        lambda t, f, h, w: f.interpolate(h, scale_factor=3, mode="nearest"),
        (2, 2, 3),
        [1, 1, 3],
        **_FLOOR,
    ),
    "upsample": Case(
        [node("Upsample", "h s", "y")],
        (1, 2, 2, 3),
        lambda t, f, h, w: f.interpolate(h, scale_factor=(2, 3), mode="nearest"),
        {"s": np.float32([1, 1, 2, 3])},
        opset=9,
    ),
}
