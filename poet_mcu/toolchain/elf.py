"""What a linked ELF really uses, and whether it can run on the board at all.

Conventions of our linker script: the arena is a NOBITS section called ``.arena``, with ``.arena1``
and so on for its parts beside the main RAM, and the stack one called ``.stack``; where one of
these two is missing, the symbol ``poet_arena`` or the pair ``_stack_bottom`` and ``_stack_top`` is
taken instead.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import P_FLAGS, SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from poet_mcu.board.schema import Board
from poet_mcu.board.tables import Memory, MemoryPart
from poet_mcu.errors import CheckFailed, InputError

#: a part of the arena, counted from 1 as the board file has them
_PART = re.compile(r"\.arena([1-9][0-9]*)")
_FUNCTION_OR_OBJECT = ("STT_FUNC", "STT_OBJECT")
# "ELF for the Arm Architecture" (IHI 0044F), 4.3.1: e_flags of the float ABI.
_EF_ARM_ABI_FLOAT_HARD = 0x400


@dataclass(frozen=True, slots=True)
class Section:
    """One section that occupies memory at run time."""

    name: str
    address: int
    size_bytes: int
    writable: bool
    in_file: bool


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function or an object with a size."""

    name: str
    size_bytes: int
    section: str
    function: bool


@dataclass(frozen=True, slots=True)
class Sizes:
    """Measured bytes. ``bss`` is without arena and stack; ``text`` is code and constants."""

    text: int
    data: int
    bss: int
    arena: int
    stack: int
    entry: int

    @property
    def flash_bytes(self) -> int:
        """What is stored in flash: code, constants, start values of .data."""
        return self.text + self.data

    @property
    def ram_bytes(self) -> int:
        """What occupies RAM: everything the budget counts."""
        return self.data + self.bss + self.arena + self.stack

    @property
    def static_bytes(self) -> int:
        """.data and .bss without arena and stack: what board.runtime.static_bytes bounds."""
        return self.data + self.bss


@dataclass(frozen=True, slots=True)
class _Image:
    machine: str
    entry: int
    flags: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    addresses: dict[str, int]
    loads: tuple[tuple[int, int, int], ...]  # load address, bytes in file, bytes in memory
    head: dict[int, bytes]  # first 8 bytes by section address


def measure(elf: Path) -> Sizes:
    """Sizes of the ELF. Raises InputError when the file is not an ELF."""
    image = _read(elf)
    totals = {"text": 0, "data": 0, "bss": 0, "arena": 0, "stack": 0}
    for section in image.sections:
        totals[_kind(section)] += section.size_bytes
    if not any(s.name == ".arena" for s in image.sections):
        arena = sum(s.size_bytes for s in image.symbols if s.name == "poet_arena")
        totals["arena"] += arena
        totals["bss"] -= arena
    if not any(s.name == ".stack" for s in image.sections):
        bottom = image.addresses.get("_stack_bottom", 0)
        totals["stack"] += image.addresses.get("_stack_top", bottom) - bottom
    return Sizes(**totals, entry=image.entry)


def symbols(elf: Path) -> tuple[Symbol, ...]:
    """All functions and objects with a size, largest first."""
    return tuple(sorted(_read(elf).symbols, key=lambda s: (-s.size_bytes, s.name)))


def check_elf(elf: Path, board: Board) -> Sizes:
    """Sizes, after the checks of a firmware. Raises CheckFailed with all problems at once.

    Checked: nothing lies outside the board's flash and RAM; a vector table stands first in flash
    with a stack pointer in RAM and a Thumb reset vector in flash; the float ABI is the board's.
    """
    image = _read(elf)
    found = _outside(image, board) + _vectors(image, board)
    if image.machine != "EM_ARM":
        found.append(f"machine: expected EM_ARM, got {image.machine}; use the board's compiler")
    hard = bool(image.flags & _EF_ARM_ABI_FLOAT_HARD)
    if hard != (board.core.float_abi == "hard"):
        found.append(
            f"float ABI: expected {board.core.float_abi}, got {'hard' if hard else 'soft'}; "
            "compile every file with the flags of this board"
        )
    if found:
        raise CheckFailed("\n".join(f"{elf.name}: {text}" for text in found))
    return measure(elf)


def check_budget(sizes: Sizes, ram_bytes: int, name: str) -> None:
    """Raises CheckFailed when data, bss, arena and stack exceed ``ram_bytes`` by one byte."""
    if sizes.ram_bytes > ram_bytes:
        raise CheckFailed(
            f"{name}: RAM: expected at most {ram_bytes} bytes, got {sizes.ram_bytes} (.data "
            f"{sizes.data}, .bss {sizes.bss}, arena {sizes.arena}, stack {sizes.stack}); raise "
            "--ram"
        )


