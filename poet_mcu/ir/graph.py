"""Level 1: the graph of operators and values, first forward only, then with loss, backward, update.

A graph is immutable. ``nodes`` stand in one total order that is also the order of execution; a
schedule may repeat nodes (recompute) but never reorders them.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Attr = int | float | str | tuple[int, ...]


class DType(enum.Enum):
    """Element type of a value; the C name is the value."""

    F32 = "float"
    I32 = "int32_t"
    U8 = "uint8_t"

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return _ITEM_BYTES[self]

    @property
    def numpy(self) -> npt.DTypeLike:
        """The numpy type with the same layout."""
        return _NUMPY[self]


_ITEM_BYTES = {DType.F32: 4, DType.I32: 4, DType.U8: 1}
_NUMPY: dict[DType, npt.DTypeLike] = {
    DType.F32: np.float32,
    DType.I32: np.int32,
    DType.U8: np.uint8,
}


class Role(enum.Enum):
    """What a value is for; its home (where its bytes live between steps) follows from it."""

    INPUT = "input"  # written by the host before each step
    LABEL = "label"  # written by the host before each step
    PARAMETER = "parameter"  # trainable: resident in RAM, initial value in flash
    CONSTANT = "constant"  # frozen parameter or folded constant: read from flash
    STATE = "state"  # optimizer state: resident in RAM, starts at zero
    STATISTIC = "statistic"  # tracked over the steps, never trained: in RAM, start value in flash
    ACTIVATION = "activation"
    GRADIENT = "gradient"
    LOSS = "loss"


HOME_RAM = frozenset({Role.PARAMETER, Role.STATE, Role.STATISTIC})
HOME_FLASH = frozenset({Role.CONSTANT})
HOST_WRITTEN = frozenset({Role.INPUT, Role.LABEL})


class Phase(enum.Enum):
    """Which part of a training step a node belongs to."""

    FORWARD = "forward"
    LOSS = "loss"
    BACKWARD = "backward"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type; what shape rules map from and to."""

    shape: tuple[int, ...]
    dtype: DType = DType.F32

    @property
    def elements(self) -> int:
        """Product of the dimensions; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Dense bytes, without alignment padding."""
        return self.elements * self.dtype.item_bytes


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor of the graph.

    ``origin`` is the ONNX name it came from ('' when we made it) and is for messages and for
    naming weights in files; ``name`` is unique in the graph and for people.
    ``base`` is the id of the value whose bytes this one shows under another shape (a view), or
    None. A view has the same number of bytes as its base and never a view as its base.
    """

    id: int
    name: str
    type: TensorType
    role: Role
    origin: str = ""
    base: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions, outermost first."""
        return self.type.shape


@dataclass(frozen=True, slots=True)
class Node:
    """One operator instance.

    ``mutates`` lists values of home RAM that the node overwrites (an update overwrites its
    parameter and its state). Such a node runs exactly once per step.
    """

    id: int
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: Mapping[str, Attr]
    phase: Phase
    origin: str = ""
    mutates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """Values and nodes; ``values[i].id == i`` and ``nodes[i].id == i``.

    ``outputs`` are the values that must be resident when the step ends (loss, or logits).
    ``initial`` holds the start value of every PARAMETER, CONSTANT and STATISTIC by value id.
    ``card_homes`` are the parameters and states that live on the card and not in RAM: paged out
    when a step begins, and again when it ends.
    """

    name: str
    values: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    initial: Mapping[int, npt.NDArray[np.generic]] = field(
        default_factory=lambda: MappingProxyType({}), compare=False
    )
    card_homes: frozenset[int] = frozenset()

    def root(self, value_id: int) -> int:
        """The value whose bytes ``value_id`` shows: itself, or its base when it is a view."""
        base = self.values[value_id].base
        return value_id if base is None else base

    def home_ram(self) -> tuple[Value, ...]:
        """Values that are resident in RAM all the time, in id order."""
        return tuple(v for v in self.with_role(*HOME_RAM) if v.id not in self.card_homes)

    def always_there(self, value_id: int) -> bool:
        """Whether a root value has its home in RAM or flash, so that it is never paged."""
        role = self.values[value_id].role
        return role in HOME_FLASH or (role in HOME_RAM and value_id not in self.card_homes)

    def with_role(self, *roles: Role) -> tuple[Value, ...]:
        """All values with one of ``roles`` that are not views, in id order."""
        return tuple(v for v in self.values if v.role in roles and v.base is None)
