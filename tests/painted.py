"""An emulated board whose arena is painted before it starts: what a training really touches.

The start-up code does not clear the arena. QEMU loads paint over it, and at the end writes it to
a file; the last byte that is no paint any more is where the program has been.
"""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

from poet_mcu.link.client import Board, open_board
from poet_mcu.link.emulator import run_qemu
from poet_mcu.pipeline.target import open_folder

PAINT = 0xA5


@dataclass
class Arena:
    """Where the arena lies; ``touched_bytes`` from its start to the end of what was written."""

    address: int
    nbytes: int
    touched_bytes: int = 0


def arena_of(elf: Path) -> Arena:
    with elf.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".arena")
        return Arena(section["sh_addr"], section["sh_size"])


def _dump(path: Path, arena: Arena, out: Path) -> None:
    """Ask QEMU (its Machine Protocol) for the bytes of the arena."""
    words = {"val": arena.address, "size": arena.nbytes, "filename": str(out)}
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(path))
        with line.makefile("rw", encoding="utf-8") as talk:
            talk.readline()  # the greeting
            for request in ({"execute": "qmp_capabilities"},
                            {"execute": "pmemsave", "arguments": words}):  # fmt: skip
                talk.write(json.dumps(request) + "\n")
                talk.flush()
                answer = json.loads(talk.readline())
                assert "return" in answer, answer


@contextmanager
def painted(folder: Path) -> Iterator[tuple[Board, Arena]]:
    """The emulated board of a build, and its arena, whose measure is there when this ends."""
    opened = open_folder(folder)
    emulator = opened.board.emulator
    assert emulator is not None
    elf = folder / "firmware.elf"
    arena = arena_of(elf)
    with tempfile.TemporaryDirectory() as scratch:
        paint, talk, dump = (Path(scratch) / name for name in ("paint", "qmp", "dump"))
        paint.write_bytes(bytes([PAINT]) * arena.nbytes)
        card = None
        if (folder / "card.img").exists():
            card = Path(scratch) / "card.img"
            card.write_bytes((folder / "card.img").read_bytes())
        extra = ["-device", f"loader,file={paint},addr={arena.address},force-raw=on"]
        extra += ["-qmp", f"unix:{talk},server=on,wait=off"]
        semihosting = opened.board.storage.driver == "semihosting"
        with (
            run_qemu(elf, emulator.machine, emulator.cpu or None, card, extra=extra,
                     semihosting=semihosting) as url,
            open_board(url, build_id=opened.build_id) as board,
        ):  # fmt: skip
            yield board, arena
            _dump(talk, arena, dump)
        touched = np.flatnonzero(np.frombuffer(dump.read_bytes(), np.uint8) != PAINT)
        arena.touched_bytes = int(touched[-1]) + 1 if len(touched) else 0
