"""What the losses with targets like the output share: shape rule and cost."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import TensorType
from poet_mcu.ops.operator import Array, Attrs, Cost, Operator, Types

Floats = npt.NDArray[np.float32]


class ElementwiseLoss(Operator):
    """From output y and target t of one shape: the mean loss, a scalar, and dy."""

    recomputable = False  # its loss is an output of the step
    in_place = ((1, 0),)
    suffixes = ("", "_gradient")
    transcendental = 0

    @abstractmethod
    def terms(self, y: Floats, t: Floats, attrs: Attrs) -> tuple[Floats, Floats]:
        """(loss of each element, its derivative by y)."""

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        y, t = inputs
        if y != t:
            raise ModelError(f"{self.name}: expected targets like the output {y}, got {t}")
        return TensorType(()), y

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        y, t = (np.asarray(a, np.float32) for a in inputs)
        losses, slopes = self.terms(y, t, attrs)
        count = np.float32(y.size)
        loss = losses.sum(dtype=np.float32) / count
        dy = slopes * (np.float32(1) / count)
        return np.asarray(loss, np.float32), dy.astype(np.float32)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        count = inputs[0].elements
        return Cost("loss", elements=count, transcendental=self.transcendental * count)
