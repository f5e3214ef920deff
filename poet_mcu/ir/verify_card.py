"""Checks the whole card: pages of both steps, checkpoint slots, the end of the region."""

from __future__ import annotations

from collections.abc import Iterable

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import Graph, Role
from poet_mcu.ir.placement import CheckpointSlots
from poet_mcu.ir.program import PageRange

_BLOCK = 512
_ADDRESSABLE_BLOCKS = 2**32


def verify_card(
    graph: Graph,
    pages: Iterable[PageRange],
    slots: CheckpointSlots,
    region_first_block: int,
    region_blocks: int,
) -> None:
    """Raise InternalError with every fault of the card's layout.

    A slot has room for a header and, in whole blocks, for each value that a step changes and the
    next one reads; no page reaches into a slot; all of it lies in the region, and the region in
    what 32 bits can address.
    """
    faults = _slot_faults(graph, slots)
    faults += [
        f"page {page.number}: expected its end by the slots' block {slots.first_block}, "
        f"got {page.first_block + page.blocks}"
        for page in pages
        if page.first_block + page.blocks > slots.first_block
    ]
    if slots.first_block + 2 * slots.blocks > region_blocks:
        faults.append(
            f"slots: expected their end in the region of {region_blocks} blocks, "
            f"got {slots.first_block + 2 * slots.blocks}"
        )
    if region_first_block + region_blocks > _ADDRESSABLE_BLOCKS:
        faults.append(
            f"region: expected its end by block {_ADDRESSABLE_BLOCKS}, "
            f"got {region_first_block + region_blocks}"
        )
    if faults:
        raise InternalError("card: " + "; ".join(faults))


def _slot_faults(graph: Graph, slots: CheckpointSlots) -> list[str]:
    """Each slot holds a header and all that is kept, behind the region's header."""
    faults = []
    needed, kept = 1, []
    for value in graph.values:
        if value.role in (Role.PARAMETER, Role.STATE, Role.STATISTIC) and value.base is None:
            needed += -(-value.type.nbytes // _BLOCK)
            kept.append(value.id)
    if sorted(slots.values) != sorted(kept):
        faults.append(f"slots: expected the values {sorted(kept)}, got {sorted(slots.values)}")
    if slots.blocks < needed:
        faults.append(f"slots: expected at least {needed} blocks each, got {slots.blocks}")
    if slots.first_block < 1:
        faults.append(f"slots: expected them after the header, got block {slots.first_block}")
    return faults
