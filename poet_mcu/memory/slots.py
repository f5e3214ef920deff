"""Where checkpoints lie on the card: two slots of equal size behind all pages."""

from __future__ import annotations

from poet_mcu.ir.graph import Graph, Role
from poet_mcu.ir.placement import CheckpointSlots
from poet_mcu.units import blocks, round_up

#: what training changes and a step does not make again; the trainer saves the same roles
SAVED = (Role.PARAMETER, Role.STATISTIC, Role.STATE)


def place_slots(graph: Graph, first_block: int, alignment_blocks: int) -> CheckpointSlots:
    """Slots for everything that ``graph`` (a training graph) keeps from step to step.

    Each begins at a multiple of ``alignment_blocks`` at or after ``first_block``, so that a card
    does not program one of them again for a write to the other.
    """
    saved = graph.with_role(*SAVED)
    needed = 1 + sum(blocks(value.type.nbytes) for value in saved)
    return CheckpointSlots(
        round_up(first_block, alignment_blocks),
        round_up(needed, alignment_blocks),
        tuple(value.id for value in saved),
    )
