"""Compiler and linker flags of a board: the one list that build, Makefile and tests share."""

from __future__ import annotations

import platform

from poet_mcu.board.schema import Board
from poet_mcu.toolchain.tools import host_has_fma

#: All errors. house rules: what hand-written and generated C must pass on every core.
WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wdouble-promotion",
    "-Wfloat-conversion",
    "-Wshadow",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Wcast-qual",
    "-Wcast-align",
    "-Wundef",
    "-Wvla",
    "-Wswitch-enum",
    "-Wwrite-strings",
)
#: -ffp-contract=off: nothing fuses but POET_FMA, so that every target rounds alike.
LANGUAGE = ("-std=c11", "-ffp-contract=off", "-ffreestanding")
#: changes no code: gcc also writes who calls whom, and the stack of each function (``stack.py``)
CALL_GRAPH = "-fcallgraph-info=su"
OPTIMIZE = ("-O2", "-ffunction-sections", "-fdata-sections")


def machine_flags(board: Board) -> list[str]:
    """Flags that choose core, FPU and ABI; they go to the compiler and to the linker."""
    if board.kind == "host":
        return []
    flags = ["-mthumb", f"-mcpu={board.core.cpu}"]
    if board.core.fpu:
        flags.append(f"-mfpu={board.core.fpu}")
    flags.append(f"-mfloat-abi={board.core.float_abi}")
    return flags


def define_flags(board: Board) -> list[str]:
    """The -D flags that our headers and ports expect."""
    fused = int(board.core.fma == "fused")
    flags = [f"-DPOET_FMA_FUSED={fused}", f"-DPOET_CORE_HZ={board.core.clock_hz}u"]
    if board.core.flush_subnormals:
        flags.append("-DPOET_FLUSH_SUBNORMALS=1")
    return flags


def compile_flags(board: Board) -> list[str]:
    """Everything before -I, -D of the caller, -c and -o."""
    host = _host_flags(board) if board.kind == "host" else []
    return [
        *machine_flags(board),
        *host,
        *LANGUAGE,
        *OPTIMIZE,
        *WARNINGS,
        *define_flags(board),
    ]


def link_flags(board: Board) -> list[str]:
    """Flags of the link before the objects; the linker script is the caller's."""
    if board.kind == "host":
        return ["-Wl,--gc-sections"]
    return [*machine_flags(board), "-nostdlib", "-Wl,--gc-sections", "-Wl,--build-id=none"]


def link_libraries(board: Board) -> list[str]:
    """What follows the objects.

    libc: gcc may call memcpy, memmove, memset, memcmp (gcc manual, 2.1 Language Standards
    Supported by GCC); libm: fmaf on a host without the instruction.
    """
    if board.kind == "host":
        return ["-lm"]
    return ["-Wl,--start-group", "-lc", "-lgcc", "-Wl,--end-group"]


def host_twin(board: Board) -> Board:
    """``board`` as a process on this computer: the same plan, the same bits, pages in a file.

    Core and port are the host's; the choice of FMA, flushing, the costs and the card's layout stay.
    """
    if board.kind == "host":
        return board
    core = board.core.model_copy(update={"cpu": "", "fpu": "", "float_abi": ""})
    storage = board.storage.model_copy(update={"driver": "file"})
    return board.model_copy(
        update={
            "kind": "host",
            "core": core,
            "port": "host",
            "port_family": "",
            "storage": storage,
            "emulator": None,
        }
    )


def _host_flags(board: Board) -> list[str]:
    """Fused: the instruction where there is one, else libm's fmaf, which rounds once too.

    32-bit x86 would compute in 80 bits without SSE.
    """
    machine = platform.machine().lower()
    x86 = machine in {"x86_64", "amd64", "i386", "i686"}
    flags = ["-msse2", "-mfpmath=sse"] if machine in {"i386", "i686"} else []
    if board.core.fma == "fused" and x86 and host_has_fma():
        flags.append("-mfma")
    return flags
