"""Search with transfers beside compute: a relaxation for the bound, the bus program for plans.

The relaxation (``ilp.py`` with overlap) chooses what runs again and bounds every plan; the program
of ``bus.py`` then finds the best transfers for those runs. A choice of runs whose best transfers
are proven is cut off, and the relaxation's next bound holds for all that is left (combinatorial
Benders cuts). So the search ends with a proof where the runs are few, and with an honest gap where
they are many. Running something useless beside a transfer is taken to cost at least as much as
waiting (``wait_w``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pulp

from poet_mcu.errors import InternalError
from poet_mcu.ir.schedule import Schedule
from poet_mcu.schedule.backend import Answer, Backend, Limits, SolveStatus
from poet_mcu.schedule.bus import ANY_LEAD_RUNS, bus_program, layout_of
from poet_mcu.schedule.decode import Visit, emit_windows, prune, visits_of
from poet_mcu.schedule.goals import Goal, Switches
from poet_mcu.schedule.ilp import Formulation, formulate
from poet_mcu.schedule.problem import Problem
from poet_mcu.schedule.touch import Layout

#: of the time left the relaxation of a graph with many choices gets this share
RELAXED_SHARE = 0.5
#: after so many choices of runs the gap stays as it is
MAX_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class BusSearch:
    """What the search needs of its caller.

    ``offer`` takes a plan; ``bound`` a proven bound in joules; ``near`` tells when to stop;
    ``exhausted`` that every choice of runs has its best plan, so that the best of them is proven.
    """

    problem: Problem
    backend: Backend
    paging: bool
    gaps: tuple[float, float]
    left_s: Callable[[], float]
    offer: Callable[[Schedule], bool]
    bound: Callable[[float], None]
    near: Callable[[], bool]
    exhausted: Callable[[], None]

    def run(self, slots: Layout) -> SolveStatus:
        """Search over ``slots``. INFEASIBLE only when every choice of runs is proven to be."""
        switches = Switches(paging=self.paging)
        form = formulate(self.problem, slots, switches)
        found = False
        for _ in range(MAX_ROUNDS):
            share = RELAXED_SHARE if form.R else 0.3
            limits = Limits(max(share * self.left_s(), 0.1), *self.gaps)
            answer = self.backend.solve(form.model, limits)
            if answer.status is SolveStatus.INFEASIBLE:
                self.exhausted()
                return SolveStatus.OPTIMAL if found else SolveStatus.INFEASIBLE
            if answer.bound is not None:
                self.bound(form.amount(answer.bound))
            if answer.values is None:
                return answer.status
            decisions = form.decisions(answer.values)
            visits = prune(slots.steps, visits_of(slots, decisions))
            status = self.refine(slots, visits, whole=not form.R)
            found = found or status is not SolveStatus.INFEASIBLE
            if not form.R:
                return status
            proven = status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE)
            if self.near() or not proven or self.left_s() < 1.0:
                break
            cut_off(form, decisions.recompute)
        return SolveStatus.OPTIMAL if self.near() else SolveStatus.FEASIBLE

    def refine(self, slots: Layout, visits: list[Visit], *, whole: bool) -> SolveStatus:
        """The best transfers for ``visits``; with ``whole`` there are no other runs.

        OPTIMAL only when they are proven best for these runs.
        """
        runs = layout_of(slots.steps, visits)
        program = bus_program(self.problem, runs, Switches(paging=self.paging))
        limits = Limits(max(self.left_s(), 0.1), *self.gaps)
        answer = self.backend.solve(program.form.model, limits)
        free_lead = len(runs.slots) <= ANY_LEAD_RUNS
        if answer.status is SolveStatus.INFEASIBLE:
            return SolveStatus.INFEASIBLE if free_lead else SolveStatus.TIMEOUT
        if answer.values is None:
            return answer.status
        if whole and free_lead and answer.bound is not None:
            self.bound(program.form.amount(answer.bound))
        try:
            schedule = emit_windows(slots.steps, visits, program.windows(answer.values))
            valid = self.offer(schedule)
        except InternalError:
            valid = False  # a solver's number on the edge; the next choice may do
        exact = free_lead and answer.status is SolveStatus.OPTIMAL and valid
        return SolveStatus.OPTIMAL if exact else SolveStatus.FEASIBLE


def cut_off(form: Formulation, recompute: frozenset[int]) -> None:
    """Forbid exactly this choice of optional runs."""
    terms = {var: -1.0 if s in recompute else 1.0 for s, var in form.R.items()}
    row = pulp.LpAffineExpression(terms)
    name = f"cut{len(form.model.constraints)}"
    rhs = 1.0 - len(recompute)
    form.model.addConstraint(pulp.LpConstraint(row, pulp.LpConstraintGE, name, rhs))


def fastest(
    problem: Problem,
    slots: Layout,
    visits: list[Visit],
    backend: Backend,
    limits: Limits,
    *,
    paging: bool,
) -> Schedule | None:
    """The plan of least time with these runs, None when none was found."""
    runs = layout_of(slots.steps, visits)
    program = bus_program(problem, runs, Switches(paging, Goal.TIME))
    answer: Answer = backend.solve(program.form.model, limits)
    if answer.values is None:
        return None
    return emit_windows(slots.steps, visits, program.windows(answer.values))
