"""One run of a node -> cycles, seconds, joules, by the board's cost table.

    cycles  = cycles_per_call + sum over features f of  count_f * cycles_per_f
    seconds = cycles / clock_hz
    joules  = seconds * active_w

with f in (mac, element, transcendental). The row is that of the operator's family. A fused node
costs the sum of what it does.
"""

from __future__ import annotations

from poet_mcu.board.schema import Board, CostRow
from poet_mcu.cost.price import Price
from poet_mcu.errors import InternalError, nearest
from poet_mcu.ops.operator import Cost


def node_cycles(cost: Cost, board: Board) -> float:
    """Core cycles of one run. Raises InternalError when the family has no row."""
    row = _row(cost.family, board)
    rest = node_cycles(cost.then, board) if cost.then else 0.0
    return rest + (
        row.cycles_per_call
        + row.cycles_per_mac * cost.macs
        + row.cycles_per_element * cost.elements
        + row.cycles_per_transcendental * cost.transcendental
    )


def node_price(cost: Cost, board: Board) -> Price:
    """Seconds and joules of one run."""
    seconds = node_cycles(cost, board) / board.core.clock_hz
    return Price(seconds, seconds * board.power.active_w)


def is_estimated(cost: Cost, board: Board) -> bool:
    """True when a row behind the price was not measured on this board."""
    rest = cost.then is not None and is_estimated(cost.then, board)
    return rest or _row(cost.family, board).estimated


def _row(family: str, board: Board) -> CostRow:
    table: dict[str, CostRow] = {str(name): row for name, row in board.cost.items()}
    if family not in table:
        raise InternalError(
            f"board {board.name}: cost.{family}: expected one of {', '.join(table)}, got an "
            f"unknown kernel family{nearest(family, list(table))}; correct the operator's cost()"
        )
    return table[family]
