"""Calls of kernels as C: a descriptor, a function and a row of the table for each case.

The rows are ``poet_case`` of firmware/include/poet/case.h; buffers lie side by side in one arena.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from poet_mcu.bench.case import Case
from poet_mcu.codegen.spelling import c_float
from poet_mcu.ir.graph import DType

SMALL = 200_000  # expected instructions up to which a kernel is repeated
ALIGNMENT = 16
GUARD = 256  # bytes behind the last buffer that are compared too


@dataclass(frozen=True)
class Place:
    """Where a case's buffers lie in the arena: byte offsets by argument, and the end of all."""

    at: dict[str, int]
    integers: tuple[int, int]
    octets: tuple[int, int]
    end: int


def place(case: Case) -> Place:
    """All inputs, outputs and the workspace, side by side; integers as (offset, how many)."""
    at, end = {}, 0
    counted = {DType.I32: (0, 0), DType.U8: (0, 0), DType.F32: (0, 0)}
    kinds = [(f"in{i}", kind) for i, kind in enumerate(case.inputs)]
    kinds += [(f"out{i}", kind) for i, kind in enumerate(case.outputs)]
    for name, kind in kinds:
        at[name] = end
        end += -(-kind.nbytes // ALIGNMENT) * ALIGNMENT
        if name.startswith("in"):
            first, count = counted[kind.dtype]
            first = first if count else at[name]
            counted[kind.dtype] = (first, (end - first) // kind.dtype.item_bytes)
    at["ws"] = end
    end += case.workspace_bytes + GUARD
    return Place(at, counted[DType.I32], counted[DType.U8], end)


#: what the trainer would pass
OF_THE_STEP = {"null": "0", "lr": "0.01F", "bias1": "0.1F", "bias2": "0.001F"}


def repeats_of(case: Case) -> int:
    """Enough for exact counts, too few for SysTick's 24 bits to run over, even in soft float."""
    expected = case.work * 12
    return 40 if expected < SMALL else 4 if expected < 10 * SMALL else 1


def calls(cases: Sequence[Case], kind: str) -> list[str]:
    """A descriptor and a function 'KIND_NUMBER' for each case."""
    parts = []
    for i, case in enumerate(cases):
        kernel = case.kernel
        if kernel.descriptor:
            fields = ", ".join(
                f".{name} = {c_float(v) if isinstance(v, float) else v}"
                for name, v in kernel.fields
            )
            parts.append(f"static const {kernel.descriptor} shape_{i} = {{{fields}}};")
        shape = [f"&shape_{i}"] if kernel.descriptor else []
        at = place(case).at
        args = [f"AT({at[a]}u)" if a in at else OF_THE_STEP.get(a, "1") for a in kernel.args]
        parts.append(f"void {kind}_{i}(void);")
        parts.append(f"void {kind}_{i}(void) {{ {kernel.function}({', '.join(shape + args)}); }}")
    return parts


def rows(cases: Sequence[Case], plain: Sequence[Case] = (), *, once: bool = False) -> list[str]:
    """An initializer of poet_case a case; those in ``plain`` name the plain kernel too."""
    found = []
    for i, case in enumerate(cases):
        where = place(case)
        twin = f"plain_{plain.index(case)}" if case in plain else "0"
        # The name's own numbers: a row more elsewhere changes no count that depends on data.
        seed = f"{zlib.crc32(case.name.encode())}u"
        repeats = 1 if once else repeats_of(case)
        numbers = (repeats, where.end, *where.integers, *where.octets, case.below, seed)
        odd = int(case.odd)
        words = ", ".join(map(str, (*numbers, odd)))
        found.append(f'{{"{case.name}", fast_{i}, {twin}, {words}, {c_float(case.low)}}},')
    return found


def arena_bytes(cases: Sequence[Case]) -> int:
    """What the largest case needs."""
    return max(place(case).end for case in cases)


#: what the calls find their buffers by
ARENA = """extern uint8_t arena[];
#define AT(offset) ((void *)&arena[offset])"""
