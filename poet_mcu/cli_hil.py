"""Verbs for people with a board on their desk: ``flash``, ``hil``, ``calibrate``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from poet_mcu.cli_target import EmulateOpt, JsonOpt, PortOpt, emit_json, where_to
from poet_mcu.errors import InputError
from poet_mcu.pipeline.calibrate import CalibrateOptions
from poet_mcu.pipeline.calibrate import calibrate as run_calibrate
from poet_mcu.pipeline.flash import flash as run_flash
from poet_mcu.pipeline.report import card_table, cost_table
from poet_mcu.testing.rig import entry_of
from poet_mcu.testing.run import run_suite
from poet_mcu.testing.target import Target

_err = Console(stderr=True, highlight=False, soft_wrap=True)
_out = Console(highlight=False, markup=False, soft_wrap=True)

BoardOpt = Annotated[str | None, typer.Option("--board", help="Name, or a board file.")]
ProbeOpt = Annotated[
    str | None, typer.Option("--probe", metavar="ID", help="Serial number of the debug probe.")
]
EraseOpt = Annotated[
    bool, typer.Option("--erase-card", help="The card in the board may be overwritten.")
]


def _note(text: str) -> None:
    _err.print(text, style="dim")


def flash(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder made by build.")],
    port: PortOpt = None,
    probe: ProbeOpt = None,
    volume: Annotated[
        Path | None, typer.Option("--volume", metavar="DIR", help="The UF2 boot loader's volume.")
    ] = None,
    tool: Annotated[
        str | None, typer.Option("--tool", help="pyocd, openocd, st-flash or uf2; default: first.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Read the build id back over serial.")
    ] = True,
    as_json: JsonOpt = False,
) -> None:
    """Program the board with a build, and read the build id back over the serial line."""
    facts = run_flash(
        folder, port=port, probe=probe, volume=volume, tool=tool, check=check, progress=_note
    )
    if as_json:
        emit_json(facts)
        return
    told = f"answers on {facts['port']}" if facts["checked"] else "was not asked"
    _out.print(f"{folder}: programmed by {facts['tool']}; build {facts['build_id']} {told}")


def hil(
    board: BoardOpt = None,
    port: PortOpt = None,
    emulate: EmulateOpt = False,
    probe: ProbeOpt = None,
    rig: Annotated[
        Path | None, typer.Option("--rig", metavar="FILE", help="TOML file of the boards here.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Report: .md or .json.")
    ] = None,
    erase_card: EraseOpt = False,
    no_flash: Annotated[
        bool, typer.Option("--no-flash", help="Flash by yourself when the suite asks for it.")
    ] = False,
    soak: Annotated[
        float, typer.Option("--soak", min=0, metavar="S", help="Seconds of soak test: 3600.")
    ] = 0.0,
    only: Annotated[
        str | None, typer.Option("-k", metavar="WORDS", help="Tests whose name has these.")
    ] = None,
) -> None:
    """Test a board, or its emulator: memory, card, kernels, training, resuming; with a report."""
    changes = {
        "port": port, "probe": probe, "emulate": emulate, "by_hand": no_flash,
        "erase_card": erase_card,
    }  # fmt: skip
    _check_board(board, rig, changes)
    given = {
        "--board": board, "--port": port, "--probe": probe, "--rig": rig, "--hil-report": report,
        "-k": only, "--soak": soak or None, "--emulate": emulate, "--erase-card": erase_card,
        "--no-flash": no_flash,
    }  # fmt: skip
    run_suite([word for option, value in given.items() for word in _words(option, value)])
    if report is not None:
        _out.print(f"{report}: written")


def _words(option: str, value: object) -> list[str]:
    """The option as pytest gets it, in a process with another current folder."""
    if value in (None, False):
        return []
    if value is True:
        return [option]
    return [option, str(value.resolve() if isinstance(value, Path) else value)]


def _check_board(
    board: str | None, rig: Path | None, changes: Mapping[str, str | bool | None]
) -> None:
    """What is wrong with the options is said here, and not once a test."""
    entry = entry_of(board, rig, changes)
    if entry is None:
        raise InputError("--board, --rig: expected one of the two, got none")
    if changes["emulate"] and changes["port"]:
        raise InputError("--port, --emulate: expected one of the two, got both")
    Target.of(entry).where()


def calibrate(
    board: Annotated[str, typer.Option("--board", help="Name, or a board file.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="Board file to write.")],
    port: PortOpt = None,
    emulate: EmulateOpt = False,
    probe: ProbeOpt = None,
    samples: Annotated[
        int, typer.Option("--samples", min=1, help="Transfers of each size and direction.")
    ] = 100,
    erase_card: EraseOpt = False,
    no_flash: Annotated[
        bool, typer.Option("--no-flash", help="The self-test firmware is on the board.")
    ] = False,
    as_json: JsonOpt = False,
) -> None:
    """Measure kernels and card of a board; write a board file with what was measured."""
    where = where_to(port, emulate)
    options = CalibrateOptions(board, where, samples, not no_flash, probe, erase_card)
    facts = run_calibrate(options, out, _note)
    if as_json:
        emit_json(facts)
        return
    _out.print(cost_table(facts["families"]))
    _out.print(card_table(facts["card"]))
    _out.print(f"{out}: written; every measurement is in {facts['log']}")
