"""The self-test firmware on the other end of a serial line (SPEC.md, section 4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from poet_mcu.errors import DeviceError
from poet_mcu.link.client import Board
from poet_mcu.link.protocol import Message, pack_u32, unpack_u32

CARD_WRITE, CARD_READ, CARD_KEEP, CARD_CHECKSUM = 1, 2, 4, 8
#: bytes beside a buffer that the board watches
GUARD_BYTES = 32
MODEL = "self-test"


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """``first_bad``, ``expected`` and ``got`` describe the first of the bad words."""

    nbytes: int
    bad_words: int
    first_bad: int
    expected: int
    got: int


@dataclass(frozen=True, slots=True)
class CaseResult:
    """``cycles`` of all repeats; ``crc`` of the arena after the first call."""

    cycles: int
    crc: int


@dataclass(frozen=True, slots=True)
class CardResult:
    """Cycles of all transfers and of the longest; ``bad_bytes`` read back, ``first_bad`` of them.

    ``guard_bytes``: bytes beside the buffer that a transfer changed.
    """

    write_cycles: int
    write_worst: int
    read_cycles: int
    read_worst: int
    bad_bytes: int
    first_bad: int
    guard_bytes: int


class SelfTest:
    """Requests to the self-test firmware behind ``board``."""

    def __init__(self, board: Board) -> None:
        self.board = board
        if board.identity.model != MODEL:
            raise DeviceError(
                f"{board.url}: firmware: expected '{MODEL}', got '{board.identity.model}'; "
                "flash the self-test firmware"
            )

    @property
    def cycle_hz(self) -> int:
        """Cycles per second of every count."""
        return self.board.identity.cycle_hz

    @property
    def arena_bytes(self) -> int:
        """What the tests work in."""
        return self.board.identity.arena_bytes

    def memory(self) -> MemoryResult:
        """Test the whole arena, and the RAM beside it."""
        answer = self._ask(Message.TEST_MEMORY, b"", "<5I")
        return MemoryResult(*answer)

    def case(self, number: int, repeats: int = 0, part: int = 0) -> CaseResult:
        """Run one case: once for its results, then ``repeats`` times for its time.

        ``part``: of the board's RAM, from 1 on, that its operands lie in; 0: the arena's start.
        """
        answer = self._ask(Message.TEST_CASE, pack_u32(number, repeats, part), "<QI")
        return CaseResult(*answer)

    def open_card(self) -> int:
        """Blocks of the card, which is opened again."""
        return unpack_u32(self.board.ask(Message.TEST_CARD_OPEN, slow=True), "opened card")

    def card(
        self,
        block: int,
        nbytes: int,
        *,
        seed: int,
        transfers: int = 1,
        offset: int = GUARD_BYTES,
        flags: int = CARD_WRITE | CARD_READ,
    ) -> CardResult:
        """Transfer made-up bytes to and from the card: see firmware/selftest/selftest.h."""
        payload = pack_u32(block, nbytes, offset, seed, flags, transfers)
        return CardResult(*self._ask(Message.TEST_CARD, payload, "<4Q3I"))

    def _ask(self, message: Message, payload: bytes, layout: str) -> tuple[int, ...]:
        answer = self.board.ask(message, payload, slow=True)
        if len(answer) != struct.calcsize(layout):
            raise DeviceError(
                f"{self.board.url}: {message.name}: expected {struct.calcsize(layout)} bytes, got "
                f"{len(answer)}; build and flash again with this poet-mcu"
            )
        return struct.unpack(layout, answer)
