"""Faults that are injected into the card: ``kind``, ``kind:N``, ``kind:N:value``, ``kind:N+``.

N counts from 0: commands for the command kinds, blocks of 512 bytes read or written for the others.
With ``+`` every one from N on is concerned, else just that one. What counts nothing always holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from poet_mcu.errors import InputError, nearest

#: kind -> (what N counts, what happens)
KINDS = {
    "absent": ("nothing", "no card in the slot"),
    "removed": ("blocks", "the card is taken out before block N, read or written"),
    "pulled": ("blocks", "the card is taken out in the middle of block N, read or written"),
    "fake": ("nothing", "the card has memory for N blocks only, and stores others over them"),
    "never-ready": ("nothing", "the card's initialisation does not end"),
    "awake-reading": ("nothing", "the card has kept its power and is in the middle of a read"),
    "awake-writing": ("nothing", "the card has kept its power and is in the middle of a write"),
    "awake-programming": ("nothing", "the card has kept its power and is busy programming"),
    "reset": ("commands", "the card loses its power for a moment before command N"),
    "command-lost": ("commands", "command N reaches the card damaged"),
    "no-response": ("commands", "the answer to command N is lost"),
    "command-crc": ("commands", "the answer to command N has a wrong CRC"),
    "command-index": ("commands", "the answer to command N names another command"),
    "read-crc": ("reads", "block N is sent with a wrong CRC"),
    "read-timeout": ("reads", "block N is not sent"),
    "read-error": ("reads", "block N is not sent, and the card's status says it cannot be read"),
    "write-crc": ("writes", "the card answers that block N came with a wrong CRC"),
    "write-error": ("writes", "block N is not written, and the card's status says so"),
    "rot": ("writes", "block N is stored with one bit turned, and nothing says so"),
    "busy": ("writes", "behind block N the card is busy for `value` seconds"),
}
_FORM = re.compile(r"([a-z-]+)(?::(\d+)(\+?)(?::([0-9.]+))?)?")


@dataclass(frozen=True, slots=True)
class CardFault:
    """One of KINDS at operation ``at``, and from there on with ``lasting``."""

    kind: str
    at: int = 0
    lasting: bool = False
    value: float = 0.0


def parse_fault(text: str) -> CardFault:
    """A fault from its text form. Raises InputError."""
    found = _FORM.fullmatch(text)
    if found is None or found[1] not in KINDS:
        known = ", ".join(KINDS)
        hint = nearest(found[1] if found else text, list(KINDS))
        raise InputError(
            f"--fault: expected KIND, KIND:N, KIND:N+ or KIND:N:SECONDS with KIND one of {known}, "
            f"got '{text}'{hint or '; correct it'}"
        )
    return CardFault(found[1], int(found[2] or 0), bool(found[3]), float(found[4] or 0))


class CardFaults:
    """Which fault strikes now."""

    def __init__(self, faults: Sequence[CardFault]) -> None:
        self.replace(faults)

    def replace(self, faults: Sequence[CardFault]) -> None:
        """From now on these strike, counted from here; a card that was taken out is in again."""
        self._faults = faults
        self._counts = dict.fromkeys({what for what, _ in KINDS.values()}, 0)
        self._pulled = False

    def count(self, what: str) -> None:
        """An operation of that sort begins."""
        self._counts[what] += 1

    def strikes(self, kind: str) -> CardFault | None:
        """The fault of that kind that concerns the operation that began last."""
        counted = KINDS[kind][0]
        now = max(0, self._counts[counted] - 1)
        for fault in self._faults:
            if fault.kind == kind and (
                counted == "nothing" or fault.at == now or (fault.lasting and now > fault.at)
            ):
                return fault
        return None

    def pull(self) -> bool:
        """Whether the card is taken out in the middle of the block that began last."""
        self._pulled = self._pulled or self.strikes("pulled") is not None
        return self._pulled

    def gone(self) -> bool:
        """Whether there is no card (any more)."""
        blocks = self._counts["blocks"]
        return self._pulled or any(
            fault.kind == "absent" or (fault.kind == "removed" and blocks > fault.at)
            for fault in self._faults
        )
