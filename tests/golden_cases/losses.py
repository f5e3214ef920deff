"""Losses, each behind a product with a trained matrix."""

# ruff: noqa: ARG005 - every case is called alike

from __future__ import annotations

from typing import Any

from models import node, weights

from golden_cases.case import Case


def _loss(loss: str, exp: bool = False, **options: Any) -> Case:
    return Case(
        [node("MatMul", "h v", "y")],
        (4, 3),
        lambda t, f, h, w: h @ w["v"],
        {"v": weights(3, 5)},
        recipe={"loss": loss, **options},
        exp=exp,
    )


CASES = {
    "mse": _loss("mse"),
    "l1": _loss("l1"),
    "huber": _loss("huber"),
    "huber 0.5": _loss("huber", huber_delta=0.5),
    "bce": _loss("bce", exp=True),
    "cross-entropy": _loss("cross-entropy", exp=True),
    "cross-entropy weighted": _loss(
        "cross-entropy", exp=True, class_weights=(1.0, 0.5, 2.0, 0.25, 3.0)
    ),
    "cross-entropy smoothed": _loss("cross-entropy", exp=True, label_smoothing=0.1),
    "cross-entropy weighted, smoothed": _loss(
        "cross-entropy", exp=True, label_smoothing=0.2, class_weights=(1.0, 0.5, 2.0, 0.25, 3.0)
    ),
    "none": Case(
        [node("ReduceMean", "h", "y", axes=[0, 1], keepdims=0)],
        (2, 3),
        lambda t, f, h, w: h.mean(),
        recipe={"loss": "none"},
    ),
}
