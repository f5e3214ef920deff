"""Features and bytes -> seconds and joules, by the tables of the board."""

from poet_mcu.cost.compute import is_estimated, is_priced, node_cycles, node_price, placed_s
from poet_mcu.cost.paging import (
    knows_slow_transfers,
    moved_bytes,
    page_in_price,
    page_out_price,
    slow_page_in_s,
    slow_page_out_s,
)
from poet_mcu.cost.price import Price

__all__ = [
    "Price",
    "is_estimated",
    "is_priced",
    "knows_slow_transfers",
    "moved_bytes",
    "node_cycles",
    "node_price",
    "page_in_price",
    "page_out_price",
    "placed_s",
    "slow_page_in_s",
    "slow_page_out_s",
]
