"""One graph -> schedule -> placement -> program within the budget, every level verified.

The sum of live bytes is a lower bound of what a packing needs; where the packing exceeds the
budget, the planner gets that much less and solves again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from poet_mcu.board.schema import Board
from poet_mcu.errors import Infeasible
from poet_mcu.ir.graph import Graph
from poet_mcu.ir.placement import ArenaPart, Placement
from poet_mcu.ir.program import PageRange, Program
from poet_mcu.ir.schedule import Schedule
from poet_mcu.ir.verify_placement import verify_placement
from poet_mcu.ir.verify_program import verify_program
from poet_mcu.ir.verify_schedule import verify_schedule
from poet_mcu.lower.lower import lower
from poet_mcu.memory.pack import NODE_BUDGET, place
from poet_mcu.memory.pages import region_end_block
from poet_mcu.pipeline.options import Options
from poet_mcu.schedule import (
    Metrics,
    Problem,
    Solution,
    SolveOptions,
    SolveStatus,
    fits,
    free_early,
    keep_all,
    minimum_memory,
    page_all,
    recompute_all,
    simulate,
    solve,
    sqrt_checkpoints,
    thrifty,
)
from poet_mcu.schedule.pricing import (
    home_bytes,
    make_problem,
    not_recomputable,
    padded_sizes,
    workspaces,
)
from poet_mcu.units import round_down, round_up

FEW_NODES = 2_000  # of a packing's search where many plans are tried
PAGE_STATE_BYTES = 8  # sizeof(poet_page_state); the generated code asserts it
PAGE_ALIGNMENT_BLOCKS = 8  # 4 KiB: the common program unit of a card's flash, so no page straddles

BASELINES: Mapping[str, Callable[[Problem], Schedule]] = {
    "keep-all": keep_all,
    "free-early": free_early,
    "page-all": page_all,
    "recompute-all": recompute_all,
    "sqrt-checkpoints": sqrt_checkpoints,
}


@dataclass(frozen=True, slots=True)
class Budget:
    """RAM of the board: all of it, and what is taken beside the arena.

    ``runtime_bytes`` are stack, statics and a page state for every value that may be paged. The
    states are reserved whether a plan uses them or not: a plan's peak then does not depend on how
    many pages it has, and more RAM never makes a plan worse. ``parts`` are those of the arena that
    are not in the main RAM, and part of ``ram_bytes``.
    """

    ram_bytes: int
    runtime_bytes: int
    parts: tuple[ArenaPart, ...] = ()

    @property
    def arena_bytes(self) -> int:
        """What is left for the arena."""
        return self.ram_bytes - self.runtime_bytes

    @property
    def part_facts(self) -> dict[str, list[dict[str, Any]]]:
        """``arena_parts`` of plan.json, which only a board with such parts has."""
        return {"arena_parts": [asdict(part) for part in self.parts]} if self.parts else {}


def budget_of(
    board: Board, ram_bytes: int, graphs: Sequence[Graph] = (), *, paging: bool = True
) -> Budget:
    """The split of a budget on a board, for the steps of ``graphs``."""
    pageable = sum(t.pageable for g in graphs for t in make_problem(g, board, 0).tensors)
    states = PAGE_STATE_BYTES * pageable if paging else 0
    parts = board.parts_within(ram_bytes)
    usable = board.sram_within(ram_bytes) + parts[-1].end if parts else ram_bytes
    runtime = board.runtime.reserved_bytes + states
    return Budget(usable, runtime, parts)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A planned step. ``solution`` is None for a baseline strategy, which no solver made."""

    graph: Graph
    problem: Problem
    schedule: Schedule
    metrics: Metrics
    solution: Solution | None
    placement: Placement
    program: Program
    home_bytes: int
    region_blocks: int

    @property
    def card_homes(self) -> Mapping[str, PageRange]:
        """Pages of the values that live on the card, by the value's name."""
        names = {v: self.graph.values[v].name for v in self.graph.card_homes}
        return {names[p.value]: p for p in self.program.pages if p.value in names}

    @property
    def arena_peak_bytes(self) -> int:
        """Largest sum of live arena bytes: parameters, values, workspace, all padded."""
        return self.home_bytes + self.metrics.peak_bytes

    @property
    def ram_bytes(self) -> int:
        """The arena as placed."""
        return self.placement.arena_bytes


