"""Exact packing by branch and bound: is there a packing at most ``capacity`` high?

Written from the ideas of Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-
Accelerated Machine Learning", ASPLOS 2023: canonical order, section bounds, dominance and
decomposition. Every packing can be pressed down until no item fits anywhere lower. Placing the
items of such a packing by rising offset (ties by index), each lands on its *floor*: the highest
end of the placed items it meets in time, or the lowest offset above that which walls leave it. So
only floors need to be tried, and:

- canonical order: the next offset is not below the last one;
- dominance: the next offset is below every end an unplaced item could have at its floor,
  otherwise that item would fit under it and the packing would not be pressed down;
- section bound: in each section, the unplaced items stacked by rising floor end within capacity;
- decomposition: unplaced items that share no section, directly or through others, are solved
  apart, so that a failure of one part is not retried for every packing of the other;
- memory: a component that failed is not searched again on the same floors with an equal or later
  last placement;
- symmetry: of unplaced items that are equal the one with the lowest index goes first.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from poet_mcu.memory.items import Instance, Ints, Item


class Outcome(enum.Enum):
    """What the search can say; ABSENT is a proof."""

    FOUND = "found"
    ABSENT = "absent"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """``offsets`` is set when FOUND; ``nodes`` is how many placements were tried."""

    outcome: Outcome
    offsets: Ints | None
    nodes: int


#: static preferences among candidates with one floor, largest first; a portfolio of restarts
PREFERENCES: tuple[Callable[[Instance], tuple[Ints, ...]], ...] = (
    lambda i: (i.crowd, i.areas, i.heights),
    lambda i: (i.durations, i.areas, i.crowd),
    lambda i: (i.heights, i.crowd, i.durations),
)


def search(
    instance: Instance, capacity: int, node_budget: int, preference: int = 0
) -> SearchResult:
    """Depth-first search for offsets at most ``capacity`` high, with at most ``node_budget`` nodes.

    The result depends on the arguments only, never on the clock.
    """
    return _Search(instance, capacity, node_budget, preference).run()


@dataclass(slots=True)
class _Frame:
    """A choice point: the items of one component, the floors and last placement before it."""

    members: Ints
    floors: Ints
    last: tuple[int, int]  # offset and index of the last placed item
    candidates: list[int]
    open: bool = True  # the next candidate is to be tried
    floors_after: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    last_after: tuple[int, int] = (0, -1)
    parts: list[Ints] = field(default_factory=list)  # of the placed candidate, solved from the end


def _key(members: Ints, floors: Ints) -> bytes:
    return members.tobytes() + floors[members].tobytes()


class _Search:
    def __init__(
        self, instance: Instance, capacity: int, node_budget: int, preference: int
    ) -> None:
        self.instance = instance
        self.capacity = capacity
        self.budget = node_budget
        self.nodes = 0
        self.failed: dict[bytes, tuple[int, int]] = {}  # component and floors -> earliest last
        self.offsets: Ints = np.zeros(len(instance.items), dtype=np.int64)
        keys = PREFERENCES[preference % len(PREFERENCES)](instance)
        rank = np.lexsort([-key for key in reversed(keys)])
        self.rank: Ints = np.empty(len(rank), dtype=np.int64)
        self.rank[rank] = np.arange(len(rank))
        twins: dict[Item, int] = {}
        self.twin = np.asarray(
            [twins.setdefault(item, i) for i, item in enumerate(instance.items)],
            dtype=np.int64,
        )

    def run(self) -> SearchResult:
        members = np.flatnonzero(self.instance.heights > 0)
        floors = self.instance.lifted(np.zeros(len(self.instance.items), dtype=np.int64))
        root = _Frame(members, floors, (0, -1), [], open=False)
        root.floors_after = floors
        parts = self._parts(members, floors, (0, -1))
        if parts is None:
            return SearchResult(Outcome.ABSENT, None, 0)
        root.parts = parts
        stack = [root]
        while stack:
            frame = stack[-1]
            if frame.open:
                if self._next(frame):
                    continue
                if self.nodes >= self.budget:
                    return SearchResult(Outcome.BUDGET, None, self.nodes)
                self._remember(stack.pop())
                if len(stack) == 1:
                    return SearchResult(Outcome.ABSENT, None, self.nodes)
                stack[-1].open = True
            elif frame.parts:
                stack.append(self._frame(frame))
            else:
                stack.pop()
                if stack:
                    stack[-1].parts.pop()
        return SearchResult(Outcome.FOUND, self.offsets, self.nodes)

    def _frame(self, parent: _Frame) -> _Frame:
        members, floors, last = parent.parts[-1], parent.floors_after, parent.last_after
        return _Frame(members, floors, last, self._candidates(members, floors, last))

    def _candidates(self, members: Ints, floors: Ints, last: tuple[int, int]) -> list[int]:
        """Items that may be placed next, best last."""
        floor = floors[members]
        ends = floor + self.instance.heights[members]
        offset, index = last
        fits = (floor < ends.min()) & (ends <= self.capacity)
        fits &= (floor > offset) | ((floor == offset) & (members > index))
        _, firsts = np.unique(self.twin[members], return_index=True)
        first_twin = np.zeros(len(members), dtype=bool)
        first_twin[firsts] = True  # members ascend, so this is the lowest index
        fits &= first_twin
        order = np.lexsort([self.rank[members], floor])
        return [int(members[i]) for i in order[::-1] if fits[i]]

    def _next(self, frame: _Frame) -> bool:
        """Place the next candidate whose remainder passes the bounds; False when none is left."""
        while frame.candidates and self.nodes < self.budget:
            item = frame.candidates.pop()
            self.nodes += 1
            offset = int(frame.floors[item])
            above = self.instance.above[item]
            floors = np.maximum(frame.floors, np.where(above > 0, offset + above, 0))
            floors = self.instance.lifted(floors)
            rest = frame.members[frame.members != item]
            parts = self._parts(rest, floors, (offset, item))
            if parts is None:
                continue
            self.offsets[item] = offset
            frame.floors_after, frame.last_after = floors, (offset, item)
            frame.parts, frame.open = parts, False
            return True
        return False

    def _remember(self, frame: _Frame) -> None:
        key = _key(frame.members, frame.floors)
        self.failed[key] = min(self.failed.get(key, frame.last), frame.last)

    def _parts(self, members: Ints, floors: Ints, last: tuple[int, int]) -> list[Ints] | None:
        """Components of ``members``, or None when one of them cannot fit any more."""
        parts: list[Ints] = []
        if len(members) == 0:
            return parts
        by_start = members[np.argsort(self.instance.start[members], kind="stable")]
        reach = np.maximum.accumulate(self.instance.end[by_start])
        cuts = np.flatnonzero(self.instance.start[by_start][1:] >= reach[:-1]) + 1
        for part in np.split(by_start, cuts):
            if not self._may_fit(part, floors, last[0]):
                return None
            parts.append(np.sort(part))
            earliest = self.failed.get(_key(parts[-1], floors))
            if earliest is not None and earliest <= last:
                return None
        return parts

    def _may_fit(self, members: Ints, floors: Ints, offset: int) -> bool:
        """The section bound: stack what is left in each section on the floors, highest first."""
        floor = np.maximum(floors[members], offset)
        down = np.argsort(-floor, kind="stable")
        start = self.instance.start[members].min()
        end = self.instance.end[members].max()
        load = self.instance.load[members[down], start:end]
        stacked = np.cumsum(load, axis=0) + floor[down][:, None]
        return int(np.where(load > 0, stacked, 0).max(initial=0)) <= self.capacity
