"""The packing problem as plain data: items with a height over time that share one offset each.

An item is one residency, one scratch area, or a whole chain of in-place takeovers; the height of
a chain may fall in steps over time, never rise. Two items are apart if in every moment both are
live the lower one ends at or before the start of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Item:
    """Half-open (first, last, height) segments in order of time, without gaps, heights falling.

    ``paged``: it may not stand where the DMA does not reach.
    """

    segments: tuple[tuple[int, int, int], ...]
    paged: bool = False

    @property
    def first(self) -> int:
        """First moment."""
        return self.segments[0][0]

    @property
    def last(self) -> int:
        """First moment after the end."""
        return self.segments[-1][1]

    @property
    def height(self) -> int:
        """Largest height."""
        return max(height for _, _, height in self.segments)

    @property
    def area(self) -> int:
        """Height times duration, summed."""
        return sum((last - first) * height for first, last, height in self.segments)


@dataclass(frozen=True, slots=True)
class Wall:
    """Offsets [start, end) that no item may touch; of no width, a border that none may cross.

    ``paged_only``: paged items alone. Walls come by rising start, the wider of equal starts last.
    """

    start: int
    end: int
    paged_only: bool = False


class Instance:
    """Items with the tables that packers need.

    ``above[a, b]`` is how far above the offset of a the offset of b must lie, if b is not below
    a: the largest height of a while both are live, 0 when they never are (or one has no height).
    ``load[i, s]`` is the height of item i in section s; sections are the moments at which the
    set of live items cannot be part of a neighbour's set. ``peak`` is the largest column sum.
    """

    def __init__(self, items: Sequence[Item], walls: Sequence[Wall] = ()) -> None:
        self.items = tuple(items)
        self.paged = np.asarray([item.paged for item in items], dtype=np.bool_)
        self.walls = tuple(walls)
        self.unit = math.gcd(*(h for item in items for _, _, h in item.segments)) or 1
        self.heights: Ints = _ints([item.height for item in items])
        self.areas: Ints = _ints([item.area for item in items])
        self.durations: Ints = _ints([item.last - item.first for item in items])
        self.above = _above(self.items)
        self.load = _load(self.items)
        live = self.load > 0
        count = self.load.shape[1]
        self.start: Ints = np.where(live.any(axis=1), live.argmax(axis=1), 0)
        reverse_end = live[:, ::-1].argmax(axis=1)
        self.end: Ints = np.where(live.any(axis=1), count - reverse_end, 0)
        totals = self.load.sum(axis=0)
        self.peak = int(totals.max(initial=0))
        #: per item the fullest section it is live in
        self.crowd: Ints = np.where(live, totals[None, :], 0).max(axis=1, initial=0)

    def lifted(self, offsets: Ints) -> Ints:
        """The lowest offsets, not below ``offsets``, at which each item stands clear of walls."""
        for wall in self.walls:
            hit = (wall.start - self.heights < offsets) & (offsets < wall.end)
            offsets = np.where(hit & self._held_by(wall), wall.end, offsets)
        return offsets

    def walls_of(self, item: int) -> tuple[Ints, Ints]:
        """(low, high): the item's offset may not lie strictly between the two of any wall."""
        own = [wall for wall in self.walls if not wall.paged_only or self.paged[item]]
        low = _ints([wall.start for wall in own]) - self.heights[item]
        return low, _ints([wall.end for wall in own])

    def _held_by(self, wall: Wall) -> Any:
        return self.paged if wall.paged_only else True

    def height_of(self, offsets: Ints) -> int:
        """Bytes from 0 to the highest end."""
        return int((offsets + self.heights).max(initial=0))


def _ints(values: Any) -> Ints:
    return np.asarray(values, dtype=np.int64)


def _segments(items: Sequence[Item]) -> tuple[Ints, Ints, Ints, Ints]:
    rows = [(i, *segment) for i, item in enumerate(items) for segment in item.segments]
    table = _ints(rows).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def _above(items: Sequence[Item]) -> Ints:
    owner, first, last, height = _segments(items)
    above = np.zeros((len(items), len(items)), dtype=np.int64)
    for segment in range(len(owner)):
        together = (first < last[segment]) & (last > first[segment])
        together &= (owner != owner[segment]) & (height > 0)
        others = np.unique(owner[together])
        row = above[owner[segment]]
        row[others] = np.maximum(row[others], height[segment])
    return above


def _load(items: Sequence[Item]) -> Ints:
    """Heights by item and section. A moment is dropped if each height in it is found next to it."""
    owner, first, last, height = _segments(items)
    times = np.unique(np.concatenate([first, last]))
    load = np.zeros((len(items), max(len(times) - 1, 1)), dtype=np.int64)
    starts, ends = np.searchsorted(times, first), np.searchsorted(times, last)
    for segment in range(len(owner)):
        load[owner[segment], starts[segment] : ends[segment]] = height[segment]
    keep: list[int] = []
    for section in range(load.shape[1]):
        column = load[:, section]
        while keep and bool((load[:, keep[-1]] <= column).all()):
            keep.pop()
        if not keep or not bool((column <= load[:, keep[-1]]).all()):
            keep.append(section)
    return np.ascontiguousarray(load[:, keep])
