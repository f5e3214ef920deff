"""Updates: weights after three or four steps with the learning rate 0.1."""

# ruff: noqa: ARG005 - every case is called alike

from __future__ import annotations

from typing import Any

from models import node, weights

from golden_cases.case import Case


def _steps(optimizer: str, steps: int = 3, **options: Any) -> Case:
    return Case(
        [
            node("Conv", "h k d", "a"),
            node("Relu", "a", "r"),
            node("Flatten", "r", "e"),
            node("Gemm", "e v c", "y"),
        ],
        (2, 2, 3, 3),
        lambda t, f, h, w: f.conv2d(h, w["k"], w["d"]).relu().flatten(1) @ w["v"] + w["c"],
        {"k": weights(5, 2, 2, 2), "d": weights(5), "v": weights(20, 3), "c": weights(3)},
        recipe={"optimizer": optimizer, **options},
        steps=steps,
    )


CASES = {
    "sgd": _steps("sgd"),
    "sgd decay": _steps("sgd", weight_decay=0.1),
    "momentum": _steps("momentum"),
    "momentum 0.5 decay": _steps("momentum", momentum=0.5, weight_decay=0.1),
    "nesterov": _steps("nesterov"),
    "adam": _steps("adam"),
    "adam own numbers": _steps("adam", beta1=0.8, beta2=0.95, eps=1e-4, weight_decay=0.1),
    "adamw": _steps("adamw"),
    "rmsprop": _steps("rmsprop", eps=1e-3),
    "rmsprop decay": _steps("rmsprop", alpha=0.9, eps=1e-3, weight_decay=0.1),
    "clip_norm": _steps("sgd", clip_norm=0.1),
    "accumulate": _steps("sgd", 4, accumulate=2),
    "accumulate and clip_norm": _steps("momentum", 4, accumulate=2, clip_norm=0.1),
    "cosine, warm-up": _steps("sgd", lr_schedule="cosine", warmup=1, total_steps=4),
}
