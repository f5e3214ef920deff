"""What a solver gets and gives; the solvers themselves stand in ``highs.py`` and ``cbc.py``."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pulp


class SolveStatus(enum.Enum):
    """What is known when a solver returns. Only a solver's own proof gives INFEASIBLE."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    TIMEOUT = "timeout"  # nothing found and nothing proven within the limit
    ERROR = "error"


#: called with the best objective (None: nothing yet) and the bound, both in the model's numbers
Watcher = Callable[[float | None, float], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop: seconds of wall clock, gaps relative and absolute in the model's numbers."""

    time_s: float
    rel_gap: float = 1e-9
    abs_gap: float = 1e-7


@dataclass(frozen=True, slots=True)
class Answer:
    """A solver's answer in the model's own numbers.

    ``values`` by column name, as the solver gave them (0.9999991 for 1). ``bound`` is a proven
    lower bound of the model, None when there is none.
    """

    status: SolveStatus
    values: Mapping[str, float] | None
    objective: float | None
    bound: float | None
    detail: str = ""


class Backend(Protocol):
    """One solver. ``start`` is a feasible point by column name, possibly partial."""

    name: str

    def solve(
        self,
        model: pulp.LpProblem,
        limits: Limits,
        *,
        relax: bool = False,
        start: Mapping[str, float] | None = None,
        fixed: Mapping[str, float] | None = None,
        watch: Watcher | None = None,
    ) -> Answer:
        """Minimise ``model``; ``relax`` drops integrality, ``fixed`` pins columns.

        Never runs longer than ``limits.time_s`` by more than a second or so: the process that
        runs the solver is killed then, and its last incumbent is the answer.
        """

    def cancel(self) -> None:
        """End the solve that runs in another thread; it returns what it has found so far."""

    def close(self) -> None:
        """End what is kept from solve to solve; the next solve starts it again."""
