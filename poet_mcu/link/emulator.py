"""Boards without a board: QEMU machines and the host firmware, as context managers of a URL.

The process never outlives the context. What it printed is kept and becomes part of the
:class:`DeviceError` when it dies ("qemu: fatal: Lockup ...").
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from poet_mcu.errors import DeviceError, InputError, ToolMissing

QEMU = "qemu-system-arm"
_START_S = 20.0  # until a loaded machine has shown its console
_BOOT_S = 300.0  # until a firmware on emulated registers has filled its pages
_POLL_S = 0.01
_DEATH_S = 2.0  # how long a dying process may take to say why
_SHOWN_LINES = 25
# QEMU 7.2 says this once per start of the lm3s machines; it means nothing.
_HARMLESS = re.compile(r"Timer with period zero, disabling")
_PTY = re.compile(r"char device redirected to (\S+) \(label serial0\)")
_TERMINAL = re.compile(r"poet: terminal at (\S+)")
_LISTENING = re.compile(r"poet: listening on 127\.0\.0\.1:(\d+)")


@contextlib.contextmanager
def run_qemu(
    elf: Path,
    machine: str,
    cpu: str | None = None,
    card: Path | None = None,
    serial: Literal["pty", "socket"] = "pty",
    *,
    icount: bool = False,
    semihosting: bool = False,
    memory: str | None = None,
    extra: Sequence[str] = (),
) -> Iterator[str]:
    """The URL of the console of ``elf`` on a QEMU machine.

    ``card`` is written to: give a copy. With ``semihosting`` the firmware gets its path as its
    command line, else it is the SD card of the machine (a power of two bytes, or QEMU refuses).
    ``icount``: one instruction is one nanosecond, exactly repeatable. ``memory`` is QEMU's ``-m``.

    Raises:
        ToolMissing: QEMU is not installed.
        InputError: the program or the card image does not exist.
        DeviceError: QEMU ended or showed no console.
    """
    command = [_find_qemu(), "-M", machine, "-display", "none", "-monitor", "none"]
    _must_exist(elf, "program", "build it first")
    command += ["-kernel", str(elf.resolve())]
    for option, value in (("-cpu", cpu), ("-m", memory), ("-icount", "shift=0" if icount else "")):
        command += [option, value] if value else []
    command += _card_options(card, semihosting=semihosting)
    port = _free_port() if serial == "socket" else 0
    tcp = f"tcp:127.0.0.1:{port},server=on,wait=off,nodelay=on"
    command += ["-serial", tcp if port else "pty", *extra]
    with _running(command, elf.name) as process:
        if port:
            process.wait_until_connectable(port)
            yield f"socket://127.0.0.1:{port}"
        else:
            yield process.wait_for(_PTY)


@contextlib.contextmanager
def run_host(executable: Path, card: Path | None = None) -> Iterator[str]:
    """The URL of the console of the firmware built for this computer; ``card`` is written to.

    Raises:
        InputError: the program or the card image does not exist.
        DeviceError: the program ended or did not listen.
    """
    _must_exist(executable, "program", "build it first")
    command = [str(executable.resolve()), "--listen", "0"]
    if card is not None:
        _must_exist(card, "card image", "copy the card.img of the build")
        command += ["--card", str(card.resolve())]
    with _running(command, executable.name) as process:
        yield f"socket://127.0.0.1:{process.wait_for(_LISTENING)}"


@contextlib.contextmanager
def run_registers(
    firmware: Path,
    card: Path | None = None,
    serial: Literal["pty", "socket"] = "pty",
    *,
    faults: Sequence[str] = (),
    trace: Path | None = None,
) -> Iterator[str]:
    """The URL of the console of ``firmware`` (.bin) on the register-level STM32F746.

    ``card`` is written to. ``faults`` strike the card (``poet_mcu/emulator/card_faults.py``);
    ``trace`` gets what the machine did, as JSON lines.

    Raises:
        ToolMissing: unicorn is not installed.
        InputError: the program or the card image does not exist.
        DeviceError: the emulator ended, with what was wrong, or showed no console.
    """
    if importlib.util.find_spec("unicorn") is None:
        raise ToolMissing(
            "unicorn: expected this Python package, got none; install poet-mcu[emulator]"
        )
    _must_exist(firmware, "program", "build it first")
    command = [sys.executable, "-m", "poet_mcu.emulator", str(firmware.resolve())]
    if card is not None:
        _must_exist(card, "card image", "copy the card.img of the build")
        command += ["--card", str(card.resolve())]
    command += ["--serial", serial, *(word for fault in faults for word in ("--fault", fault))]
    command += ["--trace", str(trace.resolve())] if trace else []
    with _running(command, firmware.name) as process:
        if serial == "socket":
            yield f"socket://127.0.0.1:{process.wait_for(_LISTENING, _BOOT_S)}"
        else:
            yield process.wait_for(_TERMINAL, _BOOT_S)


def _find_qemu() -> str:
    program = shutil.which(QEMU)
    if program is None:
        raise ToolMissing(
            f"{QEMU}: expected it on the PATH, got nothing; "
            "install it: sudo apt-get install qemu-system-arm"
        )
    return program


def _must_exist(path: Path, what: str, remedy: str) -> None:
    if not path.is_file():
        raise InputError(f"{path}: expected a {what}, got no such file; {remedy}")


def _card_options(card: Path | None, *, semihosting: bool) -> list[str]:
    options: list[str] = []
    path = ""
    if card is not None:
        _must_exist(card, "card image", "copy the card.img of the build")
        path = str(card.resolve()).replace(",", ",,")  # QEMU separates options by commas
    if semihosting:
        argument = f",arg={path}" if path else ""
        options += ["-semihosting-config", f"enable=on,target=native{argument}"]
    elif path:
        options += ["-drive", f"if=sd,format=raw,file={path}"]
    return options


def _free_port() -> int:
    """A port nobody listens on now; somebody may take it before QEMU does, and QEMU says so."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Obituary(DeviceError):
    """The process has died, and the message says so already."""


