"""Boards whose arena has parts, from the command line: built, inspected, trained."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import emulated
import pytest
from elftools.elf.elffile import ELFFile

from poet_mcu import resources
from poet_mcu.board.load import load_board
from poet_mcu.errors import CheckFailed
from poet_mcu.toolchain import check_elf

DIGITS = resources.root() / "examples" / "digits" / "digits_cnn.onnx"
#: 26 KiB, a gap, and 16 KiB that no DMA reaches: the machine has 64 KiB in one piece
CCM = """
extends = "qemu-m4-sd"
name = "qemu-ccm"
title = "QEMU lm3s6965evb with a Cortex-M4F, as if half of its RAM were out of the DMA's reach"
[memory.sram]
size_bytes = 26_624
source = "the lower 26 KiB of the machine's RAM"
[storage]
overlap = true
source = "transfers as if by DMA"
[arena]
source = "as the board this is made of"
[[arena.parts]]
name = "CCM"
origin = 0x2000_C000
size_bytes = 16_384
bytes_per_cycle = 4
cached = false
dma = false
source = "the upper 16 KiB of the machine's RAM"
"""
#: what DMA2 cannot reach on an STM32F7 is real: its instruction RAM
ITCM = """
schema = 1
extends = ["stm32f746g-disco"]
name = "f746-itcm"
title = "STM32F746G-DISCO, values in 24 KiB of DTCM and in the instruction RAM"
[memory.sram]
size_bytes = 24_576
source = "RM0385 2.2.2: DTCM, the lower part of it"
[[memory.sram.parts]]
name = "DTCM"
origin = 0x2000_0000
size_bytes = 24_576
bytes_per_cycle = 8
cached = false
dma = true
source = "RM0385 2.1 and 2.2.2"
[arena]
source = "as the board this is made of"
[[arena.parts]]
name = "ITCM"
origin = 0x0000_0400
size_bytes = 15_360
bytes_per_cycle = 8
cached = false
dma = {dma}
source = "RM0385 2.2.2: 16 KiB for the core alone"
"""
TINY = ("--batch", 4, "--lr", 0.05, "--strategy", "page-all", "--time-limit", 2)


def board_file(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def build(run: Any, board: Path | str, out: Path, *more: object) -> dict[str, Any]:
    told = run("build", DIGITS, "--board", board, *TINY, *more, "-o", out, "--json")
    assert told.code == 0, told.err
    return json.loads((out / "plan.json").read_text())


@pytest.mark.qemu
def test_training_in_two_parts_gives_the_bits_of_one(run: Any, tmp_path: Path) -> None:
    mine = board_file(tmp_path, CCM)
    facts = build(run, mine, tmp_path / "parts")
    plain = build(run, "qemu-m4-sd", tmp_path / "plain")
    assert facts["arena_parts"] == [{"name": "CCM", "offset": 0, "nbytes": 16384, "reached": False}]
    assert "arena_parts" not in plain
    assert facts["page_ins"] > 4
    runs = [emulated.run_folder(tmp_path / "parts", 3, twin=twin) for twin in (False, True)]
    runs.append(emulated.run_folder(tmp_path / "plain", 3, twin=True))
    assert emulated.same(runs[0], runs[1])
    assert emulated.same(runs[0], runs[2])
    assert runs[0].facts["sd_read_bytes"] == 3 * facts["sd_read_bytes"]
    check_sections(tmp_path / "parts" / "firmware.elf", facts)
    check_addresses(tmp_path / "parts" / "src", facts)
    told = run("plan", DIGITS, "--board", mine, *TINY, "--ram", "44K")
    assert told.code == 3
    assert "memory.sram: expected --ram of at most 43008 bytes, got 45056" in told.err


def check_sections(elf: Path, facts: dict[str, Any]) -> None:
    """The part's array lies in the part, and the inspection of the ELF minds where."""
    with elf.open("rb") as file:
        parts = {s.name: s for s in ELFFile(file).iter_sections() if s.name.startswith(".arena")}
    assert parts[".arena1"]["sh_addr"] == 0x2000C000
    assert parts[".arena1"]["sh_size"] + parts[".arena"]["sh_size"] == facts["arena_bytes"]
    board = load_board(elf.parent / "board.json")
    sizes = check_elf(elf, board)
    assert sizes.arena == facts["arena_bytes"]
    part = board.arena.parts[0].model_copy(update={"origin": 0x2000A000})
    elsewhere = board.model_copy(
        update={"arena": board.arena.model_copy(update={"parts": (part,)})}
    )
    with pytest.raises(CheckFailed, match=r"section \.arena1: expected a place inside arena\.par"):
        check_elf(elf, elsewhere)


def check_addresses(source: Path, facts: dict[str, Any]) -> None:
    """Some values lie in the part, and none that is paged."""
    header = (source / "poet_model.h").read_text()
    code = (source / "poet_schedule.c").read_text()
    at = {
        name: int(offset)
        for name, offset in re.findall(r"^    (at_\w+) = (\d+),", header, re.MULTILINE)
    }
    paged = set(re.findall(r"poet_page_(?:in|out)\(run->pages, \d+u, AT\((\w+)\)", code))
    assert paged
    assert min(at[name] for name in paged) >= facts["arena_parts"][0]["nbytes"]
    assert sum(offset < facts["arena_parts"][0]["nbytes"] for offset in at.values()) > 6


def test_the_dma_of_an_stm32f7_never_meets_its_instruction_ram(run: Any, tmp_path: Path) -> None:
    """And would, were the part said to be in its reach: the emulated DMA2 faults."""
    pytest.importorskip("unicorn")
    facts = build(run, board_file(tmp_path, ITCM.format(dma="false")), tmp_path / "out")
    assert facts["page_ins"] > 4
    words = ("--emulate", "--steps", 2, "--serial", "socket")
    told = run("validate", tmp_path / "out", *words, "--json")
    assert told.code == 0, told.err
    assert told.json["bit_identical_to_host"]
    build(run, board_file(tmp_path, ITCM.format(dma="true")), tmp_path / "wrong")
    told = run("validate", tmp_path / "wrong", *words)
    assert told.code != 0
    assert "expected memory that DMA2 reaches, got 0x0000" in told.err