def _kind(section: Section) -> str:
    if _PART.fullmatch(section.name):
        return "arena"
    if section.name in {".arena", ".stack"}:
        return section.name[1:]
    if not section.writable:
        return "text"
    return "data" if section.in_file else "bss"


def _outside(image: _Image, board: Board) -> list[str]:
    found = []
    for section in image.sections:
        end = section.address + section.size_bytes
        homes, names = _homes_of(section, board)
        if not any(home.origin <= section.address and end <= home.end for home in homes):
            found.append(
                f"section {section.name}: expected a place inside {names} of {board.name}, got "
                f"[{section.address:#010x}, {end:#010x}); correct the linker script"
            )
    for address, in_file, _ in image.loads:
        homes = [board.flash, board.vectors]
        inside = any(m.origin <= address and address + in_file <= m.end for m in homes)
        if in_file and not inside:
            found.append(
                f"segment: expected a load address inside memory.flash of {board.name}, got "
                f"[{address:#010x}, {address + in_file:#010x}); correct the linker script"
            )
    return found


def _homes_of(section: Section, board: Board) -> tuple[Sequence[Memory | MemoryPart], str]:
    """Where a section may lie, and the names of that in the board file."""
    part = _PART.fullmatch(section.name)
    if part:
        index = int(part[1]) - 1
        return board.arena.parts[index : index + 1], f"arena.parts.{index}"
    if section.writable:
        return [board.sram], "memory.sram"
    return [board.flash, board.sram, board.vectors], "memory.flash"


def _vectors(image: _Image, board: Board) -> list[str]:
    """Armv7-M ARM (DDI 0403E) B1.5.3: word 0 is the stack pointer, word 1 the reset vector."""
    head = image.head.get(board.vectors_origin, b"")
    if len(head) < 8:
        where = f"{board.vectors_origin:#010x}"
        return [f"vector table: expected a section at {where}, got none; link the startup code"]
    stack, reset = struct.unpack("<II", head)
    found = []
    if not (board.sram.origin < stack <= board.sram.end and stack % 8 == 0):
        found.append(
            "vector table: expected an initial stack pointer in memory.sram, aligned to 8, got "
            f"{stack:#010x}; correct the linker script"
        )
    if not (reset & 1 and board.flash.origin < reset < board.flash.end):
        found.append(
            "vector table: expected a Thumb address in memory.flash as reset vector, got "
            f"{reset:#010x}; correct the startup code"
        )
    return found


def _read(elf: Path) -> _Image:
    try:
        with elf.open("rb") as file:
            return _image(ELFFile(file))
    except (OSError, ELFError) as error:
        raise InputError(f"{elf}: expected an ELF file, got {error}; build again") from error


def _image(parsed: ELFFile) -> _Image:
    sections, head = [], {}
    names = [section.name for section in parsed.iter_sections()]
    for section in parsed.iter_sections():
        flags, size = section["sh_flags"], section["sh_size"]
        if not flags & SH_FLAGS.SHF_ALLOC or size == 0:
            continue
        in_file = section["sh_type"] != "SHT_NOBITS"
        writable = bool(flags & SH_FLAGS.SHF_WRITE)
        sections.append(Section(section.name, section["sh_addr"], size, writable, in_file))
        if in_file:
            head[section["sh_addr"]] = section.data()[:8]
    found, addresses = [], {}
    for table in parsed.iter_sections():
        if not isinstance(table, SymbolTableSection):
            continue
        for symbol in table.iter_symbols():
            index, kind = symbol["st_shndx"], symbol["st_info"]["type"]
            addresses[symbol.name] = symbol["st_value"]
            if kind in _FUNCTION_OR_OBJECT and isinstance(index, int) and symbol["st_size"]:
                is_function = kind == "STT_FUNC"
                found.append(Symbol(symbol.name, symbol["st_size"], names[index], is_function))
    loads = tuple(
        (s["p_paddr"], s["p_filesz"], s["p_memsz"])
        for s in parsed.iter_segments()
        if s["p_type"] == "PT_LOAD" and s["p_flags"] & (P_FLAGS.PF_R | P_FLAGS.PF_X | P_FLAGS.PF_W)
    )
    return _Image(
        parsed["e_machine"],
        parsed["e_entry"],
        parsed["e_flags"],
        tuple(sections),
        tuple(found),
        addresses,
        loads,
        head,
    )
