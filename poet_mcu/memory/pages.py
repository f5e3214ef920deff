"""Where pages lie on the card: one contiguous, aligned run of blocks per paged value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from poet_mcu.errors import InternalError
from poet_mcu.ir.placement import Page
from poet_mcu.ir.schedule import ActionKind, Schedule
from poet_mcu.units import blocks, round_up


def place_pages(
    schedule: Schedule,
    sizes: Mapping[int, int],
    first_block: int,
    alignment_blocks: int = 1,
    homes: Collection[int] = (),
    fixed: Mapping[int, int] = MappingProxyType({}),
) -> tuple[Page, ...]:
    """Pages of the values the schedule pages out, in the order of their first page-out.

    That order makes consecutive writes of a step run forward over the card. Every page begins at
    a multiple of ``alignment_blocks`` (counted from block 0) at or after ``first_block``, and no
    two share an alignment unit. ``homes``, the values that live on the card, come first, by id;
    where ``fixed`` names a first block (another step's page of the same value) that is it.

    Raises:
        InternalError: ``alignment_blocks`` or ``first_block`` is out of range.
    """
    if alignment_blocks < 1 or first_block < 0:
        raise InternalError(
            f"pages: expected first block >= 0 and alignment >= 1 block, got {first_block} and "
            f"{alignment_blocks}; fix the caller"
        )
    pages: list[Page] = []
    written = [a.subject for a in schedule.actions if a.kind is ActionKind.PAGE_OUT]
    paged = dict.fromkeys([*sorted(homes), *written])
    block = first_block
    for value in paged:
        if value in fixed:
            pages.append(Page(value, fixed[value], blocks(sizes[value])))
            continue
        block = round_up(block, alignment_blocks)
        pages.append(Page(value, block, blocks(sizes[value])))
        block += pages[-1].blocks
    return tuple(pages)


def region_end_block(pages: tuple[Page, ...], first_block: int) -> int:
    """First block after all pages; ``first_block`` when there are none."""
    return max((page.first_block + page.blocks for page in pages), default=first_block)
