"""Board files: what poet-mcu knows about the hardware, as frozen, checked data."""

from poet_mcu.board.load import list_boards, load_board
from poet_mcu.board.schema import Board

__all__ = ["Board", "list_boards", "load_board"]
