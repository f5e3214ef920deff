"""``plan``: the plan of a model on a board, with baselines, bound and gap; or why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from poet_mcu.errors import Infeasible, InternalError
from poet_mcu.ir.placement import CheckpointSlots
from poet_mcu.ir.verify_card import verify_card
from poet_mcu.lower.select import forms
from poet_mcu.memory.slots import place_slots
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.remedies import advice, remedies
from poet_mcu.pipeline.stepplan import (
    BASELINES,
    PAGE_ALIGNMENT_BLOCKS,
    Budget,
    NoPlan,
    StepPlan,
    StepSettings,
    budget_of,
    least_ram,
    plan_step,
    solve_options,
)
from poet_mcu.schedule import (
    Metrics,
    Problem,
    Solution,
    SolveOptions,
    fits,
    largest_working_set,
    shortest_deadline,
    simulate,
    solve,
)
from poet_mcu.schedule.pricing import make_problem
from poet_mcu.training.order import orders
from poet_mcu.units import format_bytes

Progress = Callable[[str], None]

METRIC_KEYS = (
    "energy_j", "compute_j", "sd_j", "wait_j", "time_s", "stall_s", "sd_read_bytes",
    "sd_write_bytes", "recomputes", "page_ins", "page_outs",
)  # fmt: skip


class PlanInfeasible(Infeasible):
    """No plan exists; ``facts`` holds the smallest budget and deadline that work."""

    def __init__(self, message: str, facts: dict[str, Any]) -> None:
        super().__init__(message)
        self.facts = facts


@dataclass(frozen=True, slots=True)
class Plan:
    """Training step and evaluation, planned; ``facts`` is what plan.json holds."""

    prepared: Prepared
    budget: Budget
    train: StepPlan
    evaluation: StepPlan
    slots: CheckpointSlots
    facts: dict[str, Any]

    @property
    def arena_bytes(self) -> int:
        """The arena that both steps use one after the other."""
        return max(self.train.placement.arena_bytes, self.evaluation.placement.arena_bytes)

    @property
    def region_blocks(self) -> int:
        """Blocks of the raw region on the card: header, all pages, both checkpoint slots."""
        return self.slots.end_block


def _quiet(_: str) -> None:
    """No progress."""


def plan(options: Options, progress: Progress = _quiet) -> Plan:
    """Plan a training step and an evaluation.

    Raises PlanInfeasible (exit code 3) with the smallest RAM and the shortest deadline that work,
    ModelError, BoardError and InputError for bad input.
    """
    progress("reading the model")
    prepared = prepare(options)
    for note in prepared.notes:
        progress(note)
    try:
        return _best_order(prepared, progress)
    except PlanInfeasible:
        if options.home_parameters != "auto" or not options.paging:
            raise
    progress("nothing fits with the parameters in RAM: planning them on the card")
    return _best_order(prepare(replace(options, home_parameters="card")), progress)


def budget_for(prepared: Prepared, ram_bytes: int | None = None) -> Budget:
    """The split of the options' budget (or of ``ram_bytes``) for both steps of a plan."""
    graphs = (prepared.train, prepared.evaluation)
    size = prepared.ram_bytes if ram_bytes is None else ram_bytes
    return budget_of(prepared.board, size, graphs, paging=prepared.options.paging)


def _best_order(prepared: Prepared, progress: Progress) -> Plan:
    """The plan of the order that was chosen, or of the one whose training step costs least.

    The first of equally good orders wins; a plan without overhead ends the search.
    """
    if prepared.options.order != "auto":
        return plan_prepared(prepared, progress)
    best: Prepared | None = None
    least_j = math.inf
    budget = budget_for(prepared)
    for name, graph in orders(prepared.train).items():
        progress(f"trying the order {name}")
        chosen = replace(prepared.options, order=name)
        candidate = replace(prepared, train=graph, options=chosen)
        try:
            step = plan_step(graph, prepared.board, chosen, budget, _train_settings(candidate))
        except NoPlan:
            continue
        if step.metrics.energy_j < least_j * (1 - 1e-9):
            best, least_j = candidate, step.metrics.energy_j
        if least_j <= step.problem.floor_j * (1 + 1e-9):
            break
    return plan_prepared(best or prepared, progress)


