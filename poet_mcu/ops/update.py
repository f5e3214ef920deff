"""What the updates share: they overwrite parameter and state by a gradient of the same type."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import TensorType
from poet_mcu.ops.operator import Attrs, Cost, Operator, Types, number

Floats = npt.NDArray[np.float32]


class Update(Operator):
    """Inputs w, g and the optimizer's state; w and state are overwritten.

    References get the learning rate of the step as attribute ``lr`` and the number of updates
    before this one as ``updates``.
    """

    recomputable = False
    mutates: tuple[int, ...] = (0,)
    transcendental = 0

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        w, *others = inputs
        for kind in others:
            if kind != w:
                what = "a gradient and state like"
                raise ModelError(f"{self.name}: expected {what} the parameter {w}, got {kind}")
        return ()

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        count = inputs[0].elements
        written = len(self.mutates) * count
        return Cost("update", elements=written, transcendental=self.transcendental * count)


def scalar(attrs: Attrs, key: str) -> np.float32:
    """An attribute as the float the kernel gets."""
    return np.float32(number(attrs, key))


def bias_correction(complement: float, updates: int) -> np.float32:
    """1 - beta^updates in float32, from ``complement`` = 1 - beta, as firmware/train/rates.c does.

    By doubling, 1 - b^2n = (1 - b^n)(1 + b^n) and 1 - b^(n+1) = (1 - b^n) + b^n (1 - b): no
    difference of nearly equal numbers, so also the first step of beta = 0.999 is exact to a few
    ulp, where 1 - powf(0.999f, 1) is off by 1e-5.
    """
    c, result = np.float32(complement), np.float32(0)
    for bit in f"{updates:b}":
        result = result * (np.float32(2) - result)
        if bit == "1":
            result = result + c * (np.float32(1) - result)
    return np.float32(result)
