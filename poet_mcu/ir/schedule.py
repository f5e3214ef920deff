"""Level 2: the ordered actions of one step. Values are always named by their root, never a view.

Meaning of the actions (``subject`` is a node id for COMPUTE, else a root value id):

- COMPUTE runs the node. Its inputs must be resident and valid. Its outputs become resident; an
  output that is resident already is a fault. For each pair (out, in) of ``in_place`` the output
  takes over the bytes of the input, which ends there (it must not be freed any more).
- PAGE_OUT starts writing the value to its page. The bytes stay resident and must not change or be
  freed before WAIT of the same value.
- PAGE_IN makes the value resident and starts reading its page, whose write must have been waited
  for; the value is valid after WAIT.
- WAIT ends the transfer of the value.
- FREE ends the residency of the value.

Values whose role has its home in RAM (parameters, state) are resident all the time, those with
home flash are always readable; neither is ever paged or freed. The graph's ``card_homes`` are not
resident when the step begins but have a written page, which a node that mutates them makes stale;
when the step ends they have been written back and freed. Values that the host writes
(inputs, labels) are resident and valid when the step begins. The graph's outputs are resident
when the step ends, everything else but home RAM has been freed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ActionKind(enum.Enum):
    """The five things a step can do."""

    COMPUTE = "compute"
    PAGE_OUT = "page_out"
    PAGE_IN = "page_in"
    WAIT = "wait"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Action:
    """One action; ``recompute`` marks every COMPUTE of a node after its first."""

    kind: ActionKind
    subject: int
    in_place: tuple[tuple[int, int], ...] = ()
    recompute: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """All actions of one step, in order."""

    actions: tuple[Action, ...]
