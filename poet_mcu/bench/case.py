"""One row of the benchmark: a node of a graph, whose operator gives descriptor, workspace, cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from poet_mcu.ir.graph import DType, TensorType
from poet_mcu.ops.operator import Attrs, Cost, Kernel
from poet_mcu.ops.table import OPERATORS

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One call of a kernel. ``macs`` 0: those of the operator's cost.

    The inputs are filled with random floats from ``low`` to 1, and 0, 1, ... below ``below``. With
    ``odd`` zeros of both signs, infinities and NaN are among the floats.
    """

    name: str
    op: str
    inputs: tuple[TensorType, ...]
    attrs: Attrs = field(default_factory=dict)
    macs: int = 0
    low: float = -1.0
    below: int = 4
    odd: bool = False

    @property
    def outputs(self) -> tuple[TensorType, ...]:
        """Types of what the node makes."""
        return OPERATORS[self.op].infer(self.inputs, self.attrs)

    @property
    def kernel(self) -> Kernel:
        """The call that computes it."""
        return OPERATORS[self.op].kernel(self.inputs, self.outputs, self.attrs)

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory of the call."""
        return OPERATORS[self.op].workspace_bytes(self.inputs, self.outputs, self.attrs)

    @property
    def cost(self) -> Cost:
        """What a plan counts for it: positions in the padding are multiply-adds here."""
        return OPERATORS[self.op].cost(self.inputs, self.outputs, self.attrs)

    @property
    def work(self) -> int:
        """Multiply-adds that are really done; where there are none the elements of the cost."""
        return self.macs or self.cost.macs or self.cost.elements

    @property
    def unit(self) -> str:
        """What ``work`` counts."""
        return "MAC" if self.macs or self.cost.macs else "element"


def floats(*shapes: Shape) -> tuple[TensorType, ...]:
    """A float32 tensor for each shape."""
    return tuple(TensorType(shape) for shape in shapes)


def integers(*shape: int) -> TensorType:
    """An int32 tensor."""
    return TensorType(shape, DType.I32)


def octets(*shape: int) -> TensorType:
    """A uint8 tensor."""
    return TensorType(shape, DType.U8)
