"""Options of the verbs that talk to a board or its emulator."""

from __future__ import annotations

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
