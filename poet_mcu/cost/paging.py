"""One transfer of n bytes to or from the card -> seconds, joules.

    moved   = n rounded up to whole blocks and to the device's granule; 0 stays 0
    seconds = latency_s + moved / throughput_bytes_per_s
    joules  = seconds * (active_w + sd_read_w or sd_write_w)

Where the board file has a table of transfers (``storage.read_times``, ``write_times``), seconds are
its medians, linear between two sizes; behind the largest the throughput goes on. A plan's joules
and seconds are of medians. Under a deadline its seconds are those of the 99th percentile, where
the table has it: each transfer then counts as a slow one, which is more than a step of many
transfers takes 99 times in 100.

The CPU's share is counted because it polls the bus all along (storage.overlap = false). With DMA
the CPU's energy belongs to what it computes meanwhile, and the card's share alone is left.
The form is that of POET (arXiv 2207.07697); it charges bytes, here whole 512-byte blocks are.
"""

from __future__ import annotations

import numpy as np

from poet_mcu.board.schema import Board
from poet_mcu.board.tables import TransferTimes
from poet_mcu.cost.price import Price
from poet_mcu.errors import InternalError
from poet_mcu.units import round_up


def moved_bytes(nbytes: int, board: Board) -> int:
    """Bytes that cross the bus for a transfer of ``nbytes``."""
    if nbytes < 0:
        raise InternalError(f"transfer: expected a size of at least 0 bytes, got {nbytes}")
    whole = round_up(nbytes, board.storage.block_bytes)
    return round_up(whole, board.storage.transfer_granule_bytes)


def page_in_price(nbytes: int, board: Board) -> Price:
    """Seconds and joules of reading ``nbytes`` in one transfer."""
    seconds = _read_s(nbytes, board, slow=False)
    return Price(seconds, seconds * (_cpu_w(board) + board.power.sd_read_w))


def page_out_price(nbytes: int, board: Board) -> Price:
    """Seconds and joules of writing ``nbytes`` in one transfer."""
    seconds = _write_s(nbytes, board, slow=False)
    return Price(seconds, seconds * (_cpu_w(board) + board.power.sd_write_w))


def slow_page_in_s(nbytes: int, board: Board) -> float:
    """Seconds within which 99 of 100 such reads are done, where the board file knows them."""
    return _read_s(nbytes, board, slow=True)


def slow_page_out_s(nbytes: int, board: Board) -> float:
    """Seconds within which 99 of 100 such writes are done, where the board file knows them."""
    return _write_s(nbytes, board, slow=True)


def knows_slow_transfers(board: Board) -> bool:
    """Whether a deadline is held against other seconds than the median's."""
    tables = (board.storage.read_times, board.storage.write_times)
    return any(times is not None and times.p99_s for times in tables)


def _read_s(nbytes: int, board: Board, *, slow: bool) -> float:
    store = board.storage
    line = (store.read_latency_s, store.read_throughput_bytes_per_s)
    return _seconds(moved_bytes(nbytes, board), store.read_times, line, slow=slow)


def _write_s(nbytes: int, board: Board, *, slow: bool) -> float:
    store = board.storage
    line = (store.write_latency_s, store.write_throughput_bytes_per_s)
    return _seconds(moved_bytes(nbytes, board), store.write_times, line, slow=slow)


def _cpu_w(board: Board) -> float:
    return 0.0 if board.storage.overlap else board.power.active_w


def _seconds(
    moved: int, times: TransferTimes | None, line: tuple[float, float], *, slow: bool
) -> float:
    """``line`` is latency (s) and throughput (bytes/s)."""
    latency_s, throughput_bytes_per_s = line
    if moved == 0:
        return 0.0
    if times is None:
        return latency_s + moved / throughput_bytes_per_s
    column = times.p99_s if slow and times.p99_s else times.median_s
    beyond = max(0, moved - times.transfer_bytes[-1])
    known_s = float(np.interp(moved, times.transfer_bytes, column))
    return known_s + beyond / throughput_bytes_per_s
