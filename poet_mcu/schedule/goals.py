"""What an integer program is asked for."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass


class Goal(enum.Enum):
    """What is minimised."""

    ENERGY = "energy"
    MEMORY = "memory"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Switches:
    """What the plan may use, and what is minimised; ``floor_bytes`` is a known bound on memory.

    ``loose`` leaves out the memory rows of optional slots: a relaxation. ``best_j`` is the energy
    of the best plan known: nobody asks for a plan that needs more.
    """

    paging: bool = True
    goal: Goal = Goal.ENERGY
    floor_bytes: int = 0
    loose: bool = False
    best_j: float = math.inf