def plan_prepared(prepared: Prepared, progress: Progress = _quiet) -> Plan:
    """``plan`` for a model that has been read."""
    options, board = prepared.options, prepared.board
    budget = budget_for(prepared)
    problem = make_problem(prepared.train, board, budget.arena_bytes)
    fixed = budget.arena_bytes - problem.memory_bytes + budget.runtime_bytes
    if prepared.ram_bytes > board.ram_bytes:
        raise PlanInfeasible(
            f"{board.name}: memory.sram: expected --ram of at most {board.ram_bytes} bytes, "
            f"got {prepared.ram_bytes}; lower --ram or choose a board with more",
            {"status": "infeasible", "ram_bytes": prepared.ram_bytes},
        )
    try:
        progress("planning the training step")
        settings = _train_settings(prepared)
        train = plan_step(prepared.train, board, options, budget, settings)
        progress("planning the evaluation")
        evaluation = plan_step(
            prepared.evaluation,
            board,
            options,
            budget,
            _evaluation_settings(train),
        )
    except NoPlan as error:
        raise _explain(prepared, budget, error, progress) from error
    check_homes(train, evaluation)
    progress("planning the baselines")
    facts = _facts(prepared, budget, train, fixed)
    facts["arena_bytes"] = max(train.placement.arena_bytes, evaluation.placement.arena_bytes)
    facts |= budget.part_facts
    facts["evaluation"] = _metrics(evaluation.metrics, fixed)
    facts["evaluation"]["arena_bytes"] = evaluation.placement.arena_bytes
    slots = _slots(prepared, train, evaluation)
    facts["checkpoint"] = _checkpoint_facts(prepared, slots)
    return Plan(prepared, budget, train, evaluation, slots, facts)


def _slots(prepared: Prepared, train: StepPlan, evaluation: StepPlan) -> CheckpointSlots:
    """Checkpoint slots behind the pages of both steps."""
    pages_end = max(train.region_blocks, evaluation.region_blocks, 1)
    slots = place_slots(train.graph, pages_end, PAGE_ALIGNMENT_BLOCKS)
    pages = (*train.program.pages, *evaluation.program.pages)
    first = prepared.board.storage.region_first_block
    verify_card(train.graph, pages, slots, first, slots.end_block)
    return slots


def _checkpoint_facts(prepared: Prepared, slots: CheckpointSlots) -> dict[str, Any]:
    """What reads a card needs: where the slots are, and what lies in them."""
    values = [prepared.train.values[i] for i in slots.values]
    return {
        "region_first_block": prepared.board.storage.region_first_block,
        "region_blocks": slots.end_block,
        "first_block": slots.first_block,
        "slot_blocks": slots.blocks,
        "tensors": [
            {"name": v.origin or v.name, "role": v.role.value, "nbytes": v.type.nbytes}
            for v in values
        ],
    }


def check_homes(train: StepPlan, evaluation: StepPlan) -> None:
    """Raise InternalError unless parameters and state keep their place during an evaluation."""
    places = [
        [
            (home.offset, home.nbytes)
            for home in step.program.homes
            if home.value in {value.id for value in step.graph.home_ram()}
        ]
        for step in (train, evaluation)
    ]
    if places[0] != places[1]:
        raise InternalError(
            f"plan: expected parameters and state at {places[0]} in both steps, got {places[1]} "
            "in the evaluation; this is a bug in evaluation_graph"
        )


def _evaluation_settings(train: StepPlan) -> StepSettings:
    """Pages of its own behind those of the training step, and the same homes on the card."""
    first_page, first_block = len(train.program.pages), train.region_blocks
    homes = train.card_homes
    return StepSettings("eval", "optimal", None, first_page, first_block, shared_homes=homes)