@dataclass(frozen=True, slots=True)
class StepSettings:
    """What differs between the steps of one plan: training and evaluation share the card."""

    name: str
    strategy: str
    deadline_s: float | None = None
    first_page: int = 0
    first_block: int = 1
    max_write_bytes: int | None = None
    shared_homes: Mapping[str, PageRange] = field(  # by name, of another step
        default_factory=lambda: MappingProxyType({})
    )

    @property
    def optimal(self) -> bool:
        """Whether a solver looks for the plan of least energy."""
        return self.strategy == "optimal"


class NoPlan(Infeasible):
    """The planner proved that nothing fits; carries the problem so that a caller can explain."""

    def __init__(self, problem: Problem, reason: str) -> None:
        super().__init__(reason)
        self.problem = problem


def solve_options(options: Options) -> SolveOptions:
    """The planner's view of the options."""
    return SolveOptions(
        paging=options.paging,
        remat=options.remat,
        solver=options.solver,
        time_limit_s=options.time_limit_s,
    )


def plan_step(
    graph: Graph, board: Board, options: Options, budget: Budget, settings: StepSettings
) -> StepPlan:
    """Plan one graph. Raises NoPlan when no schedule or no placement fits.

    Shrinks what the planner gets by the excess of the placed plan; where that goes below what any
    plan needs, searches between the two by halves, and ends with the plan of least memory, from
    which it leaves out what can be left out. So does a search that runs out of time without any
    plan.
    """
    alignment = board.arena.alignment_bytes
    cheapest: StepPlan | None = None
    too_small, too_large = -1, max(0, budget.arena_bytes) + 1
    memory = max(0, budget.arena_bytes)
    while too_small < memory < too_large:
        try:
            plan = _attempt(graph, board, options, memory, settings, budget.parts)
        except NoPlan as error:
            if memory >= budget.arena_bytes:
                if str(error) == SolveStatus.INFEASIBLE.value or not settings.optimal:
                    raise
                break  # out of time: the plan of least memory is found by another search
            too_small = memory
            memory = round_down((too_small + too_large) // 2, alignment)
            continue
        cheapest = cheapest or plan
        excess = plan.ram_bytes - budget.arena_bytes
        if excess <= 0:
            return plan if plan is cheapest else _instead_of(cheapest, plan)
        too_large = memory
        memory -= round_up(excess, alignment)
        if memory <= too_small:
            memory = round_down((too_small + too_large) // 2, alignment)
    frugal = _frugal(graph, board, options, budget, settings)
    if frugal is not None:
        return _instead_of(cheapest or frugal, frugal)
    problem = make_problem(graph, board, budget.arena_bytes, settings.deadline_s)
    raise NoPlan(problem, f"no packing within {budget.ram_bytes} bytes was found")


def _frugal(
    graph: Graph, board: Board, options: Options, budget: Budget, settings: StepSettings
) -> StepPlan | None:
    """The plan of least memory without its needless moves, if it fits where no cheaper one did."""
    problem = make_problem(
        graph, board, budget.arena_bytes, settings.deadline_s, settings.max_write_bytes
    )
    smallest = minimum_memory(problem, solve_options(options))
    if not fits(problem, simulate(problem, smallest.schedule)):
        return None  # it may miss the deadline or the limit on writes
    plan = _placed(graph, board, problem, smallest.schedule, None, settings, budget.parts)
    if plan.ram_bytes > budget.arena_bytes:
        return None
    if not settings.optimal:
        return plan
    plan = _thrifty(plan, board, options, budget, settings)
    return replace(plan, solution=_unproven(plan, options))


def _thrifty(
    plan: StepPlan, board: Board, options: Options, budget: Budget, settings: StepSettings
) -> StepPlan:
    """``plan`` without page-ins and recomputes, one by one, as long as it can be placed."""
    until_s = time.monotonic() + options.time_limit_s

    def keep(fewer: Schedule) -> bool:
        nonlocal plan
        if time.monotonic() > until_s:
            return False
        tried = _placed(
            plan.graph, board, plan.problem, fewer, None, settings, budget.parts, FEW_NODES
        )
        if tried.ram_bytes > budget.arena_bytes:
            return False
        plan = tried
        return True

    thrifty(plan.problem, plan.schedule, solve_options(options), keep)
    return plan


def _unproven(plan: StepPlan, options: Options) -> Solution:
    """A plan that no search for the least energy has found: its bound is every operator once."""
    energy_j, bound_j = plan.metrics.energy_j, plan.problem.floor_j
    proven_j = bound_j - plan.problem.base_j
    return Solution(
        SolveStatus.FEASIBLE,
        plan.schedule,
        plan.metrics,
        energy_j,
        bound_j,
        (energy_j - bound_j) / energy_j,
        (energy_j - bound_j) / proven_j if proven_j > 0 else None,
        options.time_limit_s,
        options.solver,
    )


def _instead_of(cheaper: StepPlan, taken: StepPlan) -> StepPlan:
    """``taken`` with the bound that was proven for the cheaper plan, which does not fit."""
    solution = cheaper.solution
    if solution is None:
        return taken
    energy = taken.metrics.energy_j
    bound = solution.lower_bound_j
    base = taken.problem.base_j
    shown = replace(
        solution,
        status=SolveStatus.FEASIBLE,
        schedule=taken.schedule,
        metrics=taken.metrics,
        objective_j=energy,
        gap=(energy - bound) / energy,
        overhead_gap=(energy - bound) / (bound - base) if bound > base else None,
    )
    return replace(taken, solution=shown)


def least_ram(
    graph: Graph, board: Board, options: Options, budget: Budget, settings: StepSettings
) -> tuple[int, int]:
    """(bytes of RAM that a placed plan needs at the least budget, bytes proven to be needed).

    Parameters, runtime, page states and fragmentation are counted; no deadline. The first is more
    than the board has where nothing was placed in its parts.
    """
    problem = make_problem(graph, board, budget.arena_bytes)
    homes = budget.arena_bytes - problem.memory_bytes
    smallest = minimum_memory(problem, solve_options(options))
    tight = replace(problem, memory_bytes=smallest.bytes)
    fixed = budget.runtime_bytes
    given = 0
    while True:  # each turn gives the arena's parts more, until nothing is missing or they end
        parts = board.parts_within(given)
        plan = _placed(graph, board, tight, smallest.schedule, None, settings, parts)
        needed = plan.ram_bytes + fixed
        if needed <= given or parts == board.parts_within(needed):
            return needed, smallest.proven_bytes + homes + fixed
        given = needed


def _attempt(
    graph: Graph,
    board: Board,
    options: Options,
    arena_bytes: int,
    settings: StepSettings,
    parts: tuple[ArenaPart, ...],
) -> StepPlan:
    problem = make_problem(graph, board, arena_bytes, settings.deadline_s, settings.max_write_bytes)
    schedule, solution = _schedule(problem, options, settings.strategy)
    return _placed(graph, board, problem, schedule, solution, settings, parts)


def _placed(
    graph: Graph,
    board: Board,
    problem: Problem,
    schedule: Schedule,
    solution: Solution | None,
    settings: StepSettings,
    parts: tuple[ArenaPart, ...],
    nodes: int = NODE_BUDGET,
) -> StepPlan:
    """The schedule, verified, placed and lowered."""
    metrics = simulate(problem, schedule)
    alignment, first_block = board.arena.alignment_bytes, settings.first_block
    sizes, scratch = padded_sizes(graph, alignment), workspaces(graph)
    homes = home_bytes(graph, sizes)
    capacity = problem.memory_bytes + homes
    verify_schedule(graph, schedule, sizes, not_recomputable(graph))
    shared = settings.shared_homes
    homed = {v.id: shared[v.name] for v in graph.values if v.name in shared}
    placement = place(
        graph, schedule, sizes, scratch, alignment, capacity, first_block, PAGE_ALIGNMENT_BLOCKS,
        nodes, home_blocks={value: page.first_block for value, page in homed.items()}, parts=parts,
    )  # fmt: skip
    region = region_end_block(placement.pages, first_block)
    verify_placement(
        graph, schedule, sizes, scratch, placement, None, region,
        1 if homed else first_block, PAGE_ALIGNMENT_BLOCKS, alignment, parts,
    )  # fmt: skip
    numbers = {value: page.number for value, page in homed.items()}
    program = lower(graph, schedule, placement, sizes, settings.name, settings.first_page, numbers)
    verify_program(graph, schedule, placement, program, region)
    return StepPlan(graph, problem, schedule, metrics, solution, placement, program, homes, region)


def _schedule(
    problem: Problem, options: Options, strategy: str
) -> tuple[Schedule, Solution | None]:
    if strategy == "optimal":
        solution = solve(problem, solve_options(options))
        if solution.schedule is None:
            raise NoPlan(problem, solution.status.value)
        return solution.schedule, solution
    schedule = BASELINES[strategy](problem)
    metrics = simulate(problem, schedule)
    if not fits(problem, metrics):
        raise NoPlan(problem, "infeasible")
    return schedule, None
