"""The machine's time and what is due in it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Due:
    """Something that will be done, unless it is called off."""

    action: Callable[[], None] | None
    idle: bool


class Agenda:
    """``now`` in cycles of HCLK; an instruction is one cycle.

    Inside a quantum of instructions the time of an access is a lower bound: every access is one
    instruction at least, so it never runs backwards and never ahead of the quantum's end.
    """

    def __init__(self) -> None:
        self.now = 0
        self._end = 0
        self._order = itertools.count()
        self._due: list[tuple[int, int, Due]] = []
        self._busy = 0

    def after(self, cycles: float, action: Callable[[], None], *, idle: bool = False) -> Due:
        """Run ``action`` when ``cycles`` have passed, one at least.

        ``idle``: it belongs to a machine that waits for the host, and is no work under way.
        """
        due = Due(action, idle)
        heapq.heappush(self._due, (self.now + max(1, round(cycles)), next(self._order), due))
        self._busy += not idle
        return due

    def call_off(self, due: Due | None) -> None:
        """``due`` will not be done."""
        if due is not None and due.action is not None:
            due.action = None
            self._busy -= not due.idle

    @property
    def idle(self) -> bool:
        """Whether nothing is under way but waiting for the host."""
        return self._busy == 0

    def next_due(self) -> int | None:
        """When the next action is due; None when nothing is."""
        while self._due and self._due[0][2].action is None:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def begin(self, cycles: int) -> None:
        """A quantum of ``cycles`` begins."""
        self._end = self.now + cycles

    def touch(self) -> None:
        """One access of the core to a register has taken place."""
        if self.now < self._end - 1:
            self.now += 1

    def finish(self) -> None:
        """The quantum has ended: do what has become due, in order."""
        self.move_to(self._end)

    def move_to(self, moment: int) -> None:
        """Let time pass until ``moment``."""
        while self._due and self._due[0][0] <= moment:
            at, _, due = heapq.heappop(self._due)
            if due.action is None:
                continue
            action, due.action = due.action, None
            self._busy -= not due.idle
            self.now = max(self.now, at)
            action()
        self.now = max(self.now, moment)
