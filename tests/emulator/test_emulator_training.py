"""The firmware that would be flashed, trained in the emulator: pages on the card, by DMA."""

from __future__ import annotations

import json
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import emulated
import models
from elftools.elf.elffile import ELFFile

from poet_mcu.ir.program import Opcode, Program
from poet_mcu.pipeline.build import Built, build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import plan
from poet_mcu.pipeline.target import open_folder
from poet_mcu.pipeline.validate import validate

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from make_digits import make_model

ROOT = Path(__file__).resolve().parents[2]
KERNELS = {path.name for path in (ROOT / "firmware" / "kernels").glob("*.c")}
#: the board with all its RAM behind the data cache: small networks would else live in DTCM
CACHED = """
schema = 1
extends = ["stm32f746g-disco"]
name = "f746-sram1"
title = "STM32F746G-DISCO, RAM in SRAM1 alone"
[memory.sram]
origin = 0x2001_0000
size_bytes = 245_760
source = "RM0385 2.2.2: SRAM1"
[[memory.sram.parts]]
name = "SRAM1"
origin = 0x2001_0000
size_bytes = 245_760
bytes_per_cycle = 4
cached = true
dma = true
source = "as the board's part of that name"
"""


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="poet-mcu-registers-"))


@cache
def cached_board() -> str:
    path = folder() / "f746-sram1.toml"
    path.write_text(CACHED, "utf-8")
    return str(path)


def smallest(model: Path, board: str, name: str, batch: int) -> Built:
    """``model`` with the least RAM that works without computing anything twice."""
    options: dict[str, Any] = {"lr": 0.05, "remat": False, "batch": batch}
    least = plan(Options(model, board, **options)).facts["minimum_peak_bytes"]
    return build(Options(model, board, ram_bytes=least, **options), folder() / name)


def test_twenty_steps_with_pages_on_the_card() -> None:
    model = models.save(make_model(), folder() / "digits.onnx")
    options = Options(model, "stm32f7", batch=1, lr=0.05, strategy="page-all", ram_bytes=60 << 10)
    made = build(options, folder() / "digits")
    outcome = validate(made.folder, steps=20, serial="socket")
    assert outcome.faults == ()
    assert outcome.facts["bit_identical_to_host"] is True
    assert outcome.facts["page_ins"] >= 20
    assert outcome.facts["page_outs"] >= 20
    assert outcome.facts["sd_read_bytes"] == 20 * made.facts["sd_read_bytes"]


def windows(program: Program) -> list[tuple[str, int, set[str]]]:
    """(direction, page, kernels that the plan lets run while it moves), in order of a step."""
    found = []
    for place, started in enumerate(program.instructions):
        if started.opcode not in {Opcode.PAGE_IN, Opcode.PAGE_OUT}:
            continue
        calls: set[str] = set()
        for later in program.instructions[place + 1 :]:
            if later.opcode is Opcode.WAIT and later.page == started.page:
                break
            if later.call is not None:
                calls.add(later.call.function)
        direction = "read" if started.opcode is Opcode.PAGE_IN else "write"
        found.append((direction, started.page, calls))
    return found


def functions(elf_path: Path) -> list[tuple[range, str, str]]:
    """(addresses, name, source file or '' for a global one) of every function."""
    found = []
    with elf_path.open("rb") as file:
        source = ""
        for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols():
            source = symbol.name if symbol["st_info"]["type"] == "STT_FILE" else source
            if symbol["st_info"]["type"] == "STT_FUNC":
                start = symbol["st_value"] & ~1
                local = symbol["st_info"]["bind"] == "STB_LOCAL"
                addresses = range(start, start + symbol["st_size"])
                found.append((addresses, symbol.name, source if local else ""))
    return found


def kernels_at(places: list[int], known: list[tuple[range, str, str]]) -> set[str]:
    """The kernels, and their helpers, in which the core was."""
    found = set()
    for place in places:
        for addresses, name, source in known:
            if place in addresses and (
                source in KERNELS
                or (not source and name.startswith("poet_") and name.endswith("_f32"))
            ):
                found.add(name)
    return found


def moves(trace: Path) -> list[tuple[str, int, list[int]]]:
    """(direction, first block, where the core was meanwhile); writing goes on as programming."""
    found: list[tuple[str, int, list[int]]] = []
    for line in trace.read_text("utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "transfer":
            found.append((event["direction"], event["block"], event["places"]))
        elif event["event"] == "programmed":
            assert found[-1][:2] == ("write", event["block"])
            found[-1][2].extend(event["places"])
    return found


def test_transfers_run_while_kernels_run() -> None:
    """In the trace the core is in the kernels that the plan names while their page moves."""
    steps = 2
    model = models.save(models.residual("N", channels=8, size=12), folder() / "residual.onnx")
    made = smallest(model, cached_board(), "overlap", batch=2)
    opened = open_folder(made.folder)
    planned = windows(made.plan.train.program)
    trace = folder() / "trace.jsonl"
    slow_card = "busy:0+:0.0001"  # the emulator's own programs in no time
    emulated.run_registers_of(made.folder, steps, trace, (slow_card,))
    region = opened.board.storage.region_first_block
    starts = {page.number: region + page.first_block for page in made.plan.train.program.pages}
    first = [move for move in moves(trace) if move[1] in starts.values()]
    order = [(direction, starts[page]) for direction, page, _ in planned]
    assert [move[:2] for move in first] == steps * order
    known = functions(made.folder / "firmware.elf")
    for (direction, _, calls), move in zip(steps * planned, first, strict=True):
        names = kernels_at(move[2], known)
        assert bool(names) == bool(calls), (direction, calls, names)
    assert any(direction == "read" and calls for direction, _, calls in planned)
    assert any(direction == "write" and calls for direction, _, calls in planned)
