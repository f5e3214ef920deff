"""Who calls whom, and how many bytes of stack each takes.

Of our C the compiler says it, of library functions the disassembled program.
gcc writes the graph with -fcallgraph-info=su (gcc manual, 3.11 Developer Options): its edges name
every call, those of run-time support like __aeabi_fadd included, and one placeholder for calls
through pointers.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePath

from poet_mcu.errors import InternalError
from poet_mcu.toolchain.pointers import ANYWHERE, SAME_FILE

_GRAPH = re.compile(r'^graph: \{ title: "([^"]*)"', re.MULTILINE)
_NODE = re.compile(r'^node: \{ title: "([^"]*)" label: "([^"]*)"', re.MULTILINE)
_EDGE = re.compile(
    r'^edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"(?: label: "([^"]*)")?', re.MULTILINE
)
_SIZE = re.compile(r"(\d+) bytes \(([a-z,]+)\)")
_INDIRECT = "__indirect_call"

_BLOCK = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
_LINE = re.compile(r"^ *[0-9a-f]+:\t(\S+)\s*(.*)$")
_TARGET = re.compile(r"\b([0-9a-f]+) <")
_REGISTERS = re.compile(r"\{([^}]*)\}")
_IMMEDIATE = re.compile(r"#(-?\d+)")
_CALL = re.compile(r"^(bl|b(eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?(\.[nw])?|cbn?z)$")
_POINTER_CALL = re.compile(r"^(blx|bx\w*|mov pc,)$")
_ENDS = re.compile(r"^(b(\.[nw])?|bx|udf)$")


@dataclass(slots=True)
class Function:
    """``frame_bytes``: pushed and reserved by the function itself, until it returns.

    ``pointers``: files in which it calls through a pointer.
    """

    name: str
    file: str
    frame_bytes: int
    calls: set[str] = field(default_factory=set)
    pointers: set[str] = field(default_factory=set)


def read_graphs(texts: Iterable[str]) -> dict[str, Function]:
    """The functions of compiled files, by a key that tells static ones of one name apart.

    Raises InternalError for a frame whose size only the running program knows.
    """
    found: dict[str, Function] = {}
    for text in texts:
        title = _GRAPH.search(text)
        file = PurePath(title[1]).name if title else ""
        for key, label in _NODE.findall(text):
            size = _SIZE.search(label)
            if size is None:
                continue  # only declared here
            name = label.split("\\n", 1)[0]
            if size[2] not in ("static", "dynamic,bounded"):
                raise InternalError(
                    f"{file}: {name}: expected a stack frame of fixed size, got a {size[2]} one; "
                    "take out what grows it at run time"
                )
            found[key] = Function(name, file, int(size[1]))
        for source, target, place in _EDGE.findall(text):
            if target == _INDIRECT:
                found[source].pointers.add(PurePath(place.split(":", 1)[0]).name)
            else:
                found[source].calls.add(target)
    return found


def join_pointers(functions: Mapping[str, Function], linked: Container[str]) -> None:
    """Turn calls through pointers into calls, by the list in ``pointers.py``.

    A function whose name is not among the ``linked`` ones was left out of the program. Raises
    InternalError for a file that is not in the list.
    """
    for function in functions.values():
        for place in function.pointers:
            patterns = ANYWHERE.get(place) or SAME_FILE.get(place)
            if patterns is None:
                raise InternalError(
                    f"{place}: {function.name}: expected calls through pointers in listed files "
                    "only, got one here; add it to poet_mcu/toolchain/pointers.py"
                )
            function.calls |= {
                key
                for key, other in functions.items()
                if (place in ANYWHERE or other.file == function.file)
                and other.name in linked
                and any(fnmatchcase(other.name, pattern) for pattern in patterns)
            }


def add_library(functions: dict[str, Function], disassembly: str, names: Mapping[str, int]) -> None:
    """Add what our C calls and did not compile, as far as those calls reach.

    ``disassembly`` is objdump -d of the program; ``names`` are its symbols' addresses.
    """
    blocks = _blocks(disassembly)
    by_address = {address: name for name, (address, _) in blocks.items()}
    wanted = {call for f in functions.values() for call in f.calls} - functions.keys()
    while wanted:
        name = wanted.pop()
        # Thumb: the lowest bit is no part of the address. A name without a block was not linked.
        block = by_address.get(names.get(name, -1) & ~1)
        if block is None:
            continue
        functions[name] = _library(name, block, blocks)
        wanted |= functions[name].calls - functions.keys()


def _blocks(disassembly: str) -> dict[str, tuple[int, list[tuple[str, str]]]]:
    """Instructions as (mnemonic, operands) of each symbol, in the order of addresses."""
    found: dict[str, tuple[int, list[tuple[str, str]]]] = {}
    lines: list[tuple[str, str]] = []
    for text in disassembly.splitlines():
        start = _BLOCK.match(text)
        if start:
            lines = []
            found[start[2]] = (int(start[1], 16), lines)
            continue
        line = _LINE.match(text)
        if line:
            lines.append((line[1], line[2]))
    return found


def _library(
    name: str, block: str, blocks: Mapping[str, tuple[int, list[tuple[str, str]]]]
) -> Function:
    function = Function(name, "", 0)
    lines = [line for line in blocks[block][1] if not line[0].startswith(".")]
    for mnemonic, operands in lines:
        function.frame_bytes += _pushed(name, mnemonic, operands)
        if _POINTER_CALL.match(mnemonic) and not operands.startswith("lr"):
            raise InternalError(
                f"{name}: expected library code without calls through pointers, got "
                f"'{mnemonic} {operands}'; use another function"
            )
        target = _TARGET.search(operands) if _CALL.match(mnemonic) else None
        called = _block_at(int(target[1], 16), blocks) if target else None
        if called and (called != block or mnemonic == "bl"):
            function.calls.add(called)
    real = [line for line in lines if not line[0].startswith("nop")]  # those fill up to a boundary
    last = real[-1] if real else ("udf", "")
    if not (_ENDS.match(last[0]) or "pc" in last[1]):
        order = list(blocks)
        after = order.index(block) + 1
        function.calls |= set(order[after : after + 1])  # it runs into the next one
    return function


def _block_at(address: int, blocks: Mapping[str, tuple[int, list[tuple[str, str]]]]) -> str | None:
    """The block that holds the address.

    objdump's own word for it may be any symbol of no greater value, a linker script's number too.
    """
    starts = [(start, name) for name, (start, _) in blocks.items() if start <= address]
    return max(starts)[1] if starts else None


def _pushed(name: str, mnemonic: str, operands: str) -> int:
    """Bytes by which an instruction lowers the stack pointer."""
    plain = mnemonic.split(".", 1)[0]
    if plain in ("push", "vpush") or (plain in ("stmdb", "vstmdb") and operands.startswith("sp!")):
        registers = _REGISTERS.search(operands)
        return _register_bytes(registers[1]) if registers else 0
    amount = _IMMEDIATE.search(operands)
    lowers = plain in ("sub", "subw") and operands.startswith("sp,")
    if "[sp, #-" in operands and "]!" in operands and amount:
        return -int(amount[1])
    if lowers and amount is None:
        raise InternalError(
            f"{name}: expected library code with stack frames of fixed size, got '{mnemonic} "
            f"{operands}'; use another function"
        )
    return int(amount[1]) if lowers and amount else 0


def _register_bytes(text: str) -> int:
    total = 0
    for word in text.replace(" ", "").split(","):
        first, _, last = word.partition("-")
        numbers = [int(re.sub(r"\D", "", w) or 0) for w in (first, last or first)]
        total += (8 if first.startswith("d") else 4) * (numbers[1] - numbers[0] + 1)
    return total
