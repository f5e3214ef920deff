"""What would make a training step fit: smaller batches, parameters on the card, frozen layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from poet_mcu.errors import Infeasible, InputError
from poet_mcu.ir.graph import Role
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.stepplan import StepSettings, budget_of, least_ram
from poet_mcu.pipeline.target import value_of
from poet_mcu.schedule import largest_working_set
from poet_mcu.schedule.pricing import make_problem
from poet_mcu.units import format_bytes

#: seconds a search for the least RAM of one change may take: this is advice
LIMIT_S = 5.0


def remedies(prepared: Prepared) -> dict[str, int]:
    """Option -> bytes of RAM that a plan needs with it, for each that fits the budget.

    Each is tried alone. The bytes are those of a plan that was found and placed.
    """
    found: dict[str, int] = {}
    for words, options in _changes(prepared):
        kind = words.split()[0]
        if kind in {known.split()[0] for known in found}:
            continue  # the largest batch that fits is the one to name
        needed = _least(options, prepared.ram_bytes)
        if needed is not None:
            found[words] = needed
    return found


def advice(found: dict[str, int]) -> str:
    """``found`` as the end of a message."""
    if not found:
        return "raise --ram, lower --batch, or freeze layers"
    tried = (f"{words} needs {n} bytes ({format_bytes(n)})" for words, n in found.items())
    return f"raise --ram, or change one thing: {', '.join(tried)}"


def _changes(prepared: Prepared) -> Iterator[tuple[str, Options]]:
    """Options that differ from those given in one thing; batches from the largest down."""
    options = replace(prepared.options, time_limit_s=min(LIMIT_S, prepared.options.time_limit_s))
    if options.home_parameters == "ram" and options.paging:
        yield "--home-parameters card", replace(options, home_parameters="card")
    batch = value_of(prepared, Role.INPUT).shape[0] // 2 if options.batch is not None else 0
    while batch >= 1:
        yield f"--batch {batch}", replace(options, batch=batch)
        batch //= 2
    if not (options.train or options.freeze or options.train_last):
        yield "--train-last 1", replace(options, train_last=1)


def _least(options: Options, ram_bytes: int) -> int | None:
    """The least RAM with ``options``; None when it exceeds ``ram_bytes`` or they are impossible."""
    try:
        changed = prepare(options)
        graphs = (changed.train, changed.evaluation)
        budget = budget_of(changed.board, ram_bytes, graphs, paging=options.paging)
        problem = make_problem(changed.train, changed.board, budget.arena_bytes)
        if largest_working_set(problem, paging=options.paging)[0] > problem.memory_bytes:
            return None
        settings = StepSettings("train", "optimal")
        needed, _ = least_ram(changed.train, changed.board, options, budget, settings)
    except (Infeasible, InputError):
        return None
    return needed if needed <= ram_bytes else None
