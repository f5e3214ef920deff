"""Lowest-fit packing in several orders, and repair of the best order by promoting the highest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from poet_mcu.memory.items import Instance, Ints

#: rounds of repair, and items placed in all of them: keeps large sets to about a second
_PROMOTIONS = 64
_PROMOTED_ITEMS = 20_000


def pack_greedy(instance: Instance, goal: int) -> Ints:
    """The lowest packing found; stops as soon as one is at most ``goal`` high.

    Ties go to the earlier order, so the result is the same on every run.
    """
    best = np.zeros(len(instance.items), dtype=np.int64)
    best_height = -1
    best_order = np.arange(len(instance.items))
    for order in _orders(instance):
        offsets = lowest_fit(instance, order)
        height = instance.height_of(offsets)
        if best_height < 0 or height < best_height:
            best, best_height, best_order = offsets, height, order
        if best_height <= goal:
            return best
    return _promote(instance, best_order, best, goal)


def _orders(instance: Instance) -> Iterator[Ints]:
    """Index orders; each key is 'largest first', later keys break ties, then the index."""
    size, area = -instance.heights, -instance.areas
    crowd, duration = -instance.crowd, -instance.durations
    start = instance.start
    for keys in (
        (size, duration),
        (duration, size),
        (area, size),
        (crowd, size, duration),
        (crowd, duration, size),
        (crowd, area),
        (start, duration, size),
        (instance.end * -1, duration, size),
    ):
        yield np.lexsort(keys[::-1])  # numpy sorts by the last key first


def lowest_fit(instance: Instance, order: Ints) -> Ints:
    """Offsets when items are placed in ``order``, each at the lowest offset that is free."""
    offsets = np.zeros(len(order), dtype=np.int64)
    placed = np.zeros(len(order), dtype=bool)
    above = instance.above
    for item in order:
        others = np.flatnonzero(placed & ((above[item] > 0) | (above[:, item] > 0)))
        # The new offset may not lie strictly between low and high.
        low, high = instance.walls_of(item)
        low = np.concatenate([low, offsets[others] - above[item, others]])
        high = np.concatenate([high, offsets[others] + above[others, item]])
        if len(low) > 0:
            by_low = np.argsort(low, kind="stable")
            low, high = low[by_low], np.maximum.accumulate(high[by_low])
            before = np.concatenate([[0], np.maximum(high, 0)])
            fits = np.flatnonzero(before[:-1] <= low)
            offsets[item] = before[fits[0]] if len(fits) > 0 else before[-1]
        placed[item] = True
    return offsets


def _promote(instance: Instance, order: Ints, best: Ints, goal: int) -> Ints:
    """Place the item that ends highest earlier and try again, a fixed number of times."""
    best_height = instance.height_of(best)
    current, sequence = best, list(order)
    for turn in range(min(_PROMOTIONS, _PROMOTED_ITEMS // len(sequence))):
        ends = current + instance.heights
        top = int(ends.argmax())
        at = sequence.index(top)
        # To the front first; where it has been already, halfway, so that rounds differ.
        to = 0 if turn % 2 == 0 else at // 2
        sequence.insert(to, sequence.pop(at))
        current = lowest_fit(instance, np.asarray(sequence, dtype=np.int64))
        height = instance.height_of(current)
        if height < best_height:
            best, best_height = current, height
        if best_height <= goal:
            break
    return best