def _train_settings(prepared: Prepared) -> StepSettings:
    options = prepared.options
    deadline_s, most_written = prepared.deadline_s, options.max_write_bytes
    return StepSettings("train", options.strategy, deadline_s, max_write_bytes=most_written)


def _metrics(metrics: Metrics, fixed_bytes: int) -> dict[str, Any]:
    found: dict[str, Any] = {"peak_bytes": metrics.peak_bytes + fixed_bytes}
    found |= {key: getattr(metrics, key) for key in METRIC_KEYS}
    return found


def _entry(
    prepared: Prepared,
    problem: Problem,
    fixed_bytes: int,
    status: str,
    metrics: Metrics | None,
    solution: Solution | None,
) -> dict[str, Any]:
    """The keys that a plan and every baseline have."""
    entry: dict[str, Any] = {
        "status": status,
        "objective": metrics.energy_j if metrics else None,
        "lower_bound": solution.lower_bound_j if solution else None,
        "gap": solution.gap if solution else None,
        "overhead_gap": solution.overhead_gap if solution else None,
        "solve_s": solution.solve_s if solution else 0.0,
        "ram_bytes": prepared.ram_bytes,
        "deadline_s": problem.deadline_s,
    }
    if metrics:
        return entry | _metrics(metrics, fixed_bytes)
    return entry | dict.fromkeys(("peak_bytes", *METRIC_KEYS))


def _status(problem: Problem, metrics: Metrics) -> str:
    return "feasible" if fits(problem, metrics) else "infeasible"


def baselines(prepared: Prepared, problem: Problem, fixed_bytes: int) -> dict[str, Any]:
    """Every baseline under the keys of a plan; 'infeasible' where it misses budget or deadline."""
    found: dict[str, Any] = {}
    for name, make in BASELINES.items():
        metrics = simulate(problem, make(problem))
        status = _status(problem, metrics)
        key = name.replace("-", "_")
        found[key] = _entry(prepared, problem, fixed_bytes, status, metrics, None)
    limit = prepared.options.time_limit_s
    solver = prepared.options.solver
    for key, paging, remat in (("remat_only", False, True), ("paging_only", True, False)):
        switches = SolveOptions(paging=paging, remat=remat, solver=solver, time_limit_s=limit)
        solution = solve(problem, switches)
        found[key] = _entry(
            prepared, problem, fixed_bytes, solution.status.value, solution.metrics, solution
        )
    return found


def _facts(prepared: Prepared, budget: Budget, train: StepPlan, fixed_bytes: int) -> dict[str, Any]:
    options, problem = prepared.options, train.problem
    solution = train.solution
    status = solution.status.value if solution else "feasible"
    full = make_problem(
        prepared.train, prepared.board, budget.arena_bytes, prepared.deadline_s,
        options.max_write_bytes,
    )  # fmt: skip
    others = baselines(prepared, full, fixed_bytes)
    bytes_out = sum(t.nbytes for t in problem.tensors if t.at_start)
    facts = _entry(prepared, problem, fixed_bytes, status, train.metrics, solution)
    facts |= {
        "model": prepared.options.model.name,
        "board": prepared.board.name,
        "notes": list(prepared.notes),
        "strategy": options.strategy,
        "solver": solution.solver if solution else None,
        "runtime_bytes": budget.runtime_bytes,
        "order": options.order,
        "kernel_forms": forms(train.graph),
        "home_parameters": "card" if train.graph.card_homes else "ram",
        "card_home_bytes": sum(page.nbytes for page in train.card_homes.values()),
        "max_write_bytes_per_step": options.max_write_bytes,
        "training_steps": prepared.steps,
        "training_deadline_s": options.deadline_s if prepared.steps else None,
        "parameter_bytes": train.home_bytes,
        "input_bytes": bytes_out,
        "arena_peak_bytes": train.arena_peak_bytes,
        "peak_at": train.metrics.peak_name,
        "keep_all_peak_bytes": others["keep_all"]["peak_bytes"],
        **_limits(prepared, budget, options),
        "train_arena_bytes": train.placement.arena_bytes,
        "fragmentation": train.placement.arena_bytes / max(1, train.arena_peak_bytes),
        "baselines": others,
    }
    return facts


