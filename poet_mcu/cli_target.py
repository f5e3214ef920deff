"""Options of the verbs that talk to a board or its emulator."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from poet_mcu.errors import InputError

PortOpt = Annotated[
    str | None,
    typer.Option("--port", help="/dev/ttyACM0, socket://host:port, or another pyserial URL."),
]
EmulateOpt = Annotated[bool, typer.Option("--emulate", help="Run in the board's emulator.")]
SerialOpt = Annotated[
    str, typer.Option("--serial", help="The emulator's serial line: pty or socket.")
]

CheckpointEveryOpt = Annotated[
    int,
    typer.Option(
        "--checkpoint-every", min=0, help="Steps from one checkpoint on the card to the next."
    ),
]
CardOpt = Annotated[
    Path | None,
    typer.Option("--card", metavar="FILE", help="The emulator's card; made if missing, kept."),
]

JsonOpt = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


def emit_json(facts: dict[str, Any]) -> None:
    """Print ``facts`` as one JSON object."""
    sys.stdout.write(json.dumps(facts, indent=2, sort_keys=True) + "\n")


def where_to(port: str | None, emulate: bool) -> str | None:
    """``port`` for a board, None for the emulator. Raises InputError unless it is just one."""
    if emulate == (port is not None):
        raise InputError("--port, --emulate: expected one of the two, got both or none")
    return port


def serial_kind(kind: str) -> Any:
    """A kind of the emulator's serial line. Raises InputError for another."""
    if kind not in ("pty", "socket"):
        raise InputError(f"--serial: expected pty or socket, got '{kind}'")
    return kind
