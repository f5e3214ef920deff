"""``flash``: program the board, find its serial port, read the build id back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serial.tools import list_ports

from poet_mcu.board.schema import Board as BoardFile
from poet_mcu.board.tables import Flashing
from poet_mcu.errors import DeviceError, InputError
from poet_mcu.link.client import once_there, open_board
from poet_mcu.pipeline.target import BuildFolder, open_firmware
from poet_mcu.toolchain.flashers import Job, program

#: how long a console may take to be there again after the reset
APPEARS_S = 10.0


@dataclass(frozen=True, slots=True)
class SerialPort:
    """A serial port of this computer. ``serial`` is the USB serial number, '' without one."""

    device: str
    usb: str
    serial: str
    title: str

    def __str__(self) -> str:
        told = ", ".join(word for word in (self.usb, self.serial, self.title) if word)
        return f"{self.device} ({told})"


def serial_ports() -> list[SerialPort]:
    """Every serial port with a USB id, by name."""
    return [
        SerialPort(
            port.device, f"{port.vid:04x}:{port.pid:04x}", port.serial_number or "",
            port.description or "",
        )
        for port in sorted(list_ports.comports(), key=lambda one: str(one.device))
        if port.vid is not None and port.pid is not None
    ]  # fmt: skip


def find_port(board: BoardFile, probe: str | None = None) -> SerialPort:
    """The one port that carries the board's console, by USB id and the probe's serial number.

    Raises InputError with the candidates where there are several, DeviceError where there is none.
    """
    wanted = _flashing(board).console_usb
    every = serial_ports()
    found = [port for port in every if port.usb in wanted and probe in (None, port.serial)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"{board.name}: serial port: expected one, got {_listed(found)}; choose with --probe "
            "SERIAL or --port"
        )
    what = f"USB id {' or '.join(wanted)}" if wanted else "a USB id that the board file names"
    raise DeviceError(
        f"{board.name}: serial port: expected one with {what}"
        f"{f' and serial number {probe}' if probe else ''}, got {_listed(every) or 'none'}; "
        "connect the board or say --port"
    )


def _listed(ports: Sequence[SerialPort]) -> str:
    return ", ".join(map(str, ports))


def _flashing(board: BoardFile) -> Flashing:
    if board.flash_with is None:
        raise InputError(
            f"{board.name}: flash_with: expected this table in the board file, got none; "
            "add it (boards/README.md), or flash with your own tool"
        )
    return board.flash_with


def flash(
    folder: Path,
    *,
    port: str | None = None,
    probe: str | None = None,
    volume: Path | None = None,
    tool: str | None = None,
    check: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Program the build in ``folder`` and read its id back; the facts.

    ``probe``: serial number of the debug probe, where there are several. ``check`` False leaves the
    serial line alone. Raises ToolMissing, InputError with candidates, DeviceError.
    """
    build = open_firmware(folder)
    how = _flashing(build.board)
    found = None if port else _console(build.board, probe, check=check)
    serial = probe or (found.serial if found else "") or None
    progress(f"programming {build.board.name}")
    used = program(Job(folder, how, serial, volume), tool)
    facts: dict[str, Any] = {
        "board": build.board.name, "build_id": build.build_id.hex(), "tool": used, "probe": serial,
    }  # fmt: skip
    if not check:
        return facts | {"port": port, "checked": False}
    where = port or (found.device if found else None)
    if where is None:
        where = find_port(build.board, probe).device
    progress(f"asking {where} for the build id")
    identity = _read_back(build, where)
    return facts | {"port": where, "checked": True, "model": identity}


def _console(board: BoardFile, probe: str | None, *, check: bool) -> SerialPort | None:
    """The console's port before programming; a board in its boot loader may show none yet."""
    try:
        return find_port(board, probe)
    except DeviceError:
        if check and not _flashing(board).uf2_board:
            raise
        return None


def _read_back(build: BuildFolder, port: str) -> str:
    """The model that the board says it runs, once it answers with the build's id."""

    def asked() -> str:
        with open_board(port, build_id=build.build_id) as board:
            return board.identity.model

    return once_there(asked, APPEARS_S)
