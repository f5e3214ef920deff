"""From a problem to the plan of least energy: bounds, baselines, integer program, simulation."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pulp

from poet_mcu.ir.schedule import ActionKind, Schedule
from poet_mcu.schedule.backend import Answer, Backend, Limits, SolveStatus, Watcher
from poet_mcu.schedule.baselines import free_early, page_all, recompute_all
from poet_mcu.schedule.bounds import largest_working_set
from poet_mcu.schedule.cbc import Cbc
from poet_mcu.schedule.decode import decode
from poet_mcu.schedule.executor import TIME_SLACK, Metrics, check_budget, fits, simulate
from poet_mcu.schedule.goals import Switches
from poet_mcu.schedule.highs import Highs
from poet_mcu.schedule.ilp import SCALE, Formulation, formulate
from poet_mcu.schedule.options import Progress, Solution, SolveOptions
from poet_mcu.schedule.problem import Problem
from poet_mcu.schedule.search_bus import BusSearch
from poet_mcu.schedule.search_large import LargeSearch
from poet_mcu.schedule.start import start_of
from poet_mcu.schedule.touch import Layout, layout

#: up to so many slots the forward part may recompute too and optima are proven to 1e-9
EXACT_SLOTS = 1500
#: up to so many slots (with two runs of every candidate a stage) recomputes may descend once
DESCENT_SLOTS = 300
#: up to so many slots the full program is solved alone, and a second solve picks one of equally
#: good plans; beyond, neighbourhoods run beside it
STABLE_SLOTS = 600
#: gaps of exact solves, relative and absolute, in the model's numbers
REL_GAP = 1e-9
ABS_GAP = 1e-7
#: larger problems stop at 1 % of the overhead, at 5 % of it when that is 0.01 % of the total, or
#: at 0.0001 % of the total
OVERHEAD_GAP = 1e-2
TOTAL_GAP, TOTAL_OVERHEAD_GAP = 1e-4, 5e-2
CLOSE_GAP = 1e-6
#: a gap of this share of the total is the rounding of sums and of solvers
CLOSED_GAP = 1e-8


#: the answer of a full program that was stopped before it had one
LATE = Answer(SolveStatus.TIMEOUT, None, None, None, "stopped")
#: what a search that found no plan ended with; only a proof makes it INFEASIBLE
_WITHOUT_PLAN = {
    SolveStatus.OPTIMAL: SolveStatus.ERROR,
    SolveStatus.FEASIBLE: SolveStatus.TIMEOUT,
}

#: one of each for the whole process: HiGHS keeps its worker
BACKENDS: dict[str, Backend] = {"highs": Highs(), "cbc": Cbc()}
#: the same for the full program that runs beside the search
BESIDE: dict[str, Backend] = {"highs": Highs(), "cbc": Cbc()}


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule with its simulated costs."""

    schedule: Schedule
    metrics: Metrics


def feasible_baselines(problem: Problem, options: SolveOptions) -> list[Plan]:
    """The baselines that hold budget and deadline and use only what is allowed, best first."""
    makers = [free_early]
    makers += [page_all] if options.paging else []
    makers += [recompute_all] if options.remat else []
    plans = []
    for make in makers:
        schedule = make(problem)
        plans.append(Plan(schedule, simulate(problem, schedule)))
    good = [plan for plan in plans if fits(problem, plan.metrics)]
    return sorted(good, key=lambda plan: plan.metrics.energy_j)


def allowed(options: SolveOptions, schedule: Schedule) -> bool:
    """Whether ``schedule`` keeps to what may be used."""
    paged = any(action.kind is ActionKind.PAGE_IN for action in schedule.actions)
    again = any(action.recompute for action in schedule.actions)
    return (options.paging or not paged) and (options.remat or not again)


def full_layout(problem: Problem, options: SolveOptions) -> tuple[Layout, bool]:
    """The slots to plan over, and whether they are all there are for this order."""
    if not options.remat:
        return layout(problem, remat=False, forward=False), True
    full = layout(problem, remat=True, forward=True)
    if 2 * len(full.slots) <= DESCENT_SLOTS:
        return layout(problem, remat=True, forward=True, rounds=2), True
    if options.forward_recompute or len(full.slots) <= EXACT_SLOTS:
        return full, True
    return layout(problem, remat=True, forward=False), False


