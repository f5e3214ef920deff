"""A whole board as frozen data, and what its tables may not say together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from poet_mcu.board.tables import (
    KERNEL_FAMILIES,
    MVE_CORES,
    Arena,
    Core,
    CostRow,
    Emulator,
    Family,
    Flashing,
    Memory,
    MemoryPart,
    Power,
    Runtime,
    Storage,
    Strings,
    Table,
    TransferTimes,
)
from poet_mcu.ir.placement import ArenaPart
from poet_mcu.units import round_down

#: of every Cortex-M with a data cache (M7: PM0253 4.8; M55: its manual, L1 data cache)
CACHE_LINE_BYTES = 32
_ALL_ADDRESSES = 2**32


class Board(Table):
    """Everything poet-mcu knows about one board.

    ``run_on`` is what its firmware was really run on, by whoever wrote the board file: trust in
    the board rests on that. Kind 'planning': its numbers are there to plan with, no firmware is
    made for it (``port`` is '' then and only then). ``port_family``: a folder of firmware/port that
    boards of one chip family share, '' for none.
    """

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=60)]
    title: Annotated[str, Field(min_length=4, max_length=200)]
    kind: Literal["emulated", "host", "hardware", "planning"]
    run_on: Literal["this computer", "emulated core", "emulated registers", "hardware", "nothing"]
    aliases: Strings = ()
    port: Annotated[str, Field(pattern=r"^[a-z0-9_]*$")]
    port_family: Annotated[str, Field(pattern=r"^[a-z0-9_]*$")] = ""
    core: Core
    memory: dict[Literal["flash", "sram", "vectors"], Memory]
    runtime: Runtime
    arena: Arena
    storage: Storage
    power: Power
    cost: dict[Family, CostRow]
    emulator: Emulator | None = None
    flash_with: Flashing | None = None

    @property
    def flash(self) -> Memory:
        """Where code, tables and frozen values live."""
        return self.memory["flash"]

    @property
    def has_firmware(self) -> bool:
        """Whether anything can be built for it."""
        return self.kind != "planning"

    @property
    def vectors(self) -> Memory:
        """Where the core looks for its vector table after a reset: the start of flash, mostly."""
        return self.memory.get("vectors", self.flash)

    @property
    def vectors_origin(self) -> int:
        """The address of the vector table."""
        return self.vectors.origin + self.vectors.boot_bytes

    @property
    def sram(self) -> Memory:
        """Where arena, stack, .data and .bss live."""
        return self.memory["sram"]

    @property
    def ram_parts(self) -> tuple[MemoryPart, ...]:
        """All pieces of RAM that differ: those of ``memory.sram``, then those beside it."""
        return (*self.sram.parts, *self.arena.parts)

    @property
    def ram_bytes(self) -> int:
        """All RAM there is: the largest budget."""
        return self.sram.size_bytes + sum(part.size_bytes for part in self.arena.parts)

    def sram_within(self, ram_bytes: int) -> int:
        """Bytes of ``memory.sram`` in a budget: all of it before any of ``arena.parts``."""
        return min(ram_bytes, self.sram.size_bytes)

    def parts_within(self, ram_bytes: int) -> tuple[ArenaPart, ...]:
        """What a budget leaves for ``arena.parts``, in their order and in whole slots."""
        left, offset = ram_bytes - self.sram_within(ram_bytes), 0
        found: list[ArenaPart] = []
        for part in self.arena.parts:
            nbytes = round_down(min(left, part.size_bytes), self.arena.alignment_bytes)
            if nbytes > 0:
                found.append(ArenaPart(part.name, offset, nbytes, self.is_reached(part)))
            left -= nbytes
            offset += nbytes
        return tuple(found)

    @property
    def most_paged_bytes(self) -> int:
        """No value above this can be paged: one piece of RAM that the DMA reaches must hold it."""
        if not self.arena.parts:
            return _ALL_ADDRESSES
        reached = [part.size_bytes for part in self.arena.parts if self.is_reached(part)]
        return max([self.sram.size_bytes - self.runtime.reserved_bytes, *reached])

    def is_reached(self, part: MemoryPart) -> bool:
        """Whether values in ``part`` may be paged: by its DMA, or by a CPU that moves bytes."""
        return part.dma or not self.storage.overlap

    @property
    def port_folders(self) -> tuple[str, ...]:
        """Folders of firmware/port: the board's, its family's, and what every Cortex-M shares."""
        named = tuple(name for name in (self.port, self.port_family) if name)
        return (*named, *(() if self.kind in ("host", "planning") else ("common",)))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = list(_contradictions(self))
        if problems:
            raise ValueError("\n".join(problems))
        return self


def _contradictions(board: Board) -> list[str]:
    """'key: expected ..., got ...' for what single keys cannot show."""
    found = [
        f"memory.{name}: expected this table, got none"
        for name in ("flash", "sram")
        if name not in board.memory
    ]
    found += [
        f"cost.{name}: expected this table, got none"
        for name in KERNEL_FAMILIES
        if name not in board.cost
    ]
    for (a, first), (b, second) in itertools.combinations(board.memory.items(), 2):
        if board.kind != "host" and first.origin < second.end and second.origin < first.end:
            found.append(f"memory.{b}.origin: expected a range apart from memory.{a}, got overlap")
    alignment = board.arena.alignment_bytes
    if alignment & (alignment - 1):
        found.append(f"arena.alignment_bytes: expected a power of two, got {alignment}")
    if "sram" in board.memory:
        reserved = board.runtime.reserved_bytes
        if reserved >= board.sram.size_bytes:
            found.append(
                "runtime: expected stack_bytes + static_bytes below memory.sram.size_bytes "
                f"{board.sram.size_bytes}, got {reserved}"
            )
    for name, memory in board.memory.items():
        found += _part_contradictions(f"memory.{name}.parts", memory)
    if (
        "sram" in board.memory
        and board.storage.overlap
        and not all(part.dma for part in board.sram.parts)
    ):
        found.append(
            "memory.sram.parts: expected DMA reach (dma = true) in all of them with "
            "storage.overlap, as the driver's own buffer lies there, got a part without; give that "
            "part as one of arena.parts"
        )
    found += _transfer_contradictions(board.storage)
    return found + _arena_contradictions(board) + _kind_contradictions(board)


def _transfer_contradictions(storage: Storage) -> list[str]:
    """Tables of transfers begin at the smallest one, rise in size, and are nowhere lopsided."""
    least = max(storage.block_bytes, storage.transfer_granule_bytes)
    found = []
    for name, times in (("read", storage.read_times), ("write", storage.write_times)):
        if times is not None:
            key = f"storage.{name}_times"
            found += [f"{key}.{text}" for text in _lopsided(times, least)]
    return found


def _lopsided(times: TransferTimes, least_bytes: int) -> Iterator[str]:
    sizes = times.transfer_bytes
    if not sizes or sizes[0] > least_bytes:
        got = sizes[0] if sizes else "none"
        yield f"transfer_bytes: expected a first size of at most {least_bytes}, got {got}"
    for before, after in itertools.pairwise(sizes):
        if after <= before:
            yield f"transfer_bytes: expected rising sizes, got {after} behind {before}"
    columns = {"median_s": times.median_s, "p99_s": times.p99_s, "worst_s": times.worst_s}
    known = {name: column for name, column in columns.items() if column or name == "median_s"}
    for name, column in known.items():
        if len(column) != len(sizes):
            yield f"{name}: expected {len(sizes)} numbers as transfer_bytes has, got {len(column)}"
    for (low, below), (high, above) in itertools.pairwise(known.items()):
        for size, least_s, most_s in zip(sizes, below, above, strict=False):
            if most_s < least_s:
                yield f"{high}: expected at least {low} {least_s} at {size} bytes, got {most_s}"


def _arena_contradictions(board: Board) -> list[str]:
    """Parts of the arena are whole slots, not at address 0, apart from all else and unlike named.

    Where cached memory meets DMA, no line of the cache may hold bytes of two values.
    """
    alignment, found = board.arena.alignment_bytes, []
    spans = [(f"memory.{name}", m.origin, m.end) for name, m in board.memory.items()]
    for i, part in enumerate(board.arena.parts):
        key = f"arena.parts.{i}"
        if part.origin == 0:
            found.append(f"{key}.origin: expected above 0, the address of absent operands, got 0")
        for name, number in (("origin", part.origin), ("size_bytes", part.size_bytes)):
            if number % alignment:
                found.append(
                    f"{key}.{name}: expected a multiple of arena.alignment_bytes {alignment}, got "
                    f"{number}"
                )
        found += [
            f"{key}.origin: expected a range apart from {other}, got overlap"
            for other, first, end in spans
            if part.origin < end and first < part.end
        ]
        spans.append((key, part.origin, part.end))
    every = board.ram_parts if "sram" in board.memory else board.arena.parts
    names = [part.name for part in every]
    found += [
        f"arena.parts: expected every part's name once, got '{name}' twice"
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    if board.storage.overlap and any(p.cached for p in every) and alignment % CACHE_LINE_BYTES:
        found.append(
            f"arena.alignment_bytes: expected a multiple of {CACHE_LINE_BYTES}, the cache line of "
            f"a cached part that the DMA works in, got {alignment}"
        )
    return found


def _part_contradictions(key: str, memory: Memory) -> list[str]:
    """Parts tile the memory: no gap, no overlap, in order."""
    at = memory.origin
    for part in memory.parts:
        if part.origin != at:
            return [f"{key}: expected '{part.name}' at {at:#010x}, got {part.origin:#010x}"]
        at += part.size_bytes
    if memory.parts and at != memory.end:
        return [f"{key}: expected the last to end at {memory.end:#010x}, got {at:#010x}"]
    return []


def _kind_contradictions(board: Board) -> list[str]:
    found = []
    emulator = board.emulator.kind if board.emulator else "none"
    allowed = {"emulated": ("qemu",), "hardware": ("none", "registers")}
    expected = allowed.get(board.kind, ("none",))
    if emulator not in expected:
        found.append(
            f"emulator.kind: expected {' or '.join(expected)} with kind "
            f"'{board.kind}', got {emulator}"
        )
    if (board.kind == "host") != (board.core.cpu == ""):
        found.append(
            f"core.cpu: expected '' exactly when kind is 'host', got '{board.core.cpu}' with kind "
            f"'{board.kind}'"
        )
    if (board.kind == "planning") != (board.port == ""):
        found.append(
            f"port: expected '' exactly when kind is 'planning', got '{board.port}' with kind "
            f"'{board.kind}'"
        )
    if board.core.fma == "fused" and board.core.float_abi == "soft":
        found.append("core.fma: expected 'separate' without an FPU, got 'fused'")
    return found + _flushing_contradictions(board.core)


def _flushing_contradictions(core: Core) -> list[str]:
    """MVE flushes always; a core without it is not made to."""
    name, *without = core.cpu.split("+")
    vectors = name in MVE_CORES and not {"nomve", "nomve.fp", "nofp"} & set(without)
    key = "core.flush_subnormals"
    if vectors and not core.flush_subnormals:
        return [f"{key}: expected true with '{core.cpu}', whose vectors flush, got false"]
    if core.flush_subnormals and core.cpu and not vectors:
        return [f"{key}: expected false with '{core.cpu}', which has no vectors, got true"]
    return []