def _explain(
    prepared: Prepared, budget: Budget, error: NoPlan, progress: Progress
) -> PlanInfeasible:
    """The message with the smallest RAM, the operator that sets it, the shortest deadline."""
    options = prepared.options
    who = f"{options.model.name} on {prepared.board.name}: schedule: expected a plan"
    facts: dict[str, Any] = {
        "status": "infeasible" if str(error) == "infeasible" else "unknown",
        "ram_bytes": prepared.ram_bytes,
        "deadline_s": prepared.deadline_s,
    }
    if facts["status"] == "unknown":
        text = f"{who} within {options.time_limit_s:g} s of solving, got none and no proof"
        return PlanInfeasible(f"{text} ({error}); raise --time-limit or --ram", facts)
    progress("looking for the smallest budget that works")
    facts |= _limits(prepared, budget, options)
    needed = facts["minimum_peak_bytes"]
    switched = [w for w, on in (("paging", options.paging), ("recompute", options.remat)) if not on]
    without = f" without {' and '.join(switched)}" if switched else ""
    text = f"{who}{without} within {prepared.ram_bytes} bytes"
    if options.strategy != "optimal":
        text += f" by strategy {options.strategy}, got none; choose --strategy optimal, or"
    fits_ram = needed is not None and needed <= prepared.ram_bytes
    if fits_ram and options.max_write_bytes is not None:
        text += f" and {options.max_write_bytes} bytes written a step, got none; "
        text += "raise --max-write-bytes-per-step, --ram or --deadline"
    elif fits_ram and options.deadline_s is not None:
        text += _deadline_text(prepared, budget, options, facts)
    else:
        progress("looking for a change that makes it fit")
        facts["remedies"] = remedies(prepared)
        text += (
            f", got none; the smallest RAM that works is {needed} bytes ({format_bytes(needed)}), "
            f"set by '{facts['largest_operator']}', which alone needs "
            f"{facts['largest_working_set_bytes']}; {advice(facts['remedies'])}"
        )
    return PlanInfeasible(text, facts)


def _limits(prepared: Prepared, budget: Budget, options: Options) -> dict[str, Any]:
    settings = StepSettings("train", "optimal")
    least, proven = least_ram(prepared.train, prepared.board, options, budget, settings)
    problem = make_problem(prepared.train, prepared.board, budget.arena_bytes)
    fixed = budget.ram_bytes - problem.memory_bytes
    working_set, op_name = largest_working_set(problem)
    return {
        "minimum_peak_bytes": least,
        "minimum_peak_proven_bytes": proven,
        "largest_working_set_bytes": working_set + fixed,
        "largest_operator": op_name,
    }


def _deadline_text(
    prepared: Prepared, budget: Budget, options: Options, facts: dict[str, Any]
) -> str:
    problem = make_problem(prepared.train, prepared.board, budget.arena_bytes, prepared.deadline_s)
    fastest = shortest_deadline(problem, solve_options(options))
    facts["shortest_deadline_s"] = fastest
    shown = f"{fastest:.6g} s" if fastest is not None else "not known"
    return (
        f" and {prepared.deadline_s:g} s a step, got none; the shortest deadline that works at "
        f"this budget is {shown}{_whole(prepared, fastest)}"
    )


def _whole(prepared: Prepared, fastest_s: float | None) -> str:
    """The shortest time of the whole training, where its deadline was given."""
    if prepared.steps is None or fastest_s is None:
        return ""
    total_s = prepared.steps * fastest_s
    return f" a step, {total_s:.6g} s for all {prepared.steps} steps"
