"""What a caller of the planner gives and gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from poet_mcu.ir.schedule import Schedule
from poet_mcu.schedule.backend import SolveStatus
from poet_mcu.schedule.executor import Metrics


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a running solve stands; ``objective_j`` is None while there is no plan."""

    elapsed_s: float
    objective_j: float | None
    lower_bound_j: float


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """``forward_recompute`` lets large graphs recompute inside the forward part too.

    Graphs of up to ``EXACT_SLOTS`` slots always may. ``time_limit_s`` is wall clock for the whole
    call. Ctrl-C ends it too, with the best plan so far when there is one. ``starts`` are plans of
    the same ops to begin with (of a smaller budget, say); those that do not fit are left out.
    """

    paging: bool = True
    remat: bool = True
    solver: Literal["highs", "cbc"] = "highs"
    time_limit_s: float = 60.0
    forward_recompute: bool = False
    progress: Callable[[Progress], None] | None = None
    starts: tuple[Schedule, ...] = ()


@dataclass(frozen=True, slots=True)
class Solution:
    """A plan and how good it is. Joules are totals of a step: base energy plus overhead.

    ``objective_j`` is the simulated energy of ``schedule``. ``gap`` is relative to the total,
    ``overhead_gap`` to the proven overhead (infinite when none is proven).
    """

    status: SolveStatus
    schedule: Schedule | None
    metrics: Metrics | None
    objective_j: float | None
    lower_bound_j: float
    gap: float | None
    overhead_gap: float | None
    solve_s: float
    solver: str
