"""Level 4: kernel calls and transfers with resolved addresses; C is this, spelt."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class OperandKind(enum.Enum):
    """What an argument of a kernel call is."""

    ARENA = "arena"  # bytes of the arena
    FLASH = "flash"  # a constant in flash
    NULL = "null"  # an optional argument that is absent
    LEARNING_RATE = "lr"  # the learning rate of this step
    BIAS_1 = "bias1"  # 1 - beta^n of the optimizer's two means at its n-th update
    BIAS_2 = "bias2"
    STEP = "step"  # the training steps done before


@dataclass(frozen=True, slots=True)
class Operand:
    """One argument. ``value`` is a root value id, or -1 for scratch and non-values.

    ``offset`` and ``nbytes`` (padded) are of the arena, for kind ARENA.
    """

    kind: OperandKind
    value: int = -1
    offset: int = 0
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel call: ``function(&descriptor, operands...)``.

    ``roles`` runs parallel to ``operands``: 'in0', 'out1', 'ws', 'null', 'lr', 'bias1', 'bias2',
    'step'.
    """

    node: int
    function: str
    source: str
    descriptor: str
    fields: tuple[tuple[str, int | float], ...]
    roles: tuple[str, ...]
    operands: tuple[Operand, ...]


class Opcode(enum.Enum):
    """The kinds of instruction, one for one with the schedule's actions."""

    CALL = "call"
    PAGE_OUT = "page_out"
    PAGE_IN = "page_in"
    WAIT = "wait"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; its position is the index of the schedule's action.

    For everything but CALL: ``value`` is the root value, [offset, offset + nbytes) its bytes in
    the arena, and ``page`` the number of its page (-1 for DROP).
    """

    opcode: Opcode
    value: int = -1
    offset: int = 0
    nbytes: int = 0
    page: int = -1
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Home:
    """Bytes of the arena that hold a value when the step begins (inputs, parameters, state)."""

    value: int
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class PageRange:
    """Page ``number``: its value, its blocks in the region, its payload bytes."""

    number: int
    value: int
    first_block: int
    blocks: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Program:
    """One straight line. ``results`` holds the graph's outputs when it has run."""

    name: str
    instructions: tuple[Instruction, ...]
    homes: tuple[Home, ...]
    results: tuple[Home, ...]
    pages: tuple[PageRange, ...]
    arena_bytes: int
