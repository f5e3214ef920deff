"""Offsets in the arena: greedy orders first, an exact search where they miss."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from poet_mcu.ir.graph import Graph
from poet_mcu.ir.placement import ArenaPart, Placement, Scratch, Slot, parts_end
from poet_mcu.ir.schedule import ActionKind, Schedule
from poet_mcu.memory.greedy import pack_greedy
from poet_mcu.memory.items import Instance, Ints, Item, Wall
from poet_mcu.memory.lifetimes import Lifetimes, Residency, lifetimes
from poet_mcu.memory.pages import place_pages
from poet_mcu.memory.search import PREFERENCES, Outcome, search
from poet_mcu.units import round_down

#: placements one call may try in all its searches
NODE_BUDGET = 60_000
#: table cells the searches of one call may touch: keeps large graphs to a few seconds
_CELL_BUDGET = 300_000_000
_BISECTIONS = 6


def place(
    graph: Graph,
    schedule: Schedule,
    sizes: Mapping[int, int],
    workspace: Mapping[int, int],
    alignment_bytes: int,
    capacity_bytes: int | None,
    page_first_block: int,
    page_alignment_blocks: int = 1,
    node_budget: int = NODE_BUDGET,
    home_blocks: Mapping[int, int] = MappingProxyType({}),
    parts: Sequence[ArenaPart] = (),
) -> Placement:
    """The lowest placement found, always the same; above the capacity if none was found within.

    Args:
        graph: verified; its values with a home in RAM will lie lowest in each part.
        schedule: verified; InternalError where it is not, or a size is not padded.
        sizes: padded bytes by root value id, multiples of ``alignment_bytes``.
        workspace: scratch bytes by node id, rounded up to the alignment here.
        alignment_bytes: of every offset and size.
        capacity_bytes: bytes of the arena, home values included; None for no limit.
        page_first_block: first block that pages may use.
        page_alignment_blocks: pages begin at its multiples.
        node_budget: placements to try.
        home_blocks: first blocks, by value id, of pages another step has placed.
        parts: of the arena, in front of its main RAM, which has no end here.
    """
    lives = lifetimes(graph, schedule, sizes, workspace, alignment_bytes)
    items, owner = _items(lives, _paged(schedule))
    homes = _homes(lives, parts)
    room = None if capacity_bytes is None else capacity_bytes - homes.base
    packing = pack(items, room, node_budget, _walls(homes, parts))
    pages = place_pages(
        schedule, sizes, page_first_block, page_alignment_blocks, graph.card_homes, home_blocks
    )
    return Placement(
        tuple(_slots(lives, packing, owner, homes)), tuple(_scratch(lives, packing, homes.base)),
        pages, max(homes.base + packing.height, homes.end), alignment_bytes, tuple(parts),
    )  # fmt: skip


def _paged(schedule: Schedule) -> frozenset[int]:
    """The values that go to the card or come from it."""
    moves = (ActionKind.PAGE_IN, ActionKind.PAGE_OUT)
    return frozenset(action.subject for action in schedule.actions if action.kind in moves)


@dataclass(frozen=True, slots=True)
class _Homes:
    """Offsets of the values with a home in RAM; (start, end) of their run in each part."""

    offsets: tuple[int, ...]
    runs: tuple[tuple[int, int], ...]

    @property
    def base(self) -> int:
        """Everything else lies from here on."""
        return self.runs[0][1]

    @property
    def end(self) -> int:
        """The highest end of one of them."""
        return max((end for start, end in self.runs if end > start), default=0)


def _homes(lives: Lifetimes, parts: Sequence[ArenaPart]) -> _Homes:
    """Each at the start of the first part that has room for it, else in the main RAM."""
    starts = [part.offset for part in parts] + [parts_end(parts)]
    ends, offsets = list(starts), []
    for _, nbytes in lives.home:
        fitting = (i for i, part in enumerate(parts) if ends[i] + nbytes <= part.end)
        at = next(fitting, len(parts))
        offsets.append(ends[at])
        ends[at] += nbytes
    return _Homes(tuple(offsets), tuple(zip(starts, ends, strict=True)))


def _walls(homes: _Homes, parts: Sequence[ArenaPart]) -> list[Wall]:
    """Borders with the homes behind them, and parts that paged values may not touch."""
    base = homes.base
    walls = [Wall(start - base, end - base) for start, end in homes.runs[1:]]
    walls += [
        Wall(max(0, part.offset - base), part.end - base, paged_only=True)
        for part in parts
        if not part.reached
    ]
    return sorted(walls, key=lambda wall: (wall.start, wall.end))


def _slots(
    lives: Lifetimes, packing: Packing, owner: Sequence[int], homes: _Homes
) -> Iterator[Slot]:
    """Home values, then every residency in order of time."""
    for (value, nbytes), offset in zip(lives.home, homes.offsets, strict=True):
        yield Slot(value, offset, nbytes, 0, lives.actions)
    for index, stay in enumerate(lives.residencies):
        offset = homes.base + packing.offsets[owner[index]]
        yield Slot(stay.value, offset, stay.nbytes, stay.first, stay.last)


def _scratch(lives: Lifetimes, packing: Packing, base: int) -> Iterator[Scratch]:
    """Scratch areas; their items are the last ones."""
    first = len(packing.offsets) - len(lives.scratch)
    for number, (action, nbytes) in enumerate(lives.scratch):
        yield Scratch(action, base + packing.offsets[first + number], nbytes)


def arena_to_peak_ratio(placement: Placement, live_peak: int) -> float:
    """``arena_bytes`` over the live peak in bytes: 1.0 is perfect, the rest is fragmentation."""
    return placement.arena_bytes / live_peak if live_peak > 0 else 1.0


def _items(lives: Lifetimes, paged: frozenset[int]) -> tuple[list[Item], list[int]]:
    """Items, and for each residency the index of its item; scratch items come last."""
    owner: list[int] = []
    chains: list[list[Residency]] = []
    for stay in lives.residencies:
        if stay.takes_over is None:
            owner.append(len(chains))
            chains.append([stay])
        else:
            owner.append(owner[stay.takes_over])
            chains[owner[-1]].append(stay)
    items = [_chain_item(chain, paged) for chain in chains]
    items += [Item(((action, action + 1, nbytes),)) for action, nbytes in lives.scratch]
    return items, owner


def _chain_item(chain: Sequence[Residency], paged: frozenset[int]) -> Item:
    """Heights over time of a chain: during a takeover the predecessor, which is not smaller."""
    segments = [(chain[0].first, chain[0].last, chain[0].nbytes)]
    for before, after in itertools.pairwise(chain):
        if after.last > before.last:  # equal when both reach the end of the step
            segments.append((before.last, after.last, after.nbytes))
    return Item(tuple(segments), any(stay.value in paged for stay in chain))


@dataclass(frozen=True, slots=True)
class Packing:
    """Offsets by item; ``optimal`` when no lower packing exists (proven)."""

    offsets: tuple[int, ...]
    height: int
    peak: int
    optimal: bool
    nodes: int


def pack(
    items: Sequence[Item],
    capacity: int | None,
    node_budget: int = NODE_BUDGET,
    walls: Sequence[Wall] = (),
) -> Packing:
    """The lowest packing of ``items`` found, in their units; ``capacity`` only steers the search.

    Greedy orders come first. If they miss the peak load (a lower bound), the exact search looks
    for a packing at the peak, then within the capacity, then bisects.
    """
    if not items:
        return Packing((), 0, 0, optimal=True, nodes=0)
    instance = Instance(items, walls)
    tries = _Tries(instance, node_budget)
    if capacity is not None and tries.height <= capacity:
        tries.left //= 4  # it fits: a lower arena is welcome, but not worth as much time
    tries.goal(instance.peak, share=2)
    if capacity is not None and instance.peak <= capacity < tries.height:
        tries.goal(round_down(capacity, instance.unit), share=2)
    for _ in range(_BISECTIONS):
        if tries.floor + instance.unit >= tries.height or tries.left <= 0:
            break
        middle = (tries.floor + tries.height) // 2
        tries.goal(round_down(middle, instance.unit), share=3)
    optimal = tries.height in (instance.peak, tries.proven + instance.unit)
    offsets = tuple(int(offset) for offset in tries.best)
    return Packing(offsets, tries.height, instance.peak, optimal, tries.nodes)


class _Tries:
    """The best packing so far and what is known about lower ones."""

    def __init__(self, instance: Instance, node_budget: int) -> None:
        self.instance = instance
        self.best: Ints = pack_greedy(instance, instance.peak)
        self.height = instance.height_of(self.best)
        self.left = min(node_budget, _CELL_BUDGET // max(instance.load.size, 1))
        self.nodes = 0
        #: no packing this high was found / exists; always below ``height``
        self.floor = self.proven = instance.peak - instance.unit

    def goal(self, height: int, share: int) -> None:
        """Search for a packing of ``height`` with 1/``share`` of the nodes that are left."""
        if self.height <= height or self.left <= 0:
            return
        fair = self.left // (share * len(PREFERENCES))
        dive = 2 * len(self.instance.items)  # fewer nodes cannot reach the last item
        for preference in range(len(PREFERENCES)):
            nodes = min(self.left, max(fair, dive))
            result = search(self.instance, height, nodes, preference)
            self.nodes += result.nodes
            self.left -= result.nodes
            if result.offsets is not None:
                self.best = result.offsets
                self.height = self.instance.height_of(self.best)
                return
            if result.outcome is Outcome.ABSENT:
                self.proven = max(self.proven, height)
                break
        self.floor = max(self.floor, height)
