"""Attributes in all their forms: Gemm, padding modes, interpolation, masks, rare windows."""

# ruff: noqa: ARG005 - every case is called alike

from __future__ import annotations

from typing import Any

import numpy as np
from models import node, weights

from golden_cases.case import Array, Case, Torch, ints

_INF = np.float32(-np.inf)
_GEMM_C = {
    "no C": None, "C []": (), "C [1]": (1,), "C [1,1]": (1, 1), "C [N]": (5,), "C [1,N]": (1, 5),
    "C [M,1]": (3, 1), "C [M,N]": (3, 5),
}  # fmt: skip


def _gemm(c: tuple[int, ...] | None, trans_a: int, trans_b: int, alpha: float, beta: float) -> Case:
    tensors = {"v": weights(*((5, 4) if trans_b else (4, 5)))}
    if c is not None:
        tensors["c"] = weights(*c, seed=3)

    def torch(t: Any, f: Any, h: Any, w: Any) -> Any:
        product = (h.T if trans_a else h) @ (w["v"].T if trans_b else w["v"])
        return alpha * product + (beta * w["c"] if c is not None else 0)

    attrs = {"alpha": alpha, "beta": beta, "transA": trans_a, "transB": trans_b}
    names = "h v" if c is None else "h v c"
    return Case([node("Gemm", names, "y", **attrs)], (4, 3) if trans_a else (3, 4), torch, tensors)


def _pad(x: tuple[int, ...], pads: Array, mode: str, torch: Torch, opset: int = 19) -> Case:
    nodes = [node("Pad", "h pads", "y", mode=mode)]
    return Case(nodes, x, torch, {"pads": pads}, opset=opset)


def _resize(x: tuple[int, ...], sizes: tuple[int, ...], torch: Torch, **attrs: Any) -> Case:
    nodes = [node("Resize", "h - - sizes", "y", **attrs)]
    return Case(nodes, x, torch, {"sizes": ints(*x[:2], *sizes)}, opset=19)


def _to(sizes: tuple[int, ...], mode: str, **options: Any) -> Torch:
    return lambda t, f, h, w: f.interpolate(h, sizes, mode=mode, **options)


def _einsum(equation: str, x: tuple[int, ...], *v: tuple[int, ...]) -> Case:
    tensors = {"v": weights(*v[0])} if v else {}
    return Case(
        [node("Einsum", "h v" if v else "h", "y", equation=equation)],
        x,
        lambda t, f, h, w: t.einsum(equation, h, *([w["v"]] if v else [])),
        tensors,
    )


def _cum_sum(torch: Torch, axis: int, **attrs: int) -> Case:
    nodes = [node("CumSum", "h axis", "y", **attrs)]
    return Case(nodes, (3, 4, 2), torch, {"axis": np.asarray(axis, np.int64)})


_CORNERS = {"coordinate_transformation_mode": "align_corners"}
_CAUSAL = np.triu(np.full((4, 4), _INF), 1)