def proven_infeasible(problem: Problem, options: SolveOptions) -> bool:
    """Whether one op alone exceeds the budget, or the base run the deadline."""
    need, _ = largest_working_set(problem, paging=options.paging, remat=options.remat)
    late = problem.deadline_s is not None and problem.floor_s > problem.deadline_s * (
        1 + TIME_SLACK
    )
    written = sum(t.nbytes for t in problem.forced_writes)
    worn = problem.max_write_bytes is not None and written > problem.max_write_bytes
    return need > problem.memory_bytes or late or worn


def solve(
    problem: Problem, options: SolveOptions | None = None, *, backend: Backend | None = None
) -> Solution:
    """The plan of least energy for the order of the problem's ops, proven as far as time allows.

    ``backend`` replaces the solver that ``options`` names. Raises ToolMissing when it is absent.
    """
    options = options or SolveOptions()
    if backend is not None:
        return _Search(problem, options, backend, None).run()
    return _Search(problem, options, BACKENDS[options.solver], BESIDE[options.solver]).run()


class _Search:
    """One call of ``solve``."""

    def __init__(
        self, problem: Problem, options: SolveOptions, backend: Backend, beside: Backend | None
    ) -> None:
        self.problem = problem
        self.options = options
        self.backend = backend
        self.beside = beside
        self.lock = threading.Lock()
        self.began_s = time.monotonic()
        self.best: Plan | None = None
        self.lower_j = problem.floor_j
        self.claims_j: dict[str, float] = {}
        self.exact = True

    @property
    def left_s(self) -> float:
        return self.options.time_limit_s - (time.monotonic() - self.began_s)

    def run(self) -> Solution:
        if proven_infeasible(self.problem, self.options):
            return self.solution(SolveStatus.INFEASIBLE)
        for plan in feasible_baselines(self.problem, self.options):
            self.offer(plan.schedule)
        for schedule in self.options.starts:
            if allowed(self.options, schedule):
                self.offer(schedule)
        if self.best is not None and self.best.metrics.energy_j <= self.problem.floor_j * (
            1 + 1e-12
        ):
            return self.solution(SolveStatus.OPTIMAL)
        try:
            return self.solution(self.search_all())
        except KeyboardInterrupt:
            if self.best is None:
                raise
            return self.solution(SolveStatus.FEASIBLE)

    def search_all(self) -> SolveStatus:
        """Search over the slots that the graph's size allows, over all if they hold no plan."""
        slots, complete = full_layout(self.problem, self.options)
        search = self.search_bus if self.problem.overlap else self.search
        status = search(slots)
        if status is SolveStatus.INFEASIBLE and not complete:
            status = search(layout(self.problem, remat=True, forward=True))
        return status

    def search_bus(self, slots: Layout) -> SolveStatus:
        """Solve over ``slots`` with transfers beside compute."""
        self.exact = len(slots.slots) <= EXACT_SLOTS

        def exhausted() -> None:
            if self.best is not None:
                self.bound(self.best.metrics.energy_j)

        gaps = (REL_GAP, ABS_GAP) if self.exact else (OVERHEAD_GAP, TOTAL_GAP * SCALE)
        bus = BusSearch(
            self.problem, self.backend, self.options.paging, gaps,
            lambda: self.left_s, self.offer, self.bound, self.done, exhausted,
        )  # fmt: skip
        return bus.run(slots)

    def done(self) -> bool:
        """Whether the best plan is as good as the size of the graph asks for."""
        return self.closed() if self.exact else self.near()

    def offer(self, schedule: Schedule) -> bool:
        """Keep ``schedule`` when it is valid, fits and is better; whether it fits."""
        metrics = simulate(self.problem, schedule)
        if not fits(self.problem, metrics):
            return False
        if self.best is None or metrics.energy_j < self.best.metrics.energy_j:
            self.best = Plan(schedule, metrics)
            self.tell()
        return True

    def search(self, slots: Layout) -> SolveStatus:
        """Solve over ``slots``; keeps the best plan and bound. What the solver ended with."""
        self.exact = len(slots.slots) <= EXACT_SLOTS
        if not self.exact:
            return self.search_large(slots)
        form = formulate(self.problem, slots, Switches(paging=self.options.paging))
        start, watch = self.start(slots, form), self.watcher(form)

        def prove(backend: Backend) -> Answer:
            limits = Limits(self.left_s, REL_GAP, ABS_GAP)
            return backend.solve(form.model, limits, start=start, watch=watch)

        if len(slots.slots) <= STABLE_SLOTS or self.beside is None:
            answer = prove(self.backend)
        else:
            answer = self.large(self.closed).alongside(slots, prove) or LATE
        self.note(form, answer)
        if answer.values is None:
            return answer.status
        schedule = decode(slots, form.decisions(answer.values))
        if not self.offer(schedule):
            return self.repair(slots, schedule)
        self.prefer(schedule)
        if answer.status is SolveStatus.OPTIMAL and len(slots.slots) <= STABLE_SLOTS:
            self.stabilise(slots, form, answer)
        return answer.status

    def search_large(self, slots: Layout) -> SolveStatus:
        """Neighbourhoods of plans, beside them the full program."""
        return self.large(self.near).run(slots)

    def large(self, near: Callable[[], bool]) -> LargeSearch:
        """The search by neighbourhoods, which ends when ``near``."""
        return LargeSearch(
            self.problem, self.backend, self.beside, self.options.paging,
            (OVERHEAD_GAP, CLOSE_GAP * SCALE), lambda: self.left_s, self.offer,
            lambda: None if self.best is None else self.best.schedule,
            lambda: math.inf if self.best is None else self.best.metrics.energy_j, self.bound,
            self.claim, near,
        )  # fmt: skip

    def closed(self) -> bool:
        """Whether the best plan is proven best."""
        if self.best is None:
            return False
        energy_j = self.best.metrics.energy_j
        return energy_j - self.known_j <= CLOSED_GAP * energy_j

    def prefer(self, schedule: Schedule) -> None:
        """Keep the full program's plan of two as good: the same in each run."""
        metrics = simulate(self.problem, schedule)
        if self.best is None or metrics.energy_j <= self.best.metrics.energy_j * (1 + REL_GAP):
            self.best = Plan(schedule, metrics)

    def bound(self, joules: float) -> None:
        """Keep a proven bound."""
        with self.lock:
            self.lower_j = max(self.lower_j, joules)
            self.tell()

    def claim(self, solve: str, joules: float) -> None:
        """Take the bound of a running solve, which may take it back (``worker.run``)."""
        with self.lock:
            self.claims_j[solve] = joules
            self.tell()

    @property
    def known_j(self) -> float:
        """The best bound, that of a running solve included."""
        return max((self.lower_j, *self.claims_j.values()))

    def near(self) -> bool:
        """Whether the best plan is within the gaps that end the search of a large graph."""
        if self.best is None:
            return False
        energy_j = self.best.metrics.energy_j
        gap_j = energy_j - self.known_j
        share = gap_j / max(self.known_j - self.problem.base_j, 1e-300)
        if share <= OVERHEAD_GAP or gap_j <= CLOSE_GAP * energy_j:
            return True
        return gap_j <= TOTAL_GAP * energy_j and share <= TOTAL_OVERHEAD_GAP

    def tell(self) -> None:
        """Report where the search stands."""
        if self.options.progress is not None:
            best_j = None if self.best is None else self.best.metrics.energy_j
            spent_s = time.monotonic() - self.began_s
            self.options.progress(Progress(spent_s, best_j, self.known_j))

    def note(self, form: Formulation, answer: Answer) -> None:
        """Keep the bound of ``answer``."""
        if answer.bound is not None:
            self.lower_j = max(self.lower_j, form.amount(answer.bound))

    def start(self, slots: Layout, form: Formulation) -> dict[str, float] | None:
        """The columns of the best plan."""
        return start_of(slots, form, None if self.best is None else self.best.schedule)

    def watcher(self, form: Formulation) -> Watcher:
        """Takes the solver's bounds in joules."""

        def watch(_: float | None, bound: float) -> None:
            self.claim("program", form.amount(bound))

        return watch

    def repair(self, slots: Layout, schedule: Schedule) -> SolveStatus:
        """Solve again with a budget and deadline that allow for the solver's tolerance."""
        metrics = simulate(self.problem, schedule)
        tighter = self.problem
        if metrics.peak_bytes > tighter.memory_bytes:
            excess = metrics.peak_bytes - tighter.memory_bytes
            tighter = replace(tighter, memory_bytes=tighter.memory_bytes - excess)
        if tighter.deadline_s is not None and metrics.time_s > tighter.deadline_s:
            late_s = metrics.time_s - tighter.deadline_s
            tighter = replace(tighter, deadline_s=tighter.deadline_s - 2 * late_s)
        form = formulate(tighter, slots, Switches(paging=self.options.paging))
        answer = self.backend.solve(form.model, Limits(max(self.left_s, 0.1)))
        if answer.values is not None:
            self.offer(decode(slots, form.decisions(answer.values)))
        return SolveStatus.FEASIBLE if self.best is not None else SolveStatus.TIMEOUT

    def stabilise(self, slots: Layout, form: Formulation, answer: Answer) -> None:
        """Of the plans as good as the best take the one with fewest and earliest-named actions.

        Solvers and their versions pick different optima; this makes the choice ours.
        """
        if self.best is None or self.left_s < 1.0:
            return
        # from the simulation: a solver may print its objective with eight digits
        optimum = (self.best.metrics.energy_j - form.offset) * form.scale
        unit = SCALE / optimum if optimum > ABS_GAP else 1.0
        row = pulp.LpAffineExpression({v: f * unit for v, f in form.model.objective.items()})
        limit = optimum * unit * (1 + 1e-9)
        form.model.addConstraint(pulp.LpConstraint(row, pulp.LpConstraintLE, "stay", limit))
        columns = [*form.R.values(), *form.z.values(), *form.p.values()]
        # distinct fractional weights make the optimum unique in all but freak cases
        weights = {v: 1.0 + k * 0.6180339887498949 % 1.0 / 100 for k, v in enumerate(columns)}
        form.model.setObjective(pulp.LpAffineExpression(weights))
        again = self.backend.solve(form.model, Limits(self.left_s), start=answer.values)
        if again.status is not SolveStatus.OPTIMAL or again.values is None:
            return
        schedule = decode(slots, form.decisions(again.values))
        metrics = simulate(self.problem, schedule)
        same = metrics.energy_j <= self.best.metrics.energy_j * (1 + 1e-12)
        if same and fits(self.problem, metrics):
            self.best = Plan(schedule, metrics)

    def solution(self, status: SolveStatus) -> Solution:
        """What is known now."""
        self.claims_j.clear()
        spent_s = time.monotonic() - self.began_s
        lower_j, name = self.lower_j, self.backend.name
        if self.best is None:
            failed = _WITHOUT_PLAN.get(status, status)
            return Solution(failed, None, None, None, lower_j, None, None, spent_s, name)
        check_budget(self.problem, self.best.metrics)
        energy_j = self.best.metrics.energy_j
        lower_j = min(lower_j, energy_j)
        gap_j, proven_j = energy_j - lower_j, lower_j - self.problem.base_j
        closed = gap_j <= CLOSED_GAP * energy_j
        done = closed or (self.near() and status is SolveStatus.OPTIMAL and not self.exact)
        overhead_gap = gap_j / proven_j if proven_j > 0 else (0.0 if closed else math.inf)
        return Solution(
            SolveStatus.OPTIMAL if done else SolveStatus.FEASIBLE,
            self.best.schedule,
            self.best.metrics,
            energy_j,
            lower_j,
            gap_j / energy_j if energy_j > 0 else 0.0,
            overhead_gap,
            spent_s,
            name,
        )
