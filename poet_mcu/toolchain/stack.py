"""The deepest stack a firmware can need, computed from its code, against what the board gives."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from poet_mcu.board.schema import Board
from poet_mcu.errors import CheckFailed, InternalError
from poet_mcu.toolchain.callgraph import Function, add_library, join_pointers, read_graphs
from poet_mcu.toolchain.pointers import FRESH_STACK
from poet_mcu.toolchain.tools import find_tool

#: what an exception entry stores, and the word that aligns it (Armv7-M ARM, B1.5.6 and B1.5.7)
_FRAME_BYTES = 32 + 4
_FPU_FRAME_BYTES = 104 + 4
_WORD = 4


@dataclass(frozen=True, slots=True)
class StackUse:
    """``total_bytes`` = ``main_bytes`` (reset and all it calls) + ``interrupt_bytes``.

    ``path`` are the functions from reset to the deepest, each with its frame.
    """

    main_bytes: int
    interrupt_bytes: int
    path: tuple[str, ...]

    @property
    def total_bytes(self) -> int:
        """The most that the stack can hold."""
        return self.main_bytes + self.interrupt_bytes


def stack_use(elf: Path, call_graphs: Sequence[str], board: Board) -> StackUse:
    """The deepest stack of the linked ``elf``; ``call_graphs`` are the compiler's, one a file.

    One interrupt at a time: all have the same priority, and faults begin a stack of their own.
    Raises InternalError for recursion and whatever makes the depth unknowable.
    """
    names, handlers = _symbols(elf)
    functions = read_graphs(call_graphs)
    join_pointers(functions, names)
    tool = str(find_tool("arm-none-eabi-objdump"))
    command = [tool, "-d", "--no-show-raw-insn", str(elf)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    add_library(functions, shown.stdout, names)
    depths: dict[str, tuple[int, tuple[str, ...]]] = {}
    main_bytes, path = _depth("poet_cortex_m_reset", functions, depths, ())
    frame_bytes = _FPU_FRAME_BYTES if board.core.float_abi == "hard" else _FRAME_BYTES
    deepest = max((_depth(name, functions, depths, ())[0] for name in handlers), default=0)
    return StackUse(main_bytes, frame_bytes + deepest, path)


def check_stack(elf: Path, call_graphs: Sequence[str], board: Board) -> StackUse:
    """``stack_use``; raises CheckFailed when the board's stack is smaller."""
    found = stack_use(elf, call_graphs, board)
    if found.total_bytes > board.runtime.stack_bytes:
        raise CheckFailed(
            f"{elf.name}: stack: expected at most runtime.stack_bytes {board.runtime.stack_bytes} "
            f"of board {board.name}, got {found.total_bytes} ({found.interrupt_bytes} of an "
            f"interrupt, and {' > '.join(found.path)}); raise runtime.stack_bytes in the board file"
        )
    return found


def _depth(
    key: str,
    functions: Mapping[str, Function],
    depths: dict[str, tuple[int, tuple[str, ...]]],
    above: tuple[str, ...],
) -> tuple[int, tuple[str, ...]]:
    if key in depths:
        return depths[key]
    if key in above:
        names = [functions[each].name for each in (*above[above.index(key) :], key)]
        raise InternalError(
            f"stack: expected no recursion, got {' > '.join(names)}; break the circle"
        )
    function = functions.get(key)
    if function is None:
        raise InternalError(
            f"stack: expected to know every function, got '{key}', which is neither compiled here "
            "nor in the program; add it to poet_mcu/toolchain/pointers.py or compile it"
        )
    deepest: tuple[int, tuple[str, ...]] = (0, ())
    for call in sorted(function.calls):
        deepest = max(deepest, _depth(call, functions, depths, (*above, key)), key=lambda d: d[0])
    own = f"{function.name} {function.frame_bytes}"
    depths[key] = (function.frame_bytes + deepest[0], (own, *deepest[1]))
    return depths[key]


def _symbols(elf: Path) -> tuple[dict[str, int], tuple[str, ...]]:
    """Addresses by name, and the interrupt handlers of the vector tables."""
    with elf.open("rb") as file:
        parsed = ELFFile(file)
        names: dict[str, int] = {}
        functions: dict[int, str] = {}
        tables: list[tuple[int, int]] = []
        for table in parsed.iter_sections():
            if not isinstance(table, SymbolTableSection):
                continue
            for symbol in table.iter_symbols():
                names[symbol.name] = symbol["st_value"]
                if symbol["st_info"]["type"] == "STT_FUNC":
                    functions[symbol["st_value"]] = symbol.name
                elif "vectors" in symbol.name or "interrupts" in symbol.name:
                    tables.append((symbol["st_value"], symbol["st_size"]))
        words = {word for place in tables for word in _words(parsed, *place)}
    found = {functions[word] for word in words if word in functions}
    return names, tuple(sorted(found - {*FRESH_STACK, "poet_cortex_m_reset"}))


def _words(parsed: ELFFile, address: int, nbytes: int) -> list[int]:
    for section in parsed.iter_sections():
        start = section["sh_addr"]
        if section["sh_type"] == "SHT_PROGBITS" and start <= address < start + section["sh_size"]:
            data = section.data()[address - start : address - start + nbytes]
            return [
                int.from_bytes(data[at : at + _WORD], "little") for at in range(0, nbytes, _WORD)
            ]
    return []
