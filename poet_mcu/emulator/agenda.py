"""The machine's time and what is due in it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Agenda:
    """``now`` in cycles of HCLK; an instruction is one cycle.

    Inside a quantum of instructions the time of an access is a lower bound: every access is one
    instruction at least, so it never runs backwards and never ahead of the quantum's end.
    """

    def __init__(self) -> None:
        self.now = 0
        self._end = 0
        self._order = itertools.count()
        self._due: list[tuple[int, int, bool, Callable[[], None]]] = []
        self._busy = 0

    def after(self, cycles: float, action: Callable[[], None], *, idle: bool = False) -> None:
        """Run ``action`` when ``cycles`` have passed, one at least.

        ``idle``: it belongs to a machine that waits for the host, and is no work under way.
        """
        entry = (self.now + max(1, round(cycles)), next(self._order), idle, action)
        heapq.heappush(self._due, entry)
        self._busy += not idle

    @property
    def idle(self) -> bool:
        """Whether nothing is under way but waiting for the host."""
        return self._busy == 0

    def next_due(self) -> int | None:
        """When the next action is due; None when nothing is."""
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
            at, _, idle, action = heapq.heappop(self._due)
            self._busy -= not idle
            self.now = max(self.now, at)
            action()
        self.now = max(self.now, moment)
