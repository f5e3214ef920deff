"""Search over graphs too large for the full program alone: neighbourhoods beside the proof.

One process runs the full program for the bound, another solves neighbourhoods of the best plan one
after the other; both end when the gap is closed or the time is over. The bound starts at the LP
relaxation. Which plan is best when the gap closes depends on the speed of both processes: plans of
large graphs are as good as their gap says, but not the same in each run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from poet_mcu.ir.schedule import Schedule
from poet_mcu.schedule.backend import Answer, Backend, Limits, SolveStatus
from poet_mcu.schedule.decode import decode
from poet_mcu.schedule.ilp import Formulation, Switches, formulate
from poet_mcu.schedule.improve import latest, rens, restrict, rins, support, used, window
from poet_mcu.schedule.problem import Problem
from poet_mcu.schedule.start import decisions_of, point_of
from poet_mcu.schedule.touch import Layout, Slot

#: seconds of one sub-problem, at least and at most, and the share of the time left between them
LEAST_S, MOST_S, SHARE = 3.0, 15.0, 0.1
#: candidates per stage in the first neighbourhood where there is no LP to choose them
DEPTH = 8
#: optional slots of the first window, and its growth when it is solved well within its time
WINDOW_SLOTS, GROWTH = 300, 1.5
#: without a process beside it the loop leaves this share of the time to the full program
FULL_SHARE = 0.4
#: sub-problems end at this part of the gaps that end the search
FINER = 0.1


@dataclass(slots=True)
class LargeSearch:
    """What the search needs of its caller.

    ``offer`` takes a plan and tells whether it is valid, ``best`` gives the best one, ``bound``
    takes proven joules, ``near`` tells when to stop. ``beside`` runs the full program in parallel;
    None: it runs after the neighbourhoods, with ``backend``.
    """

    problem: Problem
    backend: Backend
    beside: Backend | None
    paging: bool
    gaps: tuple[float, float]
    left_s: Callable[[], float]
    offer: Callable[[Schedule], bool]
    best: Callable[[], Schedule | None]
    bound: Callable[[float], None]
    near: Callable[[], bool]
    proven_none: bool = field(default=False, init=False)

    def run(self, slots: Layout) -> SolveStatus:
        """Search over ``slots``. INFEASIBLE only when the full program is proven to be.

        Ctrl-C ends the search early when there is a plan.
        """
        if self.paging:
            self.attempt(slots, set())  # small, and often near the best
        form = formulate(self.problem, slots, Switches(self.paging))
        chosen = self.relaxed(slots, form)
        if not self.near():
            self.attempt(slots, chosen | used(slots, self.best()), pin=True)
        if not self.near():
            self.beside_or_after(slots, form, chosen)
        if self.proven_none and self.best() is None:
            return SolveStatus.INFEASIBLE
        if self.near():
            return SolveStatus.OPTIMAL
        return SolveStatus.TIMEOUT if self.best() is None else SolveStatus.FEASIBLE

    def relaxed(self, slots: Layout, form: Formulation) -> set[Slot]:
        """The bound of the LP relaxation, and the slots that it runs."""
        lp = self.backend.solve(form.model, Limits(max(self.left_s(), 0.1)), relax=True)
        if lp.status is not SolveStatus.OPTIMAL or lp.values is None:
            return latest(slots, DEPTH)
        self.note(form, lp)
        return support(slots, form, lp.values)

    def note(self, form: Formulation, answer: Answer) -> None:
        """Keep the bound of ``answer``."""
        if answer.bound is not None:
            self.bound(form.offset + answer.bound / form.scale)

    def beside_or_after(self, slots: Layout, form: Formulation, chosen: set[Slot]) -> None:
        """Neighbourhoods, and the full program in a second process or behind them."""
        if self.beside is None:
            reserve_s = FULL_SHARE * self.left_s()
            self.neighbourhoods(slots, chosen, lambda: self.left_s() <= reserve_s)
            if not self.near():
                self.take(slots, form, self.prove(self.backend, slots, form))
            return
        found: list[Answer] = []
        beside = self.beside

        def work() -> None:
            found.append(self.prove(beside, slots, form))
            self.backend.cancel()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            self.neighbourhoods(slots, chosen, lambda: not thread.is_alive())
            while thread.is_alive() and not self.near() and self.left_s() > 0:
                thread.join(0.1)
        finally:
            while thread.is_alive():  # it may not have begun when it is asked to end
                beside.cancel()
                thread.join(0.1)
            for answer in found:
                self.take(slots, form, answer)

    def prove(self, backend: Backend, slots: Layout, form: Formulation) -> Answer:
        """The full program from the best plan."""
        limits = Limits(max(self.left_s(), 0.1), *self.gaps)

        def watch(_: float | None, bound: float) -> None:
            self.bound(form.offset + bound / form.scale)

        return backend.solve(form.model, limits, start=self.start(slots, form), watch=watch)

    def take(self, slots: Layout, form: Formulation, answer: Answer) -> None:
        """Plan and bound of the full program."""
        self.note(form, answer)
        if answer.values is not None:
            self.offer(decode(slots, form.decisions(answer.values)))
        self.proven_none = answer.status is SolveStatus.INFEASIBLE

    def start(self, slots: Layout, form: Formulation) -> dict[str, float] | None:
        """The columns of the best plan."""
        best = self.best()
        decisions = None if best is None else decisions_of(slots, best)
        return None if decisions is None else point_of(slots, form, decisions)

    def neighbourhoods(self, slots: Layout, chosen: set[Slot], over: Callable[[], bool]) -> None:
        """Sub-problems around LP and best plan until ``over``, the gap, or all slots at once.

        A window that is solved well within its time makes the next ones larger, one that is not
        solved makes them smaller.
        """
        self.attempt(slots, chosen | used(slots, self.best()), near_best=True)
        if not (over() or self.near()):
            self.attempt(slots, chosen | used(slots, self.best()))
        total = sum(not slot.base for slot in slots.slots)
        count, number = WINDOW_SLOTS, 0
        while not (over() or self.near() or self.left_s() < LEAST_S):
            began_s, given_s = time.monotonic(), self.share_s()
            inside = window(slots, number, count)
            solved = self.attempt(slots, inside | used(slots, self.best()))
            if solved and len(inside) >= total:
                return
            if solved and time.monotonic() - began_s < given_s / 2:
                count = min(int(GROWTH * count), total)
            elif not solved:
                count = max(int(count / GROWTH), 1)
            number += 1

    def share_s(self) -> float:
        """Seconds for the next sub-problem."""
        return min(MOST_S, max(LEAST_S, SHARE * self.left_s()), max(self.left_s(), 0.1))

    def attempt(
        self,
        slots: Layout,
        chosen: Collection[Slot],
        *,
        pin: bool = False,
        near_best: bool = False,
    ) -> bool:
        """Solve with ``chosen`` as the only optional slots; whether it was solved to its gap.

        ``pin`` fixes what the small program's own relaxation leaves integral (RENS), ``near_best``
        where that and the best plan agree (RINS).
        """
        small = restrict(slots, chosen)
        form = formulate(self.problem, small, Switches(self.paging))
        start = self.start(small, form)
        limits = Limits(self.share_s(), *(FINER * gap for gap in self.gaps))
        fixed: dict[str, float] = {}
        if pin or near_best:
            lp = self.backend.solve(form.model, limits, relax=True)
            if lp.values is None or (near_best and start is None):
                return False
            fixed = rens(form, lp.values) if pin else rins(form, lp.values, start or {})
        start = None if pin else start
        answer = self.backend.solve(form.model, limits, fixed=fixed, start=start)
        if answer.values is not None:
            self.offer(decode(small, form.decisions(answer.values)))
        return answer.status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE)
