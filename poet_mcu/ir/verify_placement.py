"""Checks a Placement: recomputes every lifetime by itself, then looks at all pairs.

Quadratic and independent of ``memory``, which makes placements; runs on every build.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import HOST_WRITTEN, Graph
from poet_mcu.ir.placement import ArenaPart, Page, Placement, Scratch, Slot
from poet_mcu.ir.schedule import ActionKind, Schedule
from poet_mcu.units import BLOCK_BYTES

_MOST_LINES = 20


def verify_placement(
    graph: Graph,
    schedule: Schedule,
    sizes: Mapping[int, int],
    workspace: Mapping[int, int],
    placement: Placement,
    capacity_bytes: int | None,
    region_blocks: int | None,
    page_first_block: int = 0,
    page_alignment_blocks: int = 1,
    alignment_bytes: int | None = None,
    parts: Sequence[ArenaPart] = (),
) -> None:
    """Return if the placement gives every live byte of the schedule a place of its own.

    ``sizes`` are padded bytes by root value id, ``workspace`` scratch bytes by node id (a missing
    node needs none). The arena must not exceed ``capacity_bytes``; pages must lie in blocks
    [``page_first_block``, ``region_blocks``) and begin at multiples of ``page_alignment_blocks``,
    counted from block 0; None is no limit. ``alignment_bytes`` is what the placement's alignment
    must be, None takes its word; ``parts`` are those of the arena in front of its main RAM. Graph
    and schedule must have passed their own verifiers.

    Raises:
        InternalError: one line per broken rule, with values, bytes and actions.
    """
    lives = _walk(graph, schedule)
    problems = [
        *_size_problems(graph, lives, sizes, placement, alignment_bytes),
        *_slot_problems(lives, sizes, placement),
        *_extent_problems(placement, capacity_bytes),
        *_part_problems(schedule, placement, parts),
        *_overlap_problems(lives, placement),
        *_scratch_problems(schedule, workspace, placement),
        *_page_problems(schedule, sizes, placement),
        *_region_problems(placement, region_blocks, page_first_block, page_alignment_blocks),
    ]
    if problems:
        raise InternalError(f"{_listed(problems)}; this is a bug in memory/pack.py")


def _listed(problems: list[str]) -> str:
    rest = len(problems) - _MOST_LINES
    lines = problems[:_MOST_LINES] + ([f"and {rest} more"] if rest > 0 else [])
    return "\n".join(f"placement: {line}" for line in lines)


@dataclass(slots=True)
class _Lives:
    """Intervals (value, first, last) the schedule implies; in-place pairs (action, out, in)."""

    intervals: list[tuple[int, int, int]] = field(default_factory=list)
    takeovers: set[tuple[int, int, int]] = field(default_factory=set)
    home: set[int] = field(default_factory=set)


def _walk(graph: Graph, schedule: Schedule) -> _Lives:
    lives = _Lives()
    end = len(schedule.actions)
    born = {value.id: 0 for value in graph.with_role(*HOST_WRITTEN)}
    for value in graph.home_ram():
        lives.home.add(value.id)
        lives.intervals.append((value.id, 0, end))

    def die(value: int, action: int) -> None:
        if value not in born:
            raise InternalError(
                f"placement: action {action}: expected value {value} resident, got none; "
                "run verify_schedule first"
            )
        lives.intervals.append((value, born.pop(value), action + 1))

    for index, action in enumerate(schedule.actions):
        if action.kind is ActionKind.FREE:
            die(action.subject, index)
        elif action.kind is ActionKind.PAGE_IN:
            born[action.subject] = index
        elif action.kind is ActionKind.COMPUTE:
            for out, taken in action.in_place:
                die(taken, index)
                lives.takeovers.add((index, out, taken))
            for output in graph.nodes[action.subject].outputs:
                born[graph.root(output)] = index
    lives.intervals += [(value, first, end) for value, first in born.items()]
    return lives


def _bytes(offset: int, end: int) -> str:
    return f"[{offset}, {end})"


def _slot_text(slot: Slot) -> str:
    return f"buffer {slot.value} of actions {slot.first}..{slot.last - 1}"


def _size_problems(
    graph: Graph,
    lives: _Lives,
    sizes: Mapping[int, int],
    placement: Placement,
    alignment_bytes: int | None,
) -> Iterator[str]:
    wanted = placement.alignment_bytes if alignment_bytes is None else alignment_bytes
    if placement.alignment_bytes != wanted or wanted < 1:
        yield f"alignment: expected {wanted} bytes, got {placement.alignment_bytes}"
    for value in sorted({value for value, _, _ in lives.intervals}):
        dense = graph.values[value].type.nbytes
        size = sizes.get(value)
        if size is None or size < dense:
            yield f"value {value}: expected a size of at least {dense} bytes, got {size}"


def _slot_problems(lives: _Lives, sizes: Mapping[int, int], placement: Placement) -> Iterator[str]:
    expected = Counter(lives.intervals)
    got = Counter((slot.value, slot.first, slot.last) for slot in placement.slots)
    for value, first, last in sorted((expected - got).elements()):
        yield (
            f"value {value}: expected one slot for actions {first}..{last - 1}, "
            f"got none with this interval"
        )
    for value, first, last in sorted((got - expected).elements()):
        yield (
            f"value {value}: expected no slot for actions {first}..{last - 1}, "
            "got one that the schedule does not ask for"
        )
    for slot in placement.slots:
        if slot.nbytes != sizes.get(slot.value):
            yield (f"{_slot_text(slot)}: expected {sizes.get(slot.value)} bytes, got {slot.nbytes}")
    for value in sorted(lives.home):
        offsets = sorted({slot.offset for slot in placement.slots if slot.value == value})
        if len(offsets) > 1:
            yield f"value {value}: expected one offset for the whole step, got {offsets}"


def _extent_problems(placement: Placement, capacity_bytes: int | None) -> Iterator[str]:
    areas = [(_slot_text(slot), slot.offset, slot.nbytes) for slot in placement.slots]
    areas += [(f"scratch of action {s.action}", s.offset, s.nbytes) for s in placement.scratch]
    for text, offset, nbytes in areas:
        if offset % max(placement.alignment_bytes, 1) != 0:
            yield (
                f"{text}: expected an offset aligned to {placement.alignment_bytes} bytes, "
                f"got {offset}"
            )
        if offset < 0 or offset + nbytes > placement.arena_bytes:
            yield (
                f"{text}: expected bytes inside the arena [0, {placement.arena_bytes}), "
                f"got {_bytes(offset, offset + nbytes)}"
            )
    if capacity_bytes is not None and placement.arena_bytes > capacity_bytes:
        yield f"arena: expected at most {capacity_bytes} bytes, got {placement.arena_bytes}"


def _part_problems(
    schedule: Schedule, placement: Placement, parts: Sequence[ArenaPart]
) -> Iterator[str]:
    """Parts as given and side by side from 0 on; nothing crosses; no page where no DMA reaches."""
    if placement.parts != tuple(parts):
        yield f"parts: expected {[p.name for p in parts]} as given, got {list(placement.parts)}"
    end = 0
    for part in parts:
        if part.offset != end or part.offset % max(placement.alignment_bytes, 1) != 0:
            yield f"part {part.name}: expected an aligned offset {end}, got {part.offset}"
        end = part.end
    borders = [(part.name, part.end) for part in parts]
    kinds = (ActionKind.PAGE_OUT, ActionKind.PAGE_IN)
    paged = {action.subject for action in schedule.actions if action.kind in kinds}
    areas = [(_slot_text(s), s.offset, s.nbytes, s.value in paged) for s in placement.slots]
    areas += [(f"scratch of action {s.action}", s.offset, s.nbytes, False)
              for s in placement.scratch]  # fmt: skip
    for text, offset, nbytes, is_paged in areas:
        for name, border in borders:
            if offset < border < offset + nbytes:
                yield (
                    f"{text}: expected bytes on one side of the end of part {name} at {border}, "
                    f"got {_bytes(offset, offset + nbytes)}"
                )
        for part in parts:
            if (
                is_paged
                and not part.reached
                and offset < part.end
                and part.offset < offset + nbytes
            ):
                yield (
                    f"{text}: expected a paged value where the DMA reaches, got "
                    f"{_bytes(offset, offset + nbytes)} in part {part.name}"
                )


def _overlap_problems(lives: _Lives, placement: Placement) -> Iterator[str]:
    slots = placement.slots
    for index, one in enumerate(slots):
        one_end = one.offset + one.nbytes
        for two in slots[index + 1 :]:
            # Three comparisons settle almost every pair; the rest is read in full below.
            if one.last <= two.first or two.last <= one.first:
                continue
            low, high = max(one.offset, two.offset), min(one_end, two.offset + two.nbytes)
            if low >= high and not (_takes_over(lives, one, two) or _takes_over(lives, two, one)):
                continue
            yield from _pair_problems(lives, one, two, low, high)


def _takes_over(lives: _Lives, out: Slot, taken: Slot) -> bool:
    """Whether ``out`` begins in place over the end of ``taken``."""
    same_action = out.first == taken.last - 1
    return same_action and (out.first, out.value, taken.value) in lives.takeovers


def _pair_problems(lives: _Lives, one: Slot, two: Slot, low: int, high: int) -> Iterator[str]:
    """``one`` and ``two`` share time, and either bytes [low, high) or a takeover."""
    if _takes_over(lives, one, two) or _takes_over(lives, two, one):
        if one.offset != two.offset:
            yield (
                f"buffers {one.value} and {two.value}: expected one offset of an in-place pair, "
                f"got {one.offset} and {two.offset}"
            )
        return
    first, last = max(one.first, two.first), min(one.last, two.last) - 1
    yield (
        f"buffers {one.value} and {two.value} overlap at {_bytes(low, high)} "
        f"during actions {first}..{last}"
    )


def _scratch_problems(
    schedule: Schedule, workspace: Mapping[int, int], placement: Placement
) -> Iterator[str]:
    needs = {
        index: workspace.get(action.subject, 0)
        for index, action in enumerate(schedule.actions)
        if action.kind is ActionKind.COMPUTE and workspace.get(action.subject, 0) > 0
    }
    counts = Counter(scratch.action for scratch in placement.scratch)
    for action in sorted(needs.keys() | counts.keys()):
        wanted = 1 if action in needs else 0
        if counts[action] != wanted:
            yield f"action {action}: expected {wanted} scratch areas, got {counts[action]}"
    for scratch in placement.scratch:
        if scratch.nbytes < needs.get(scratch.action, 0):
            yield (
                f"scratch of action {scratch.action}: expected at least "
                f"{needs[scratch.action]} bytes, got {scratch.nbytes}"
            )
        yield from _scratch_overlaps(scratch, placement.slots)


def _scratch_overlaps(scratch: Scratch, slots: tuple[Slot, ...]) -> Iterator[str]:
    for slot in slots:
        if not slot.first <= scratch.action < slot.last:
            continue
        low = max(slot.offset, scratch.offset)
        high = min(slot.offset + slot.nbytes, scratch.offset + scratch.nbytes)
        if low < high:
            yield (
                f"scratch of action {scratch.action} and buffer {slot.value} overlap at "
                f"{_bytes(low, high)} during actions {scratch.action}..{scratch.action}"
            )


def _page_problems(
    schedule: Schedule, sizes: Mapping[int, int], placement: Placement
) -> Iterator[str]:
    kinds = (ActionKind.PAGE_OUT, ActionKind.PAGE_IN)
    paged = {action.subject for action in schedule.actions if action.kind in kinds}
    counts = Counter(page.value for page in placement.pages)
    for value in sorted(paged | counts.keys()):
        wanted = 1 if value in paged else 0
        if counts[value] != wanted:
            yield f"value {value}: expected {wanted} pages, got {counts[value]}"
    for page in placement.pages:
        if page.blocks * BLOCK_BYTES < sizes.get(page.value, 0):
            yield (
                f"page of value {page.value}: expected room for {sizes[page.value]} bytes, "
                f"got {page.blocks} blocks of {BLOCK_BYTES} bytes"
            )
    for index, one in enumerate(placement.pages):
        for two in placement.pages[index + 1 :]:
            low = max(one.first_block, two.first_block)
            high = min(one.first_block + one.blocks, two.first_block + two.blocks)
            if low < high:
                yield (
                    f"pages of values {one.value} and {two.value} overlap at blocks "
                    f"{_bytes(low, high)}"
                )


def _region_problems(
    placement: Placement,
    region_blocks: int | None,
    page_first_block: int,
    page_alignment_blocks: int,
) -> Iterator[str]:
    def text(page: Page) -> str:
        return f"page of value {page.value}"

    for page in placement.pages:
        end = page.first_block + page.blocks
        if page.first_block % page_alignment_blocks != 0:
            yield (
                f"{text(page)}: expected a first block aligned to {page_alignment_blocks} "
                f"blocks, got {page.first_block}"
            )
        if page.first_block < page_first_block:
            yield (
                f"{text(page)}: expected blocks from {page_first_block} on, "
                f"got {_bytes(page.first_block, end)}"
            )
        if region_blocks is not None and end > region_blocks:
            yield (
                f"{text(page)}: expected blocks before {region_blocks}, "
                f"got {_bytes(page.first_block, end)}"
            )
