"""Dropout under the mask of the first step."""

from __future__ import annotations

from typing import Any

import numpy as np
from models import node, weights

from golden_cases.case import Case
from poet_mcu.ops.dropout import kept


def _dropout(shape: tuple[int, ...], ratio: float) -> Case:
    mask = kept(int(np.prod(shape)), 0, 0, 0, ratio).reshape(shape)

    def torch(t: Any, f: Any, h: Any, w: Any) -> Any:
        return (h * t.tensor(mask) / (1 - ratio)) @ w["w"]

    return Case(
        [node("Dropout", "h ratio mode", "d"), node("MatMul", "d w", "y")],
        shape,
        torch,
        {
            "w": weights(shape[-1], 3, seed=1),
            "ratio": np.asarray(ratio, np.float32),
            "mode": np.asarray(True),
        },
    )


CASES = {"dropout": _dropout((6, 5), 0.25), "dropout, mostly": _dropout((3, 7), 0.75)}
