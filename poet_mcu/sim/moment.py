"""Where in a training a step stands: what a kernel gets from the trainer."""

from __future__ import annotations

from dataclasses import dataclass

from poet_mcu.ir.graph import Node
from poet_mcu.ops.operator import Attrs
from poet_mcu.ops.table import OPERATORS


@dataclass(frozen=True, slots=True)
class Moment:
    """``updates`` were made before, in ``step`` steps.

    Without ``update`` the step only accumulates gradients.
    """

    updates: int = 0
    update: bool = True
    step: int = 0

    @classmethod
    def of(cls, step: int, accumulate: int) -> Moment:
        """The moment of a step, counted from 0, when ``accumulate`` steps make one update."""
        return cls(step // accumulate, step % accumulate == accumulate - 1, step)

    def attrs(self, node: Node, lr: float) -> Attrs:
        """The node's attributes, and those of the step where the result depends on it."""
        if not node.mutates and not OPERATORS[node.op].by_step:
            return node.attrs
        return {**node.attrs, "lr": lr, "updates": self.updates, "step": self.step}


FIRST = Moment()