CASES = {
    **{
        f"gemm {name}, transA {a}, transB {b}, alpha {alpha}": _gemm(shape, a, b, alpha, beta)
        for name, shape in _GEMM_C.items()
        for a, b, alpha, beta in ((0, 0, 1.0, 1.0), (0, 1, 0.5, 2.0), (1, 0, 0.5, 2.0))
    },
    "pad reflect": _pad(
        (1, 2, 4, 5), ints(0, 0, 2, 1, 0, 0, 3, 4), "reflect",
        lambda t, f, h, w: f.pad(h, (1, 4, 2, 3), mode="reflect"),
    ),
    "pad edge": _pad(
        (1, 2, 3, 2), ints(0, 0, 2, 1, 0, 0, 0, 4), "edge",
        lambda t, f, h, w: f.pad(h, (1, 4, 2, 0), mode="replicate"),
    ),
    "pad wrap": _pad(
        (1, 2, 3, 4), ints(0, 0, 2, 1, 0, 0, 3, 4), "wrap",
        lambda t, f, h, w: f.pad(h, (1, 4, 2, 3), mode="circular"),
    ),
    "pad reflect 1-D": _pad(
        (2, 2, 4), ints(0, 0, 3, 0, 0, 2), "reflect",
        lambda t, f, h, w: f.pad(h, (3, 2), mode="reflect"), 13,
    ),
    "pad edge of rows and channels": _pad(
        (2, 3, 2), ints(1, 2, 0, 0, 1, 0), "edge",
        lambda t, f, h, w: h[[0, 0, 1]][:, [0, 0, 0, 1, 2, 2]], 11,
    ),
    "pad reflect, negative": _pad(
        (2, 5), ints(0, -1, 0, 2), "reflect", lambda t, f, h, w: h[:, [1, 2, 3, 4, 3, 2]]
    ),
    "linear": _resize((1, 2, 3, 4), (5, 7), _to((5, 7), "bilinear"), mode="linear"),
    "linear, smaller": _resize((1, 2, 6, 5), (3, 2), _to((3, 2), "bilinear"), mode="linear"),
    "linear, corners": _resize(
        (1, 2, 3, 4), (6, 5), _to((6, 5), "bilinear", align_corners=True), mode="linear", **_CORNERS
    ),
    "linear 1-D": _resize((2, 2, 4), (7,), _to((7,), "linear"), mode="linear"),
    "linear 3-D": _resize((1, 2, 2, 3, 2), (3, 3, 4), _to((3, 3, 4), "trilinear"), mode="linear"),
    "cubic": _resize((1, 2, 4, 5), (7, 6), _to((7, 6), "bicubic"), mode="cubic"),
    "cubic, corners": _resize(
        (1, 1, 4, 5), (6, 9), _to((6, 9), "bicubic", align_corners=True), mode="cubic", **_CORNERS
    ),
    "linear, antialias": _resize(
        (1, 2, 7, 8), (3, 4), _to((3, 4), "bilinear", antialias=True), mode="linear", antialias=1,
        exclude_outside=1,
    ),
    "cubic, antialias": _resize(
        (1, 1, 9, 8), (4, 3), _to((4, 3), "bicubic", antialias=True), mode="cubic", antialias=1,
        exclude_outside=1, cubic_coeff_a=-0.5,
    ),
    "linear, cropped and filled": Case(
        [
            node(
                "Resize", "h roi - sizes", "y", mode="linear", extrapolation_value=10.0,
                coordinate_transformation_mode="tf_crop_and_resize",
            )
        ],
        (1, 1, 3, 3),
        # Rows at 0, 1, 2 of 0..2; columns at 1, 2 and 3, which lies outside.
        lambda t, f, h, w: t.cat([h[..., 1:], t.full_like(h[..., :1], 10.0)], -1),
        {"roi": np.float32([0, 0, 0, 0.5, 1, 1, 1, 1.5]), "sizes": ints(1, 1, 3, 3)},
        fixed=("roi",),
    ),
    "mask added": Case(
        [node("Add", "h mask", "m"), node("Softmax", "m", "p", axis=-1), node("Neg", "p", "y")],
        (2, 4, 4),
        lambda t, f, h, w: -(h + w["mask"]).softmax(-1),
        {"mask": _CAUSAL},
        exp=True, fixed=("mask",),
    ),
    "mask chosen": Case(
        [
            node("Where", "hide low h", "m"),
            node("Softmax", "m", "p", axis=-1),
            node("Neg", "p", "y"),
        ],
        (2, 4, 4),
        lambda t, f, h, w: -h.masked_fill(w["hide"], float("-inf")).softmax(-1),
        {"hide": np.triu(np.ones((4, 4), np.bool_), 1), "low": np.asarray(_INF)},
        exp=True,
    ),
    "attention, causal": Case(
        [
            node("Transpose", "h", "u", perm=[0, 2, 1]),
            node("MatMul", "h u", "s"),
            node("Mul", "s scale", "r"),
            node("Add", "r mask", "m"),
            node("Softmax", "m", "p", axis=-1),
            node("MatMul", "p h", "y"),
        ],
        (2, 4, 3),
        lambda t, f, h, w: (
            (h @ h.transpose(1, 2) * w["scale"] + w["mask"]).softmax(-1) @ h
        ),
        {"mask": _CAUSAL, "scale": np.asarray(0.5, np.float32)},
        exp=True, fixed=("mask",),
    ),
    "layer norm, statistics read": Case(
        [
            node("LayerNormalization", "h s b", "n m i", axis=1),
            node("Mul", "n i", "p"),
            node("Add", "p m", "y"),
        ],
        (2, 3, 4),
        lambda t, f, h, w: (
            f.layer_norm(h, (3, 4), w["s"], w["b"])
            / (h.var((1, 2), unbiased=False, keepdim=True) + 1e-5).sqrt()
            + h.mean((1, 2), keepdim=True)
        ),
        {"s": weights(3, 4, seed=1), "b": weights(3, 4, seed=2)},
    ),
    "max in two stages": Case(
        [
            node(
                "MaxPool", "h", "y", kernel_shape=[17, 16], strides=[2, 3], pads=[1, 0, 0, 4],
                ceil_mode=1,
            )
        ],
        (1, 1, 20, 21),
        lambda t, f, h, w: f.max_pool2d(
            f.pad(h, (0, 4, 1, 0), value=-np.inf), (17, 16), (2, 3), ceil_mode=True
        ),
    ),
    "max, pads above half the window": Case(
        [node("MaxPool", "h", "y", kernel_shape=[3, 3], pads=[2, 2, 2, 2])],
        (1, 2, 4, 4),
        lambda t, f, h, w: f.max_pool2d(f.pad(h, (2, 2, 2, 2), value=-np.inf), 3, 1),
    ),
    "prelu of an old slope": Case(
        [node("PRelu", "h s", "y")],
        (2, 3, 4),
        lambda t, f, h, w: f.prelu(h, w["s"]),
        {"s": weights(3)},
    ),
    "split with an empty part": Case(
        [node("Split", "h sizes", "a b c", axis=1), node("Concat", "c b a", "y", axis=1)],
        (2, 3),
        lambda t, f, h, w: t.cat([h[:, 2:], h[:, :2]], 1),
        {"sizes": ints(2, 0, 1)},
    ),
    "up, output_shape beyond": Case(
        [node("ConvTranspose", "h w b", "y", strides=[2, 2], output_shape=[9, 7])],
        (1, 2, 3, 3),
        lambda t, f, h, w: (
            f.pad(f.conv_transpose2d(h, w["w"], None, 2), (0, 1, 0, 3)) + w["b"][:, None, None]
        ),
        {"w": weights(2, 3, 2, 2), "b": weights(3)},
    ),
    "up 1-D, groups": Case(
        [
            node(
                "ConvTranspose", "h w b", "y", strides=[3], group=2, dilations=[2],
                output_padding=[2], pads=[1, 1],
            )
        ],
        (1, 4, 4),
        lambda t, f, h, w: f.conv_transpose1d(h, w["w"], w["b"], 3, 1, 2, 2, 2),
        {"w": weights(4, 3, 2), "b": weights(6)},
    ),
    **{
        f"einsum {equation}": _einsum(equation, *shapes)
        for equation, *shapes in (
            ("ij,jk->ik", (3, 4), (4, 2)),
            ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 2, 4)),
            ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
            ("ji,jk", (3, 4), (3, 2)),
            ("bnd,dhk->bhnk", (2, 3, 4), (4, 2, 3)),
            ("i,j->ij", (3,), (4,)),
            ("bij,jk->kb", (2, 3, 4), (4, 2)),
            ("ijk->kj", (2, 3, 4)),
            ("bij,bij->b", (2, 3, 4), (2, 3, 4)),
        )
    },
    "cumulated": _cum_sum(lambda t, f, h, w: h.cumsum(1), 1),
    "cumulated, last axis, reversed": _cum_sum(
        lambda t, f, h, w: h.flip(-1).cumsum(-1).flip(-1), -1, reverse=1
    ),
    "cumulated, exclusive": _cum_sum(lambda t, f, h, w: h.cumsum(0) - h, 0, exclusive=1),
    "tile": Case(
        [node("Tile", "h r", "t"), node("Mul", "t t", "y")],
        (2, 1, 3),
        lambda t, f, h, w: h.tile(2, 3, 2) ** 2,
        {"r": ints(2, 3, 2)},
    ),
    "rms norm": Case(
        [node("RMSNormalization", "h s", "y", axis=-1, epsilon=1e-3)],
        (2, 3, 4),
        lambda t, f, h, w: f.rms_norm(h, (4,), w["s"], 1e-3),
        {"s": weights(4, seed=1)},
        opset=23,
    ),
    "lp norm 2": Case(
        [node("LpNormalization", "h", "y", axis=1)],
        (2, 3, 4),
        lambda t, f, h, w: f.normalize(h, dim=1),
    ),
    "lp norm 1": Case(
        [node("LpNormalization", "h", "y", p=1)],
        (3, 4),
        lambda t, f, h, w: f.normalize(h, p=1, dim=-1),
    ),
}  # fmt: skip
