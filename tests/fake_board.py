"""A board of the real kind that is none: behind its flashing tool an emulator starts.

The files made here are executables on the PATH: the border between poet-mcu and what it calls.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from poet_mcu.board.load import board_text, load_board
from poet_mcu.board.schema import Board

#: of an ST-LINK/V2-1
USB = "0483:374b"

TOOL = """#!{python}
import os, pathlib, re, signal, subprocess, sys
folder = pathlib.Path({folder!r})
if sys.argv[1:] == ["--version"]:
    print("Open On-Chip Debugger 0.12.0", file=sys.stderr)
    sys.exit(0)
with (folder / "calls").open("a") as log:
    print(*sys.argv, sep="\\t", file=log)
words = " ".join(sys.argv)
if {ends} >= 0:
    print("Error: open failed", file=sys.stderr)
    sys.exit({ends})
image = re.search(r"program \\{{(\\S+)\\}}", words) or re.search(r"write (\\S+)", words)
elf = pathlib.Path(image[1]).with_suffix(".elf")
pid = folder / "pid"
if pid.exists():
    os.kill(int(pid.read_text()), signal.SIGKILL)
card = folder / "card.img"
if not card.exists():
    with card.open("wb") as file:
        file.truncate(8 << 20)
command = ["qemu-system-arm", "-M", "lm3s6965evb", "-cpu", "cortex-m7", "-display", "none"]
command += ["-monitor", "none", "-kernel", str(elf), "-drive", f"if=sd,format=raw,file={{card}}"]
command += ["-serial", "tcp:127.0.0.1:{port},server=on,wait=off,nodelay=on"]
silent = subprocess.DEVNULL
process = subprocess.Popen(
    command, stdin=silent, stdout=silent, stderr=silent, start_new_session=True
)
pid.write_text(str(process.pid))
"""


class FakeBoard:
    """An emulated Cortex-M7 that says it is hardware; ``tool`` flashes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"socket://127.0.0.1:{self.port}"

    def tool(self, name: str, *, ends: int = -1) -> None:
        """Put a program of this name where it will be found; with ``ends`` it only ends so."""
        path = self.bin / name
        path.write_text(
            TOOL.format(python=sys.executable, folder=str(self.folder), ends=ends, port=self.port)
        )
        path.chmod(0o755)

    def calls(self) -> list[list[str]]:
        """What the tools were called with."""
        path = self.folder / "calls"
        return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []

    def end(self) -> None:
        """Stop the emulator."""
        pid = self.folder / "pid"
        if pid.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid.read_text()), signal.SIGKILL)

    def file(self, **flash_with: Any) -> Path:
        """The board file, with these keys of flash_with."""
        path = self.folder / "fake-board.json"
        path.write_text(board_text(hardware(**flash_with)))
        return path


def hardware(**flash_with: Any) -> Board:
    """The emulated Cortex-M7 as a board file of the kind hardware."""
    tree = json.loads(board_text(load_board("qemu-m7-sd")))
    del tree["emulator"]
    tree |= {"kind": "hardware", "run_on": "nothing", "name": "fake-board", "aliases": []}
    if flash_with:
        tree["flash_with"] = {"source": "tests/fake_board.py", **flash_with}
    return Board.model_validate(tree)


def as_hardware(build: Path, out: Path, **flash_with: Any) -> Path:
    """A copy of a build for qemu-m7-sd whose board is of the kind hardware."""
    shutil.copytree(build, out)
    (out / "board.json").write_text(board_text(hardware(**flash_with)))
    return out
