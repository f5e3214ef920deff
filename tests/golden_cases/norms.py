"""Batch, layer, instance and group normalization."""

# ruff: noqa: ARG005 - every case is called alike

from __future__ import annotations

from typing import Any

from models import node, weights

from golden_cases.case import Case, Torch, positive


def _batch(x: tuple[int, ...], batchnorm: str, eps: float, momentum: float, steps: int = 0) -> Case:
    c = x[1]

    def torch(t: Any, f: Any, h: Any, w: Any) -> Any:
        by_batch = batchnorm == "train"
        return f.batch_norm(h, w["mean"], w["var"], w["s"], w["b"], by_batch, 1 - momentum, eps)

    return Case(
        [node("BatchNormalization", "h s b mean var", "y", epsilon=eps, momentum=momentum)],
        x,
        torch,
        {
            "s": positive(c, seed=1),
            "b": weights(c, seed=2),
            "mean": weights(c, seed=3),
            "var": positive(c, seed=4),
        },
        fixed=("mean", "var"),
        batchnorm=batchnorm,
        steps=steps,
    )


def _row(op: str, x: tuple[int, ...], w: tuple[int, ...], torch: Torch, **attrs: Any) -> Case:
    opset = 21 if op == "GroupNormalization" else 17
    tensors = {"s": weights(*w, seed=1), "b": weights(*w, seed=2)}
    return Case([node(op, "h s b", "y", **attrs)], x, torch, tensors, opset=opset)


CASES = {
    "batch": _batch((3, 2, 2, 3), "train", 1e-5, 0.9),
    "batch 1-D": _batch((4, 3), "train", 1e-3, 0.9),
    "batch, statistics tracked": _batch((3, 2, 3), "train", 1e-5, 0.8, steps=3),
    "batch frozen": _batch((2, 3, 2, 2), "frozen", 1e-5, 0.9),
    "layer": _row(
        "LayerNormalization", (3, 2, 5), (5,),
        lambda t, f, h, w: f.layer_norm(h, (5,), w["s"], w["b"]),
    ),
    "layer over two axes": _row(
        "LayerNormalization", (2, 3, 4), (3, 4),
        lambda t, f, h, w: f.layer_norm(h, (3, 4), w["s"], w["b"], 0.01), axis=1, epsilon=0.01,
    ),
    "layer without bias": Case(
        [node("LayerNormalization", "h s", "y")],
        (4, 5),
        lambda t, f, h, w: f.layer_norm(h, (5,), w["s"]),
        {"s": weights(5, seed=1)},
    ),
    "instance": _row(
        "InstanceNormalization", (2, 3, 2, 3), (3,),
        lambda t, f, h, w: f.instance_norm(h, None, None, w["s"], w["b"], eps=1e-3), epsilon=1e-3,
    ),
    "instance 1-D": _row(
        "InstanceNormalization", (2, 3, 5), (3,),
        lambda t, f, h, w: f.instance_norm(h, None, None, w["s"], w["b"]),
    ),
    "group": _row(
        "GroupNormalization", (2, 6, 2, 3), (6,),
        lambda t, f, h, w: f.group_norm(h, 3, w["s"], w["b"]), num_groups=3,
    ),
}  # fmt: skip
