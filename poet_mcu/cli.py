"""The command line: arguments, printing and exit codes only; every verb is a function elsewhere."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from poet_mcu import __version__
from poet_mcu.board.load import list_boards, load_board
from poet_mcu.board.schema import Board
from poet_mcu.cli_card import app as card_app
from poet_mcu.cli_hil import calibrate, flash, hil
from poet_mcu.cli_options import Given, ModelArg, takes_options
from poet_mcu.cli_planner import (
    OptionalBoardOpt,
    OptionalModelArg,
    PlannerOptions,
    plan_of_problem,
    plan_options,
    planner_options,
)
from poet_mcu.cli_target import (
    CardOpt,
    CheckpointEveryOpt,
    EmulateOpt,
    JsonOpt,
    PortOpt,
    SerialOpt,
    emit_json,
    serial_kind,
    where_to,
)
from poet_mcu.errors import CheckFailed, InputError, ModelError, PoetError
from poet_mcu.frontend.onnx_import import check_model
from poet_mcu.pipeline.build import build as run_build
from poet_mcu.pipeline.picture import write_report
from poet_mcu.pipeline.plan import PlanInfeasible
from poet_mcu.pipeline.plan import plan as run_plan
from poet_mcu.pipeline.problem_file import export_problem
from poet_mcu.pipeline.report import operator_table, plan_table
from poet_mcu.pipeline.sweep import SweepProgress, parse_ram
from poet_mcu.pipeline.sweep import sweep as run_sweep
from poet_mcu.pipeline.train import LOST_CHECKPOINT, TrainOptions, TrainProgress
from poet_mcu.pipeline.train import train as run_train
from poet_mcu.pipeline.validate import validate as run_validate
from poet_mcu.report.sweep_page import sweep_table
from poet_mcu.toolchain import doctor as run_doctor
from poet_mcu.units import format_bytes

app = typer.Typer(
    name="poet-mcu",
    help="From an ONNX model to firmware that trains it on a Cortex-M board with an SD card.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# The root of click's own errors, from the click that this typer uses (0.26 and later carry a copy).
_UsageError: Any = typer.BadParameter.__mro__[2]
_PLANNER = PlannerOptions()
_err = Console(stderr=True, highlight=False, soft_wrap=True)
_out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)

FolderArg = Annotated[Path, typer.Argument(metavar="DIR", help="A folder made by build.")]


def _note(text: str) -> None:
    _err.print(text, style="dim")


app.add_typer(card_app, name="card")
for verb in (flash, hil, calibrate):
    app.command()(verb)


@app.command()
@plan_options
@takes_options(without=("model", "board"))
def plan(
    given: Given,
    model: OptionalModelArg = None,
    board: OptionalBoardOpt = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write the plan as HTML here.")
    ] = None,
    as_json: JsonOpt = False,
    planner: PlannerOptions = _PLANNER,
) -> None:
    """Plan a training step: peak, energy, time, SD bytes, bound and gap, beside the baselines."""
    words = given.words
    switches = (words["paging"], words["remat"], words["solver"], words["time_limit"])
    facts = plan_of_problem(model, board, words["ram"], words["deadline"], switches, planner, _note)
    if facts is None and model is not None and board is not None:
        made = run_plan(given.options(model=model, board=board, **planner.fields()), _note)
        facts = made.facts
        if planner.export_problem is not None:
            export_problem(made.train.problem, planner.export_problem)
        if report is not None:
            write_report(made, report)
    if as_json:
        emit_json(facts or {})
    else:
        _out.print(plan_table(facts or {}))


@app.command()
@takes_options(without=("ram", "strategy"))
def sweep(
    given: Given,
    ram: Annotated[str, typer.Option("--ram", help="FIRST:LAST or sizes: 32K:256K, 32K,48K.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder of results.")],
    points: Annotated[int, typer.Option("--points", min=1, help="Budgets in a range.")] = 12,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes.")] = os.cpu_count() or 1,
    as_json: JsonOpt = False,
) -> None:
    """Plan at many RAM budgets: curves, CSV and JSON; goes on where it was stopped."""
    columns = (TextColumn("{task.completed} of {task.total}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_err) as bar:
        task = bar.add_task("sweep", total=None)

        def watch(now: SweepProgress) -> None:
            bar.update(task, completed=now.done, total=now.total)

        found = run_sweep(given.options(), parse_ram(ram, points), out, jobs, watch)
    if as_json:
        emit_json(found.facts)
        return
    cells, table = sweep_table(found.rows), Table(box=None)
    for heading in cells.headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in cells.rows:
        table.add_row(*row)
    _out.print(table)


@app.command()
@planner_options
@takes_options()
def build(
    given: Given,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder to make.")],
    dump: Annotated[
        bool, typer.Option("--dump", help="Also write the text form of every level.")
    ] = False,
    as_json: JsonOpt = False,
    planner: PlannerOptions = _PLANNER,
) -> None:
    """Plan, write C, compile, measure: a folder with the firmware and all that made it."""
    made = run_build(given.options(**planner.fields()), out, _note, dump=dump)
    if as_json:
        emit_json(made.facts)
        return
    _out.print(plan_table(made.facts))
    _out.print(operator_table(made.facts["operators"]))
    worst = made.facts["stack_worst_bytes"]
    stack = "" if worst is None else f", stack at most {worst} of {made.facts['stack_bytes']} B"
    _out.print(
        f"{out}: firmware.elf, flash {format_bytes(made.sizes.flash_bytes)}, RAM "
        f"{format_bytes(made.sizes.ram_bytes)} of {format_bytes(made.facts['ram_bytes'])}{stack}"
    )


@app.command()
def check(model: ModelArg, as_json: JsonOpt = False) -> None:
    """List everything in the model that is not supported, at once, and what to do."""
    problems = check_model(model)
    if as_json:
        rows = [{"node": p.node, "op": p.op, "message": p.message} for p in problems]
        emit_json({"model": model.name, "ok": not problems, "problems": rows})
    elif not problems:
        _out.print(f"{model}: every operator is supported")
    if problems:
        lines = [f"{model}: {problem}" for problem in problems]
        raise ModelError("\n".join(lines))


@app.command()
def validate(
    folder: FolderArg,
    port: PortOpt = None,
    emulate: EmulateOpt = False,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Training steps to run.")] = 3,
    data: Annotated[
        Path | None, typer.Option("--data", help="npz with x, y; default: random.")
    ] = None,
    dump: Annotated[
        Path | None, typer.Option("--dump", help="Write losses and weights here (npz).")
    ] = None,
    checkpoint_every: CheckpointEveryOpt = 0,
    serial: SerialOpt = "pty",
    as_json: JsonOpt = False,
) -> None:
    """Train some steps on the board and compare losses, weights and SD bytes with the plan."""
    where = where_to(port, emulate)
    found = run_validate(
        folder, port=where, steps=steps, data=data, dump=dump, serial=serial_kind(serial),
        checkpoint_every=checkpoint_every, progress=_note,
    )  # fmt: skip
    if as_json:
        emit_json(found.facts)
    else:
        table = Table(show_header=False, box=None)
        for key, value in found.facts.items():
            if key not in ("faults", "ok", "operators"):
                table.add_row(key, str(value))
        _out.print(table)
        if found.facts.get("operators"):
            _out.print(operator_table(found.facts["operators"]))
    if found.faults:
        raise CheckFailed("\n".join(f"{folder}: {fault}" for fault in found.faults))
    if not as_json:
        _out.print(f"{folder}: the board computes what it should", style="green")


@app.command()
def train(
    folder: FolderArg,
    data: Annotated[Path, typer.Option("--data", help="npz with x and y.")],
    test: Annotated[
        Path | None, typer.Option("--test", help="npz for the accuracy before and after.")
    ] = None,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the data.")] = 1,
    lr: Annotated[float | None, typer.Option("--lr", help="Default: the build's.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the shuffling.")] = 0,
    port: PortOpt = None,
    emulate: EmulateOpt = False,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the trained ONNX model here.")
    ] = None,
    checkpoint_every: CheckpointEveryOpt = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint on the card.")
    ] = False,
    card: CardOpt = None,
    serial: SerialOpt = "pty",
    as_json: JsonOpt = False,
) -> None:
    """Train on the board over the serial line; write the trained weights back as ONNX."""
    where = where_to(port, emulate)
    if resume and emulate and card is None:
        raise InputError("--resume: expected --card FILE with --emulate, got none; give the card")
    options = TrainOptions(data, test, epochs, lr, seed, save, checkpoint_every, resume, card)
    facts = _train_watched(folder, options, where, serial_kind(serial))
    if facts.get("newer_checkpoint_damaged"):
        _err.print(f"warning: {LOST_CHECKPOINT}", markup=False, style="yellow")
    if as_json:
        emit_json(facts)
        return
    table = Table(show_header=False, box=None)
    for key, value in facts.items():
        table.add_row(key, f"{value:.4g}" if isinstance(value, float) else str(value))
    _out.print(table)


def _train_watched(
    folder: Path, options: TrainOptions, port: str | None, serial: Any
) -> dict[str, Any]:
    """The facts of a training, with a bar that shows how far it is."""
    columns = (
        TextColumn("epoch {task.fields[epoch]}"), BarColumn(), TextColumn("{task.completed:.0f}"),
        TextColumn("loss {task.fields[loss]:.4f}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=_err) as bar:
        task = bar.add_task("train", total=None, epoch=1, loss=float("nan"))

        def watch(now: TrainProgress) -> None:
            bar.update(
                task, completed=now.step, total=now.steps, epoch=now.epoch + 1, loss=now.loss
            )

        return run_train(folder, options, port=port, serial=serial, watch=watch)


def _run_on(board: Board) -> str:
    if not board.has_firmware:
        return "planning only"
    return "built, not run" if board.run_on == "nothing" else board.run_on


@app.command()
def boards(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None, as_json: JsonOpt = False
) -> None:
    """List the boards, or show one."""
    shown = [load_board(name)] if name else [load_board(known) for known in list_boards()]
    if as_json:
        rows = [board.model_dump(mode="json", by_alias=True) for board in shown]
        emit_json(rows[0] if name else {"boards": rows})
        return
    table = Table(box=None)
    for heading in ("board", "core", "RAM", "flash", "run on", "what it is"):
        table.add_column(heading)
    for board in shown:
        table.add_row(
            board.name, board.core.cpu or "host", format_bytes(board.ram_bytes),
            format_bytes(board.flash.size_bytes), _run_on(board), board.title,
        )  # fmt: skip
    _out.print(table)


@app.command()
def doctor(as_json: JsonOpt = False) -> None:
    """Show which outside tools are installed and how to install the missing ones."""
    states = run_doctor()
    if as_json:
        emit_json({"tools": [state._asdict() for state in states]})
        return
    table = Table(box=None)
    for heading in ("tool", "version", "to install"):
        table.add_column(heading)
    for state in states:
        table.add_row(*(str(cell) if cell is not None else "-" for cell in state))
    _out.print(table)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    debug: Annotated[  # noqa: ARG001 - main takes it out of the arguments, wherever it stands
        bool, typer.Option("--debug", help="Show tracebacks of errors.")
    ] = False,
) -> None:
    if version:
        _out.print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise InputError("poet-mcu: expected a command, got none; poet-mcu --help lists them")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code. See the error classes for what the codes mean."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    as_json = "--json" in words
    try:
        words = [word for word in words if word != "--debug"]
        code = app(words, standalone_mode=False)
    except _UsageError as error:
        error.show()
        return int(error.exit_code)
    except PoetError as error:
        return _fail(str(error), error.exit_code, error, debug=debug, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        _err.print("stopped")
        return 130
    except Exception as error:  # noqa: BLE001 - the last resort: never a traceback unasked
        text = f"InternalError: {type(error).__name__}: {error}; run again with --debug, report it"
        return _fail(text, 70, error, debug=debug, as_json=as_json)
    return int(code or 0)


def _fail(text: str, code: int, error: Exception, *, debug: bool, as_json: bool) -> int:
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    _err.print(f"error: {text}", markup=False, style="red")
    if as_json and not isinstance(error, (CheckFailed, ModelError)):
        facts = error.facts if isinstance(error, PlanInfeasible) else {}
        emit_json({"error": text, "exit_code": code, **facts})
    return code


def run() -> None:
    """Entry point of the ``poet-mcu`` script."""
    sys.exit(main())