@dataclass(slots=True)
class _Process:
    process: subprocess.Popen[bytes]
    log: Path
    name: str

    def output(self) -> str:
        return self.log.read_bytes().decode(errors="replace")

    def wait_for(self, pattern: re.Pattern[str], limit_s: float = 0.0) -> str:
        """Group 1 of ``pattern`` in the output, within ``limit_s`` or what a start may take."""
        limit_s = limit_s or _START_S
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            found = pattern.search(self.output())
            if found:
                return found[1]
            self.must_live()
            time.sleep(_POLL_S)
        raise self.no_console(limit_s)

    def wait_until_connectable(self, port: int) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            self.must_live()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                return
            time.sleep(_POLL_S)
        raise self.no_console(_START_S)

    def must_live(self) -> None:
        code = self.process.poll()
        if code is not None:
            raise _Obituary(self.obituary(code))

    def obituary(self, code: int) -> str:
        lines = [line for line in self.output().splitlines() if not _HARMLESS.search(line)]
        said = "\n".join(lines[:_SHOWN_LINES]) or "nothing"
        return (
            f"{self.name}: expected the emulator to run, got its end (status {code}); "
            f"it said:\n{said}"
        )

    def no_console(self, limit_s: float) -> DeviceError:
        return DeviceError(
            f"{self.name}: expected a console within {limit_s:g} s, got none; "
            f"it said:\n{self.output() or 'nothing'}"
        )


@contextlib.contextmanager
def _running(command: Sequence[str], name: str) -> Iterator[_Process]:
    """The started command; errors of the body gain its last words if it has died meanwhile."""
    with tempfile.TemporaryDirectory(prefix="poet-") as folder:
        log = Path(folder) / "output"
        process = _start(command, log)
        child = _Process(process, log, name)
        try:
            yield child
        except DeviceError as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_DEATH_S)
            code = process.poll()
            if code is None or isinstance(error, _Obituary):
                raise
            raise DeviceError(f"{error}\n{child.obituary(code)}") from error
        finally:
            _end(process)


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    try:
        with log.open("wb") as output:
            # In a folder of its own: with semihosting the firmware looks for "card.img" in the
            # current one when it is given no card.
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
            )
    except OSError as error:
        raise InputError(
            f"{command[0]}: expected a program this computer can start, got '{error}'; "
            "build it for this computer"
        ) from error


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()  # the host firmware ends by this alone
    process.terminate()
    try:
        process.wait(_DEATH_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
