"""``calibrate``: what the kernels and the card of a board take, as a board file.

The self-test firmware runs every kernel family over a design of shapes and the card over transfer
sizes. Prices are fitted to the cycles (bench/fit.py), a line to the medians of the transfers, whose
median, 99th percentile and worst by size are a table beside it; the
log of every measurement is kept beside the file and named in it as the source.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from poet_mcu.bench.case import Case
from poet_mcu.bench.fit import FEATURES, Fitted, family_table
from poet_mcu.bench.select import common_names
from poet_mcu.bench.table import place, repeats_of
from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.board.tables import CostRow, MemoryPart, TransferTimes
from poet_mcu.board.write import board_toml
from poet_mcu.errors import CheckFailed, InputError
from poet_mcu.link.selftest import CARD_CHECKSUM, CARD_READ, CARD_WRITE, GUARD_BYTES, SelfTest
from poet_mcu.pipeline.build import TOOL
from poet_mcu.pipeline.flash import flash
from poet_mcu.pipeline.plan import Progress
from poet_mcu.pipeline.selftest import SelfTestBuild, build_selftest
from poet_mcu.pipeline.target import connect

SIZES = (512, 1024, 2048, 4096, 8192, 16384, 32768)
#: calls that are timed together at most: enough for a clock that ticks every 20 instructions
MOST_REPEATS = 10
_INSTRUCTIONS_PER_S = 1_000_000_000  # icount shift 0


@dataclass(frozen=True, slots=True)
class CalibrateOptions:
    """``samples`` transfers of each size and direction; ``flash`` programs the board first.

    ``erase_card`` is the consent of who owns the card: its region is overwritten.
    """

    board: str
    port: str | None
    samples: int = 100
    flash: bool = True
    probe: str | None = None
    erase_card: bool = False


def _quiet(_: str) -> None:
    """No progress."""


def calibrate(options: CalibrateOptions, out: Path, progress: Progress = _quiet) -> dict[str, Any]:
    """Measure, fit, write the board file ``out`` and its log; the facts.

    Raises InputError without consent to overwrite a real card, and what building, flashing and the
    board raise.
    """
    board = load_board(options.board)
    _check(options, board, out)
    with tempfile.TemporaryDirectory(prefix="poet-mcu-calibrate-") as scratch:
        built = build_selftest(board, Path(scratch) / "selftest", progress)
        if options.port is not None and options.flash:
            progress("flashing")
            flash(built.folder.path, port=options.port, probe=options.probe)
        measured = _measure(built, options, progress)
    log = out.with_suffix(".log.json")
    text = json.dumps(measured, indent=1, sort_keys=True) + "\n"
    log.write_text(text, encoding="utf-8", newline="\n")
    source = _source(measured, log, text)
    fitted = family_table(measured["kernels"], built.cases, common_names())
    # What an emulator says of a real board is an estimate; of an emulated one it is the truth.
    estimated = measured["emulated"] and board.kind == "hardware"
    made = _calibrated(board, out, fitted, measured["card"], source, estimated=estimated)
    made = with_part_rows(made, measured["parts"], built.cases, source)
    comment = f"Written by {TOOL} calibrate from {log.name}: calibrate again instead of editing."
    out.write_text(board_toml(made, comment), encoding="utf-8", newline="\n")
    load_board(out)
    return _facts(made, out, log, fitted, measured)


def _check(options: CalibrateOptions, board: Board, out: Path) -> None:
    if out.suffix != ".toml":
        raise InputError(f"{out}: expected a file that ends in .toml for -o, got another")
    if options.port is not None and board.kind == "hardware" and not options.erase_card:
        raise InputError(
            f"{board.name}: --erase-card: expected your consent, got none; calibration overwrites "
            f"the card from block {board.storage.region_first_block} on"
        )


def _measure(built: SelfTestBuild, options: CalibrateOptions, progress: Progress) -> dict[str, Any]:
    board = built.folder.board
    counted = options.port is None and board.kind == "emulated"
    with connect(built.folder, options.port, icount=counted) as link:
        test = SelfTest(link)
        # In QEMU an instruction stands for a cycle; its clock ticks in nanoseconds.
        cycles = _INSTRUCTIONS_PER_S / test.cycle_hz if counted else 1.0
        hertz = float(board.core.clock_hz) if counted else float(test.cycle_hz)
        progress(f"timing {len(built.cases)} calls of kernels")
        kernels = {
            case.name: _time(test, number, case) * cycles for number, case in enumerate(built.cases)
        }
        parts = {} if options.port is None else time_parts(test, built, cycles, progress)
        progress("timing the card")
        card = _time_card(test, board, options.samples, cycles / hertz)
    return {
        "tool": TOOL, "board": board.name, "build_id": built.folder.build_id.hex(),
        "emulated": options.port is None, "clock_hz": hertz, "samples": options.samples,
        "kernels": kernels, "parts": parts, "card": card,
    }  # fmt: skip


def _time(test: SelfTest, number: int, case: Case, part: int = 0) -> float:
    repeats = min(MOST_REPEATS, repeats_of(case))
    # What a coarse clock did not see took less than its tick; no price follows from nothing.
    return max(1, test.case(number, repeats, part).cycles) / repeats


def time_parts(
    test: SelfTest, built: SelfTestBuild, cycles: float, progress: Progress
) -> dict[str, dict[str, float]]:
    """Name of each part of RAM -> case -> cycles with its operands there; none of a single part.

    Not asked of an emulator, whose memories are all as fast as its core.
    """
    board = built.folder.board
    found: dict[str, dict[str, float]] = {}
    begin = board.sram.origin + board.runtime.reserved_bytes
    parts = board.ram_parts if len(board.ram_parts) > 1 else ()
    for part_number, part in enumerate(parts, 1):
        progress(f"timing kernels in {part.name}")
        first = max(part.origin, begin) if part in board.sram.parts else part.origin
        found[part.name] = {
            case.name: _time(test, number, case, part_number) * cycles
            for number, case in enumerate(built.cases)
            if place(case).end <= part.end - first
        }
    return found


def _time_card(
    test: SelfTest, board: Board, samples: int, seconds_per_cycle: float
) -> dict[str, dict[str, list[float]]]:
    """Direction -> size in bytes -> seconds of each transfer, at moving places of the region.

    Each with the checksum that every page has.
    """
    blocks = test.open_card()
    first = board.storage.region_first_block
    found: dict[str, dict[str, list[float]]] = {"read": {}, "write": {}}
    for size in SIZES:
        if size + 2 * GUARD_BYTES > test.arena_bytes:
            break
        for i in range(samples):
            at = first + (i * 64 + i * (size // 512)) % max(1, min(8192, blocks - first - 64))
            flags = CARD_WRITE | CARD_READ | CARD_CHECKSUM
            result = test.card(at, size, seed=i, flags=flags)
            if result.bad_bytes or result.guard_bytes:
                raise CheckFailed(
                    f"{board.name}: card: expected the bytes that were written, got "
                    f"{result.bad_bytes} others at block {at}; run poet-mcu hil"
                )
            for name, cycles in (("write", result.write_cycles), ("read", result.read_cycles)):
                found[name].setdefault(str(size), []).append(max(1, cycles) * seconds_per_cycle)
    return found


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """``median``, ``p99`` and ``worst``."""
    ordered = sorted(seconds)
    return {
        "median": median(ordered),
        "p99": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
        "worst": ordered[-1],
    }


def line(times: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """Latency (s) and throughput (bytes/s) nearest to the medians, as a factor; neither negative.

    ``times``: size in bytes -> seconds.
    """
    sizes = np.array([float(size) for size in times])
    wanted = np.array([median(seconds) for seconds in times.values()])
    rows = np.stack([np.ones_like(sizes), sizes], axis=1) / wanted[:, None]
    ones = np.ones_like(wanted)
    latency, per_byte = (float(x) for x in np.linalg.lstsq(rows, ones, rcond=None)[0])
    if latency < 0:
        latency = 0.0
        per_byte = float(rows[:, 1] @ ones / (rows[:, 1] @ rows[:, 1]))
    return latency, 1.0 / max(per_byte, 1e-11)


def _source(measured: dict[str, Any], log: Path, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    what = "instructions in an emulator, each taken as a cycle"
    what = what if measured["emulated"] else "cycles of the board"
    return (
        f"Measured by {TOOL} calibrate, build {measured['build_id']}: {what}; log {log.name}, "
        f"SHA-256 {digest}..."
    )


def _calibrated(
    board: Board,
    out: Path,
    fitted: Mapping[str, Fitted],
    card: Mapping[str, Mapping[str, Sequence[float]]],
    source: str,
    *,
    estimated: bool,
) -> Board:
    """The board with measured tables, called as the file is."""
    cost = {family: _row(row, source, estimated=estimated) for family, row in fitted.items()}
    (read_s, read_rate), (write_s, write_rate) = line(card["read"]), line(card["write"])
    tails = "; ".join(f"{way} {_tail(card[way])}" for way in card)
    storage = board.storage.model_copy(
        update={
            "read_latency_s": _rounded(read_s), "read_throughput_bytes_per_s": _rounded(read_rate),
            "write_latency_s": _rounded(write_s),
            "write_throughput_bytes_per_s": _rounded(write_rate),
            "estimated": estimated, "source": f"{source} Lines through the medians; {tails}.",
            "read_times": _times(card["read"], source, estimated=estimated),
            "write_times": _times(card["write"], source, estimated=estimated),
        }
    )  # fmt: skip
    name = re.sub(r"[^a-z0-9-]+", "-", out.stem.lower()).strip("-") or "calibrated"
    changed = {"name": name, "aliases": (), "cost": cost, "storage": storage}
    return board.model_copy(update=changed)


def with_part_rows(
    board: Board, parts: Mapping[str, Mapping[str, float]], cases: Sequence[Case], source: str
) -> Board:
    """The board with the prices of each part's own cycles."""

    def timed(part: MemoryPart) -> MemoryPart:
        fitted = family_table(parts.get(part.name, {}), cases, common_names())
        own = f"{source} Operands in {part.name}."
        rows = {family: _row(row, own, estimated=False) for family, row in fitted.items()}
        return part.model_copy(update={"cost": rows or part.cost})

    sram = board.sram.model_copy(update={"parts": tuple(map(timed, board.sram.parts))})
    arena = board.arena.model_copy(update={"parts": tuple(map(timed, board.arena.parts))})
    return board.model_copy(update={"memory": {**board.memory, "sram": sram}, "arena": arena})


