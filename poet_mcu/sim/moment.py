"""Where in a training a step stands: what an update's kernel gets from the trainer."""

from __future__ import annotations

from dataclasses import dataclass

from poet_mcu.ir.graph import Node
from poet_mcu.ops.operator import Attrs


@dataclass(frozen=True, slots=True)
class Moment:
    """``updates`` were made before; without ``update`` the step only accumulates gradients."""

    updates: int = 0
    update: bool = True

    @classmethod
    def of(cls, step: int, accumulate: int) -> Moment:
        """The moment of a step, counted from 0, when ``accumulate`` steps make one update."""
        return cls(step // accumulate, step % accumulate == accumulate - 1)

    def attrs(self, node: Node, lr: float) -> Attrs:
        """The node's attributes, and for what overwrites values those of the step."""
        if not node.mutates:
            return node.attrs
        return {**node.attrs, "lr": lr, "updates": self.updates}


FIRST = Moment()
