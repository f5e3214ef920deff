"""Finds compilers and emulator; what is missing is named with the package that brings it."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from poet_mcu.board.schema import Board
from poet_mcu.errors import ToolMissing

_PACKAGES = {
    "arm-none-eabi-gcc": "gcc-arm-none-eabi",
    "arm-none-eabi-objcopy": "binutils-arm-none-eabi",
    "arm-none-eabi-objdump": "binutils-arm-none-eabi",
    "qemu-system-arm": "qemu-system-arm",
    "cc": "gcc libc6-dev",
    "objcopy": "binutils",
    "make": "make",
    "openocd": "openocd",
    "st-flash": "stlink-tools",
}


class ToolState(NamedTuple):
    """One line of ``poet-mcu doctor``; ``version`` is None where the tool is missing."""

    tool: str
    version: str | None
    install: str


def install_hint(tool: str) -> str:
    """The command that installs the tool on Debian and Ubuntu."""
    return f"sudo apt-get install {_PACKAGES.get(tool, tool)}"


def find_tool(tool: str) -> Path:
    """Path of the tool. Raises ToolMissing naming the Debian package."""
    found = shutil.which(tool)
    if found is None:
        raise ToolMissing(
            f"{tool}: expected this program in PATH, got none; run: {install_hint(tool)}"
        )
    return Path(found)


def compiler(board: Board) -> Path:
    """The C compiler for the board: cc for kind host, else arm-none-eabi-gcc with newlib."""
    if board.kind == "host":
        return find_tool("cc")
    gcc = find_tool("arm-none-eabi-gcc")
    if _newlib(gcc) is None:
        raise ToolMissing(
            "newlib: expected libc.a beside arm-none-eabi-gcc, got none; run: "
            "sudo apt-get install libnewlib-arm-none-eabi"
        )
    return gcc


def objcopy(board: Board) -> Path:
    """The objcopy that belongs to ``compiler(board)``."""
    return find_tool("objcopy" if board.kind == "host" else "arm-none-eabi-objcopy")


def host_has_fma() -> bool:
    """True when code with fused multiply-add runs on this computer.

    64-bit Arm always has it; on x86 the kernel lists it. Elsewhere: no, which is slow, not wrong.
    """
    machine = platform.machine().lower()
    if machine in {"aarch64", "arm64"}:
        return True
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return re.search(r"^flags\s*:.*\bfma\b", text, re.MULTILINE) is not None


def doctor() -> list[ToolState]:
    """Every outside program poet-mcu may call, its version or None, and how to install it."""
    probes: list[tuple[str, Callable[[], str | None], str]] = [
        (tool, lambda tool=tool: _version(tool), install_hint(tool))  # type: ignore[misc]
        for tool in (
            "arm-none-eabi-gcc",
            "arm-none-eabi-objcopy",
            "qemu-system-arm",
            "cc",
            "make",
            "openocd",
            "st-flash",
        )
    ]
    probes.append(
        ("newlib", _newlib_version, "sudo apt-get install libnewlib-arm-none-eabi"),
    )
    probes.append(
        ("pyocd", _pyocd_version, "pip install 'poet-mcu[flash]'"),
    )
    return [ToolState(tool, probe(), hint) for tool, probe, hint in probes]


def _version(tool: str) -> str | None:
    path = shutil.which(tool)
    if path is None:
        return None
    try:
        run = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (run.stdout or run.stderr).splitlines()  # OpenOCD says it on stderr
    if run.returncode != 0 or not lines:
        return None
    number = re.search(r"\d+\.\d+(\.\d+)?", lines[0].split(")", 1)[-1]) or re.search(
        r"\d+\.\d+(\.\d+)?", lines[0]
    )
    return number[0] if number else lines[0]


def _pyocd_version() -> str | None:
    try:
        return metadata.version("pyocd")
    except metadata.PackageNotFoundError:
        return None


def _newlib(gcc: Path) -> Path | None:
    """libc.a as the compiler finds it; gcc echoes the bare name when there is none."""
    run = subprocess.run(
        [str(gcc), "-print-file-name=libc.a"], capture_output=True, text=True, check=False
    )
    path = Path(run.stdout.strip())
    return path if path.is_absolute() and path.is_file() else None


def _newlib_version() -> str | None:
    gcc = shutil.which("arm-none-eabi-gcc")
    if gcc is None:
        return None
    archive = _newlib(Path(gcc))
    if archive is None:
        return None
    header = Path(gcc).resolve().parent / "../arm-none-eabi/include/_newlib_version.h"
    for candidate in (header, Path("/usr/include/newlib/_newlib_version.h")):
        if candidate.is_file():
            found = re.search(r'_NEWLIB_VERSION\s+"([^"]+)"', candidate.read_text())
            if found:
                return found[1]
    return "found"