def _times(times: Mapping[str, Sequence[float]], source: str, *, estimated: bool) -> TransferTimes:
    """The table of one direction; ``times``: size in bytes -> seconds."""
    sizes = sorted(times, key=int)
    found = [percentiles(times[size]) for size in sizes]
    return TransferTimes(
        transfer_bytes=tuple(int(size) for size in sizes),
        median_s=tuple(_rounded(row["median"]) for row in found),
        p99_s=tuple(_rounded(row["p99"]) for row in found),
        worst_s=tuple(_rounded(row["worst"]) for row in found),
        estimated=estimated,
        source=f"{source} {len(times[sizes[0]])} transfers of each size.",
    )


def _row(row: Fitted, source: str, *, estimated: bool) -> CostRow:
    prices: dict[str, Any] = _prices(row)
    return CostRow(
        **prices,
        estimated=estimated,
        source=f"{source} Off by a factor of {median(row.every):.2f} in the median and "
        f"{max(row.every):.2f} at most over {len(row.every)} calls.",
    )


def _prices(row: Fitted) -> dict[str, float]:
    return {f"cycles_per_{n}": p for n, p in zip(FEATURES, row.prices, strict=True)}


def _tail(times: Mapping[str, Sequence[float]]) -> str:
    size = max(times, key=int)
    found = percentiles(times[size])
    return (
        f"of {size} bytes: median {1e3 * found['median']:.3g} ms, p99 {1e3 * found['p99']:.3g} ms, "
        f"worst {1e3 * found['worst']:.3g} ms"
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _facts(
    made: Board, out: Path, log: Path, fitted: Mapping[str, Fitted], measured: dict[str, Any]
) -> dict[str, Any]:
    return {
        "board": made.name,
        "file": str(out),
        "log": str(log),
        "calls": len(measured["kernels"]),
        "families": {
            family: {
                **_prices(row),
                "off_median": median(row.every), "off_most": max(row.every),
            }
            for family, row in fitted.items()
        },
        "card": {
            way: {size: percentiles(seconds) for size, seconds in measured["card"][way].items()}
            for way in measured["card"]
        },
        "storage": {
            key: getattr(made.storage, key)
            for key in (
                "read_latency_s", "read_throughput_bytes_per_s", "write_latency_s",
                "write_throughput_bytes_per_s",
            )
        },
    }  # fmt: skip
