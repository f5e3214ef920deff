"""Level 3: where bytes live. Offsets are in the arena, blocks on the card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Slot:
    """One residency of one root value.

    It holds bytes [offset, offset + nbytes) of the arena during the half-open interval of action
    indices [first, last).

    A residency that begins at action i has first == i and is live during action i; one that a
    FREE at action j ends has last == j + 1; one that an in-place COMPUTE at j takes over has
    last == j + 1 too, and the successor's slot has the same offset and first == j: this pair, and
    no other, may overlap. A value resident when the step begins has first == 0; one resident at
    the end has last == the number of actions. ``nbytes`` is the padded size.
    """

    value: int
    offset: int
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Page:
    """The blocks [first_block, first_block + blocks) of the card that hold a paged value."""

    value: int
    first_block: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """Workspace of the COMPUTE at action index ``action``."""

    action: int
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class ArenaPart:
    """Offsets [offset, offset + nbytes) of an arena, which are RAM of their own.

    ``reached``: paged values may lie here. No value lies in two parts.
    """

    name: str
    offset: int
    nbytes: int
    reached: bool

    @property
    def end(self) -> int:
        """The first offset behind it."""
        return self.offset + self.nbytes


def parts_end(parts: Sequence[ArenaPart]) -> int:
    """The first offset behind them, which is the main RAM's."""
    return parts[-1].end if parts else 0


def used_parts(parts: tuple[ArenaPart, ...], arena_bytes: int) -> tuple[ArenaPart, ...]:
    """``parts`` as far as an arena of so many bytes goes into them."""
    found = [part for part in parts if part.offset < arena_bytes]
    return tuple(replace(p, nbytes=min(p.nbytes, arena_bytes - p.offset)) for p in found)


@dataclass(frozen=True, slots=True)
class Placement:
    """Every residency's offset, every page's blocks, and the arena's size.

    ``parts``, from offset 0 on and one behind the other, are those in front of the main RAM, which
    has the offsets behind them, and which paged values may always use.
    """

    slots: tuple[Slot, ...]
    scratch: tuple[Scratch, ...]
    pages: tuple[Page, ...]
    arena_bytes: int
    alignment_bytes: int
    parts: tuple[ArenaPart, ...] = ()

    @property
    def main_offset(self) -> int:
        """The first offset of the main RAM."""
        return parts_end(self.parts)


@dataclass(frozen=True, slots=True)
class CheckpointSlots:
    """The two slots of checkpoints in the card's region: ``first_block`` and ``blocks`` of each.

    A slot is a header block, then every value of ``values`` from a block of its own on, in this
    order.
    """

    first_block: int
    blocks: int
    values: tuple[int, ...]

    @property
    def end_block(self) -> int:
        """First block after both slots."""
        return self.first_block + 2 * self.blocks
