"""Options of the planner, shared by the verbs that plan: one decorator adds them all."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from poet_mcu.errors import InputError
from poet_mcu.pipeline.problem_file import ProblemOptions, plan_problem
from poet_mcu.schedule import SolveOptions
from poet_mcu.units import parse_bytes, parse_seconds

OptionalModelArg = Annotated[
    Path | None, typer.Argument(metavar="[MODEL]", help="An ONNX file; not with --problem.")
]
OptionalBoardOpt = Annotated[
    str | None, typer.Option("--board", help="A board's name, or a board file.")
]
WearOpt = Annotated[
    str | None,
    typer.Option(
        "--max-write-bytes-per-step", help="Card wear: most bytes a step may write, e.g. 16K."
    ),
]
EpochsOpt = Annotated[
    int | None,
    typer.Option("--epochs", min=1, help="With --samples: --deadline is the whole training's."),
]
SamplesOpt = Annotated[int | None, typer.Option("--samples", min=1, help="Samples of one epoch.")]
OrderOpt = Annotated[
    str,
    typer.Option(
        "--order",
        help="Order of execution: given, updates-early, depth-first, memory-greedy, "
        "or auto (the one whose plan costs least).",
    ),
]
HomeOpt = Annotated[
    str,
    typer.Option(
        "--home-parameters",
        help="Where parameters live: ram, card, or auto (the card where nothing else fits).",
    ),
]
ProblemOpt = Annotated[
    Path | None,
    typer.Option(
        "--problem",
        help="Plan a problem file (POET's zoo, or --export-problem) in place of a model; "
        "--ram may be a fraction of its forward bytes, --deadline 1.5x its compute time.",
    ),
]
SemanticsOpt = Annotated[
    str, typer.Option("--semantics", help="own, or poet: count as POET does (with --problem).")
]
ExportOpt = Annotated[
    Path | None, typer.Option("--export-problem", help="Write the planner's problem here (JSON).")
]


@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """What the shared options say, and those of ``plan`` alone (the last three)."""

    max_write_bytes: int | None = None
    epochs: int | None = None
    samples: int | None = None
    home_parameters: str = "ram"
    order: str = "given"
    problem: Path | None = None
    semantics: str = "own"
    export_problem: Path | None = None

    def fields(self) -> dict[str, Any]:
        """As keyword arguments of ``pipeline.options.Options``."""
        return {
            "max_write_bytes": self.max_write_bytes,
            "epochs": self.epochs,
            "samples": self.samples,
            "home_parameters": self.home_parameters,
            "order": self.order,
        }


def _shared(
    max_write_bytes_per_step: WearOpt = None,
    epochs: EpochsOpt = None,
    samples: SamplesOpt = None,
    home_parameters: HomeOpt = "ram",
    order: OrderOpt = "given",
) -> PlannerOptions:
    limit = max_write_bytes_per_step
    written = None if limit is None else parse_bytes(limit, "--max-write-bytes-per-step")
    return PlannerOptions(written, epochs, samples, home_parameters, order)


def _of_plan(
    problem: ProblemOpt = None,
    semantics: SemanticsOpt = "own",
    export_problem: ExportOpt = None,
    max_write_bytes_per_step: WearOpt = None,
    epochs: EpochsOpt = None,
    samples: SamplesOpt = None,
    home_parameters: HomeOpt = "ram",
    order: OrderOpt = "given",
) -> PlannerOptions:
    shared = _shared(max_write_bytes_per_step, epochs, samples, home_parameters, order)
    return replace(shared, problem=problem, semantics=semantics, export_problem=export_problem)


Verb = Callable[..., None]


def _adding(read: Callable[..., PlannerOptions], verb: Verb) -> Verb:
    """``verb`` with the parameters of ``read`` in place of its parameter ``planner``."""
    extra = inspect.signature(read, eval_str=True).parameters
    own = inspect.signature(verb, eval_str=True)
    kept = [p for name, p in own.parameters.items() if name != "planner"]
    shown = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*kept, *extra.values())]

    @wraps(verb)
    def call(**given: Any) -> None:
        planner = read(**{name: given.pop(name) for name in extra})
        verb(**given, planner=planner)

    call.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in shown}
    return call


def planner_options(verb: Verb) -> Verb:
    """``verb`` with the planner's options, given to it as ``planner``."""
    return _adding(_shared, verb)


def plan_options(verb: Verb) -> Verb:
    """The same with the options that only ``plan`` has."""
    return _adding(_of_plan, verb)


def plan_of_problem(
    model: Path | None,
    board: str | None,
    ram: str | None,
    deadline: str | None,
    switches: tuple[bool, bool, str, str],
    planner: PlannerOptions,
    note: Callable[[str], None],
) -> dict[str, Any] | None:
    """Facts of the problem file that ``planner`` names, None when it names none.

    ``switches`` are --paging, --remat, --solver, --time-limit. Raises InputError for options that
    do not go together.
    """
    if planner.problem is None:
        if model is None or board is None:
            got = "no MODEL" if model is None else "no --board"
            raise InputError(f"plan: expected MODEL and --board, or --problem FILE, got {got}")
        if planner.semantics != "own":
            raise InputError("--semantics: expected --problem FILE beside it, got a model")
        return None
    if model is not None or board is not None or planner.export_problem is not None:
        raise InputError(
            "--problem: expected no MODEL, no --board and no --export-problem beside it, got one"
        )
    paging, remat, solver, limit = switches
    if solver not in ("highs", "cbc"):
        raise InputError(f"--solver: expected one of highs, cbc, got '{solver}'")
    options = SolveOptions(
        paging=paging,
        remat=remat,
        solver=solver,  # type: ignore[arg-type]  # checked above
        time_limit_s=parse_seconds(limit, "--time-limit"),
    )
    what = ProblemOptions(
        planner.problem, ram, deadline, planner.semantics, planner.max_write_bytes
    )
    return plan_problem(what, options, note)
