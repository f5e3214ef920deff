"""Search over graphs too large for the full program alone: neighbourhoods beside the proof.

One process runs the full program for the bound, another solves neighbourhoods of the best plan one
after the other, and when these give nothing more the program without the memory rows of optional
slots, whose bound holds too; both end when the gap is closed or the time is over. The bound starts
at the LP relaxation of the latter. Runs that cost more than the best plan has above the base energy
are no part of any program: no better plan has them. Which plan is best when the gap closes depends
on the speed of both processes: plans of large graphs are as good as their gap says, but not the
same in each run.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

from poet_mcu.ir.schedule import Schedule
from poet_mcu.schedule.backend import Answer, Backend, Limits, SolveStatus
from poet_mcu.schedule.decode import decode
from poet_mcu.schedule.goals import Switches
from poet_mcu.schedule.ilp import Formulation, formulate
from poet_mcu.schedule.improve import (
    affordable,
    latest,
    rens,
    restrict,
    rins,
    support,
    used,
    window,
)
from poet_mcu.schedule.problem import Problem
from poet_mcu.schedule.start import start_of
from poet_mcu.schedule.touch import Layout, Slot

T = TypeVar("T")

#: seconds of one sub-problem, at least and at most, and the share of the time left between them
LEAST_S, MOST_S, SHARE = 3.0, 15.0, 0.1
#: candidates per stage in the first neighbourhood where there is no LP to choose them
DEPTH = 8
#: optional slots of the first window, and its growth when it is solved well within its time
WINDOW_SLOTS, GROWTH = 300, 1.5
#: without a process beside it the loop leaves this share of the time to the full program
FULL_SHARE = 0.4
#: a window that finds nothing so often in a row ends them while there is another way to the bound
STALE_WINDOWS = 12
#: programs of more optional slots are proven without the memory rows of these slots alone: their
#: nonzeros grow with the square of it, and the root relaxation with them would take minutes
TIGHT_SLOTS = 7000
#: rounding of sums when a run's cost is compared with what is left for it
MARGIN = 1e-9
#: how a solve ends that leaves nothing to find
PROVEN = (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE)
#: seconds between two looks at the second thread
POLL_S = 0.05
#: sub-problems end at this part of the gaps that end the search
FINER = 0.1


class Beside(Generic[T]):
    """Work in a second thread, which waits for a solver's process; cancelled at the end."""

    def __init__(self, work: Callable[[], T], backend: Backend) -> None:
        self.result: T | None = None
        self._fault: BaseException | None = None
        self._work = work
        self._backend = backend
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as fault:  # noqa: BLE001 - raised again in the first thread
            self._fault = fault

    @property
    def alive(self) -> bool:
        """Whether the work goes on."""
        return self._thread.is_alive()

    def wait(self, left_s: Callable[[], float], enough: Callable[[], bool]) -> None:
        """Until the work is done or not needed any more."""
        while self.alive and left_s() > 0 and not enough():
            self._thread.join(POLL_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        while self.alive:  # the solve may not have begun when it is asked to end
            self._backend.cancel()
            self._thread.join(POLL_S)
        if self._fault is not None:
            raise self._fault


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The slots that the relaxation of the loose program runs, and the seconds that took."""

    chosen: set[Slot]
    spent_s: float


@dataclass(slots=True)
class LargeSearch:
    """What the search needs of its caller.

    ``offer`` takes a plan and tells whether it is valid, ``best`` gives the best one, ``best_j``
    its joules (infinite without one), ``bound`` takes proven joules, ``claim`` those of a running
    solve by its name, ``near`` tells when to stop. ``beside`` runs the full program in parallel;
    None: it runs behind the neighbourhoods, with ``backend``.
    """

    problem: Problem
    backend: Backend
    beside: Backend | None
    paging: bool
    gaps: tuple[float, float]
    left_s: Callable[[], float]
    offer: Callable[[Schedule], bool]
    best: Callable[[], Schedule | None]
    best_j: Callable[[], float]
    bound: Callable[[float], None]
    claim: Callable[[str, float], None]
    near: Callable[[], bool]
    proven_none: bool = field(default=False, init=False)
    windows: int = field(default=0, init=False)

    def run(self, slots: Layout) -> SolveStatus:
        """Search over ``slots``. INFEASIBLE only when the full program is proven to be."""
        if self.paging:
            self.alone(slots)
        slots = self.affordable(slots)
        relaxed = self.relaxation(slots)
        chosen = latest(slots, DEPTH) if relaxed is None else relaxed.chosen
        if not self.near():
            self.attempt(slots, chosen | used(slots, self.best()), pin=True)
        if not self.near():
            self.full(self.affordable(slots), chosen, relaxed)
        if self.proven_none and self.best() is None:
            return SolveStatus.INFEASIBLE
        if self.near():
            return SolveStatus.OPTIMAL
        return SolveStatus.TIMEOUT if self.best() is None else SolveStatus.FEASIBLE

    def affordable(self, slots: Layout) -> Layout:
        """``slots`` without what neither deadline nor the best plan's energy leave room for."""
        limit_s, floor_s = self.problem.deadline_s, self.problem.floor_s
        spare_s = math.inf if limit_s is None else (limit_s - floor_s) * (1 + MARGIN)
        return affordable(slots, self.most_j() - self.problem.floor_j, spare_s)

    def most_j(self) -> float:
        """What a better plan needs at most; infinite while there is no plan."""
        return self.best_j() * (1 + MARGIN)

    def program(self, slots: Layout, *, paging: bool = True, loose: bool = False) -> Formulation:
        """The integer program over ``slots`` for plans better than the best."""
        paging = self.paging and paging
        return formulate(self.problem, slots, Switches(paging, loose=loose, best_j=self.most_j()))

    def alongside(self, slots: Layout, prove: Callable[[Backend], Answer]) -> Answer | None:
        """Neighbourhoods while ``prove`` runs in the second process; its answer, if it had one."""
        beside = self.beside or self.backend

        def work() -> Answer:
            answer = prove(beside)
            self.backend.cancel()
            return answer

        with Beside(work, beside) as running:
            if self.paging:
                self.alone(slots)
            self.neighbourhoods(slots, latest(slots, DEPTH), lambda: not running.alive)
            running.wait(self.left_s, self.near)
        return running.result

    def alone(self, slots: Layout) -> None:
        """Plans with one means: small programs, and often near the best."""
        self.attempt(slots, set())
        self.attempt(slots, latest(slots, DEPTH), pin=True, paging=False)

    def relaxation(self, slots: Layout) -> Relaxed | None:
        """The full program relaxed, with neighbourhoods beside it; None when time was short."""
        if self.beside is None:
            return self.relax(self.backend, slots)
        beside = self.beside
        with Beside(lambda: self.relax(beside, slots), beside) as running:
            near_stages = latest(slots, DEPTH)
            self.neighbourhoods(slots, near_stages, lambda: not running.alive)
            running.wait(self.left_s, self.near)
        return running.result

    def relax(self, backend: Backend, slots: Layout) -> Relaxed | None:
        """The bound of the LP relaxation, and the slots that it runs; None when time was short."""
        began_s = time.monotonic()
        form = self.program(slots, loose=True)
        lp = backend.solve(form.model, Limits(max(self.left_s(), 0.1)), relax=True)
        if lp.status in (SolveStatus.TIMEOUT, SolveStatus.FEASIBLE):
            return None
        found = latest(slots, DEPTH)
        if lp.status is SolveStatus.OPTIMAL and lp.values is not None:
            self.note(form, lp)
            found = support(slots, form, lp.values)
        return Relaxed(found, time.monotonic() - began_s)

    def note(self, form: Formulation, answer: Answer) -> None:
        """Keep the bound of ``answer``."""
        if answer.bound is not None:
            self.bound(form.amount(answer.bound))

    def full(self, slots: Layout, chosen: set[Slot], relaxed: Relaxed | None) -> None:
        """Neighbourhoods, and the full program in a second process or behind them.

        It begins with the relaxation, so it is left out where there is no time for that again.
        """
        loose = len(slots.optional) > TIGHT_SLOTS
        hopeless = relaxed is None or relaxed.spent_s > self.left_s()
        if hopeless or self.beside is None:
            reserve_s = 0.0 if hopeless else FULL_SHARE * self.left_s()
            self.neighbourhoods(slots, chosen, lambda: self.left_s() <= reserve_s)
            if not (hopeless or self.near()):
                self.prove(self.backend, slots, loose=loose)
            return
        beside = self.beside

        def work() -> bool:
            done = self.prove(beside, slots, loose=loose)
            if loose and not (done or self.near() or self.left_s() < LEAST_S):
                done = self.prove(beside, self.affordable(slots), loose=False)
            if done or self.near():
                self.backend.cancel()
            return done

        with Beside(work, beside) as running:
            limit = None if loose else STALE_WINDOWS
            self.neighbourhoods(slots, chosen, lambda: running.result is True, limit)
            if not (loose or running.result or self.near() or self.left_s() < LEAST_S):
                self.prove(self.backend, self.affordable(slots), loose=True)
            running.wait(self.left_s, self.near)

    def prove(self, backend: Backend, slots: Layout, *, loose: bool) -> bool:
        """The full program from the best plan; whether it leaves nothing to find.

        It ends the search of both processes when it closes the gap.
        """
        form = self.program(slots, loose=loose)
        limits = Limits(max(self.left_s(), 0.1), *self.gaps)

        def watch(_: float | None, bound: float) -> None:
            self.claim("loose" if loose else "tight", form.amount(bound))
            if self.near():
                self.backend.cancel()

        answer = backend.solve(form.model, limits, start=self.start(slots, form), watch=watch)
        self.note(form, answer)
        fits = answer.values is not None and self.offer(
            decode(slots, form.decisions(answer.values))
        )
        self.proven_none = self.proven_none or answer.status is SolveStatus.INFEASIBLE
        return answer.status is SolveStatus.INFEASIBLE or (
            answer.status is SolveStatus.OPTIMAL and fits
        )

    def start(self, slots: Layout, form: Formulation) -> dict[str, float] | None:
        """The columns of the best plan."""
        return start_of(slots, form, self.best())

    def neighbourhoods(
        self,
        slots: Layout,
        chosen: set[Slot],
        over: Callable[[], bool],
        stale: int | None = None,
    ) -> None:
        """Sub-problems around LP and best plan until ``over``, the gap, or all slots at once.

        They end too when ``stale`` of them in a row found nothing better. A window that is solved
        well within its time makes the next ones larger, one that is not solved smaller.
        """
        for near_best in (True, False):
            if not (over() or self.near()):
                self.attempt(slots, chosen | used(slots, self.best()), near_best=near_best)
        total = len(slots.optional)
        count, vain, best = WINDOW_SLOTS, 0, self.best()
        while not (over() or self.near() or self.left_s() < LEAST_S or vain == stale):
            self.windows += 1
            began_s, given_s = time.monotonic(), self.share_s()
            inside = window(slots, self.windows, count)
            solved = self.attempt(slots, inside | used(slots, self.best()))
            vain, best = (vain + 1, best) if self.best() is best else (0, self.best())
            if solved and len(inside) >= total:
                return
            if solved and time.monotonic() - began_s < given_s / 2:
                count = min(int(GROWTH * count), total)
            elif not solved:
                count = max(int(count / GROWTH), 1)

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
        paging: bool = True,
    ) -> bool:
        """Solve with ``chosen`` as the only optional slots; whether it was solved to its gap.

        ``pin`` fixes what the small program's own relaxation leaves integral (RENS), ``near_best``
        where that and the best plan agree (RINS). Without ``paging`` nothing is paged.
        """
        small = restrict(slots, chosen)
        form = self.program(small, paging=paging)
        start = self.start(small, form)
        limits = Limits(self.share_s(), *(FINER * gap for gap in self.gaps))
        fixed: dict[str, float] = {}
        if pin or near_best:
            lp = self.backend.solve(form.model, limits, relax=True)
            if lp.values is None or (near_best and start is None):
                return False
            fixed = rens(form, lp.values) if pin else rins(form, lp.values, start or {})
        begin = None if pin else start
        answer = self.backend.solve(form.model, limits, fixed=fixed, start=begin)
        if pin and answer.status is SolveStatus.INFEASIBLE:
            answer = self.backend.solve(form.model, limits, start=start)
        if answer.values is not None:
            self.offer(decode(small, form.decisions(answer.values)))
        return answer.status in PROVEN
