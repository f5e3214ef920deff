"""One transfer of n bytes to or from the card -> seconds, joules.

    moved   = n rounded up to whole blocks and to the device's granule; 0 stays 0
    seconds = latency_s + moved / throughput_bytes_per_s
    joules  = seconds * (active_w + sd_read_w or sd_write_w)

The CPU's share is counted because it polls the bus all along (storage.overlap = false). With DMA
the CPU's energy belongs to what it computes meanwhile, and the card's share alone is left.
The form is that of POET (arXiv 2207.07697); it charges bytes, here whole 512-byte blocks are.
"""

from __future__ import annotations

from poet_mcu.board.schema import Board
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
    store = board.storage
    return _price(
        moved_bytes(nbytes, board),
        store.read_latency_s,
        store.read_throughput_bytes_per_s,
        _cpu_w(board) + board.power.sd_read_w,
    )


def page_out_price(nbytes: int, board: Board) -> Price:
    """Seconds and joules of writing ``nbytes`` in one transfer."""
    store = board.storage
    return _price(
        moved_bytes(nbytes, board),
        store.write_latency_s,
        store.write_throughput_bytes_per_s,
        _cpu_w(board) + board.power.sd_write_w,
    )


def _cpu_w(board: Board) -> float:
    return 0.0 if board.storage.overlap else board.power.active_w


def _price(moved: int, latency_s: float, throughput_bytes_per_s: float, power_w: float) -> Price:
    if moved == 0:
        return Price(0.0, 0.0)
    seconds = latency_s + moved / throughput_bytes_per_s
    return Price(seconds, seconds * power_w)
