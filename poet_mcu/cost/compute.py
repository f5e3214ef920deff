"""One run of a node -> cycles, seconds, joules, by the board's cost table.

    cycles  = calls * cycles_per_call + sum over features f of  count_f * cycles_per_f
    seconds = cycles / clock_hz
    joules  = seconds * active_w

with f in (mac, element, transcendental). The row is that of the operator's family. A fused node
costs the sum of what it does. A part of RAM may have rows of its own; they count where a
placement is known (``placed_s``), not while one is looked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from poet_mcu.board.schema import Board
from poet_mcu.board.tables import CostRow, MemoryPart
from poet_mcu.cost.price import Price
from poet_mcu.errors import InternalError, nearest
from poet_mcu.ops.operator import Cost


def node_cycles(cost: Cost, board: Board, part: MemoryPart | None = None) -> float:
    """Core cycles of one run, with all operands in ``part`` where one is given.

    Raises InternalError when the family has no row.
    """
    row = _row(cost, board, part)
    rest = node_cycles(cost.then, board, part) if cost.then else 0.0
    return rest + (
        row.cycles_per_call * cost.calls
        + row.cycles_per_mac * cost.macs
        + row.cycles_per_element * cost.elements
        + row.cycles_per_transcendental * cost.transcendental
    )


def node_price(cost: Cost, board: Board) -> Price:
    """Seconds and joules of one run, wherever its operands lie."""
    seconds = node_cycles(cost, board) / board.core.clock_hz
    return Price(seconds, seconds * board.power.active_w)


def placed_s(cost: Cost, board: Board, nbytes: Mapping[str, int]) -> float:
    """Seconds of one run whose operands have so many bytes in each part of RAM, by its name.

    Each part's price counts by its share of the bytes; a part without a name here, or without rows
    of its own, has the board's.
    """
    parts = {part.name: part for part in board.ram_parts}
    total = sum(nbytes.values())
    if total == 0 or not any(part.cost for part in parts.values()):
        return node_price(cost, board).seconds
    cycles = sum(n * node_cycles(cost, board, parts.get(name)) for name, n in nbytes.items())
    return cycles / total / board.core.clock_hz


def is_estimated(cost: Cost, board: Board) -> bool:
    """True when a row behind the price was not measured on this board."""
    rest = cost.then is not None and is_estimated(cost.then, board)
    return rest or _row(cost, board).estimated


def is_priced(cost: Cost, board: Board) -> bool:
    """Whether the board has what it takes to price a form of a kernel that need not be used."""
    return bool({cost.family, cost.like} & set(map(str, board.cost)))


def _row(cost: Cost, board: Board, part: MemoryPart | None = None) -> CostRow:
    own = part.cost if part else {}
    table: dict[str, CostRow] = {str(name): row for name, row in {**board.cost, **own}.items()}
    if cost.family in table:
        return table[cost.family]
    if cost.like in table:
        return table[cost.like]
    family = cost.family
    raise InternalError(
        f"board {board.name}: cost.{family}: expected one of {', '.join(table)}, got an "
        f"unknown kernel family{nearest(family, list(table))}; correct the operator's cost()"
    )
