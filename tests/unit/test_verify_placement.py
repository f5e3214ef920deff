"""One sabotage per rule of verify_placement, and a painted arena as the oracle of overlap."""

from __future__ import annotations

import dataclasses
import random
import re

import numpy as np
import pytest
from test_memory_plans import (
    GP,
    LABEL,
    LOSS,
    TINY_WORKSPACE,
    A,
    M,
    P,
    R,
    W,
    X,
    free,
    padded,
    random_graph,
    random_schedule,
    tiny_graph,
    tiny_schedule,
)

from poet_mcu.errors import InternalError
from poet_mcu.ir.placement import Page, Placement, Scratch, Slot
from poet_mcu.ir.schedule import ActionKind, Schedule
from poet_mcu.ir.verify_placement import verify_placement
from poet_mcu.memory.pack import place

END = 20
# Written by hand from the docstring of Slot; parameters, then one line per residency.
SLOTS = (
    Slot(W, 0, 64, 0, END),
    Slot(M, 64, 64, 0, END),
    Slot(X, 128, 64, 0, END),
    Slot(LABEL, 192, 32, 0, 10),
    Slot(A, 224, 64, 0, 7),
    Slot(R, 288, 64, 1, 6),
    Slot(P, 352, 64, 3, 9),
    Slot(LOSS, 224, 32, 7, END),
    Slot(GP, 352, 64, 8, 15),
    Slot(R, 288, 64, 10, 14),
    Slot(11, 416, 64, 12, 17),
    Slot(A, 256, 64, 17, 19),
)
SCRATCH = (Scratch(3, 416, 64), Scratch(12, 480, 64))
GOOD = Placement(SLOTS, SCRATCH, (Page(R, 8, 1),), 544, 32)


def check(placement: Placement, **options: object) -> None:
    graph = tiny_graph()
    given = {
        "sizes": padded(graph),
        "workspace": TINY_WORKSPACE,
        "capacity_bytes": 544,
        "region_blocks": 9,
        "page_first_block": 1,
        "page_alignment_blocks": 8,
        "alignment_bytes": 32,
    } | options
    verify_placement(graph, tiny_schedule(), placement=placement, **given)


def slot(index: int, **changes: int) -> Placement:
    slots = list(SLOTS)
    slots[index] = dataclasses.replace(slots[index], **changes)
    return dataclasses.replace(GOOD, slots=tuple(slots))


def scratch(index: int, **changes: int) -> Placement:
    areas = list(SCRATCH)
    areas[index] = dataclasses.replace(areas[index], **changes)
    return dataclasses.replace(GOOD, scratch=tuple(areas))


def changed(**changes: object) -> Placement:
    return dataclasses.replace(GOOD, **changes)


def pages(*ranges: tuple[int, int, int]) -> Placement:
    return changed(pages=tuple(Page(*numbers) for numbers in ranges))


SABOTAGES = {
    "slot missing": (
        changed(slots=SLOTS[:9] + SLOTS[10:]),
        "value 6: expected one slot for actions 10..13, got none with this interval",
    ),
    "slot twice": (
        changed(slots=(*SLOTS, dataclasses.replace(SLOTS[3], offset=480))),
        "value 1: expected no slot for actions 0..9, got one that the schedule does not ask for",
    ),
    "slot of a constant": (
        changed(slots=(*SLOTS, Slot(3, 512, 32, 0, 1))),
        "value 3: expected no slot for actions 0..0",
    ),
    "slot ends too early": (
        slot(4, last=6),
        "value 5: expected one slot for actions 0..6, got none with this interval",
    ),
    "slot begins too late": (
        slot(10, first=13),
        "value 11: expected one slot for actions 12..16, got none with this interval",
    ),
    "slot too small": (
        slot(10, nbytes=32),
        "buffer 11 of actions 12..16: expected 64 bytes, got 32",
    ),
    "overlap": (
        slot(6, offset=320),
        "buffers 6 and 8 overlap at [320, 352) during actions 3..5",
    ),
    "overlap in the last action": (
        slot(7, first=6),
        "buffers 5 and 9 overlap at [224, 256) during actions 6..6",
    ),
    "overlap with a parameter": (
        slot(10, offset=96),
        "buffers 4 and 11 overlap at [96, 128) during actions 12..16",
    ),
    "in-place pair apart": (
        slot(8, offset=480),
        "buffers 8 and 10: expected one offset of an in-place pair, got 352 and 480",
    ),
    "misaligned": (
        slot(11, offset=272),
        "buffer 5 of actions 17..18: expected an offset aligned to 32 bytes, got 272",
    ),
    "past the arena": (
        slot(11, offset=512),
        "buffer 5 of actions 17..18: expected bytes inside the arena [0, 544), got [512, 576)",
    ),
    "before the arena": (
        slot(0, offset=-64),
        "buffer 2 of actions 0..19: expected bytes inside the arena [0, 544), got [-64, 0)",
    ),
    "arena too large": (
        changed(arena_bytes=576),
        "arena: expected at most 544 bytes, got 576",
    ),
    "other alignment": (
        changed(alignment_bytes=16),
        "alignment: expected 32 bytes, got 16",
    ),
    "parameter moves": (
        changed(slots=(Slot(W, 0, 64, 0, 5), Slot(W, 480, 64, 5, END), *SLOTS[1:])),
        "value 2: expected one offset for the whole step, got [0, 480]",
    ),
    "scratch missing": (
        changed(scratch=SCRATCH[:1]),
        "action 12: expected 1 scratch areas, got 0",
    ),
    "scratch twice": (
        changed(scratch=(*SCRATCH, SCRATCH[1])),
        "action 12: expected 1 scratch areas, got 2",
    ),
    "scratch for nothing": (
        changed(scratch=(*SCRATCH, Scratch(19, 480, 32))),
        "action 19: expected 0 scratch areas, got 1",
    ),
    "scratch too small": (
        scratch(1, nbytes=32),
        "scratch of action 12: expected at least 33 bytes, got 32",
    ),
    "scratch overlaps": (
        scratch(0, offset=384),
        "scratch of action 3 and buffer 8 overlap at [384, 416) during actions 3..3",
    ),
    "scratch misaligned": (
        scratch(0, offset=420),
        "scratch of action 3: expected an offset aligned to 32 bytes, got 420",
    ),
    "scratch past the arena": (
        scratch(1, offset=512),
        "scratch of action 12: expected bytes inside the arena [0, 544), got [512, 576)",
    ),
    "page missing": (pages(), "value 6: expected 1 pages, got 0"),
    "page for nothing": (pages((R, 8, 1), (A, 0, 1)), "value 5: expected 0 pages, got 1"),
    "page twice": (pages((R, 8, 1), (R, 16, 1)), "value 6: expected 1 pages, got 2"),
    "page too small": (
        pages((R, 8, 0)),
        "page of value 6: expected room for 64 bytes, got 0 blocks of 512 bytes",
    ),
    "pages overlap": (
        pages((R, 8, 2), (A, 8, 1)),
        "pages of values 6 and 5 overlap at blocks [8, 9)",
    ),
    "page misaligned": (
        pages((R, 4, 1)),
        "page of value 6: expected a first block aligned to 8 blocks, got 4",
    ),
    "page in the header": (
        pages((R, 0, 1)),
        "page of value 6: expected blocks from 1 on, got [0, 1)",
    ),
    "page past the region": (
        pages((R, 16, 1)),
        "page of value 6: expected blocks before 9, got [16, 17)",
    ),
}


def test_good_plan_is_accepted():
    check(GOOD)


@pytest.mark.parametrize("name", SABOTAGES)
def test_sabotage(name):
    placement, message = SABOTAGES[name]
    with pytest.raises(InternalError, match="placement: " + re.escape(message)) as caught:
        check(placement)
    assert str(caught.value).endswith("; this is a bug in memory/pack.py")


def test_whole_message_of_an_overlap():
    with pytest.raises(InternalError) as caught:
        check(slot(6, offset=320), workspace={}, capacity_bytes=None)
    assert "buffers 6 and 8 overlap at [320, 352) during actions 3..5" in str(caught.value)
    with pytest.raises(InternalError) as caught:
        check(slot(10, offset=192))
    assert str(caught.value) == (
        "placement: buffers 9 and 11 overlap at [224, 256) during actions 12..16; "
        "this is a bug in memory/pack.py"
    )


@pytest.mark.parametrize("size", [32, None])
def test_size_below_the_dense_bytes(size):
    sizes = padded(tiny_graph()) | {A: size}
    if size is None:
        del sizes[A]
    with pytest.raises(
        InternalError, match=f"value 5: expected a size of at least 64 bytes, got {size}"
    ):
        check(GOOD, sizes=sizes)


@pytest.mark.parametrize("alignment", [0, -8])
def test_an_alignment_that_is_none_is_no_alignment(alignment):
    with pytest.raises(InternalError, match=f"alignment: expected {alignment} bytes"):
        check(changed(alignment_bytes=alignment), alignment_bytes=None)


def test_only_the_pair_itself_may_overlap():
    # gp over p is a takeover; the same bytes for the loss, which begins one action before, is not.
    with pytest.raises(InternalError, match=r"buffers 8 and 9 overlap at \[352, 384\)"):
        check(slot(7, offset=352))


def test_pair_may_not_overlap_outside_its_action():
    graph, sizes = tiny_graph(), padded(tiny_graph())
    actions = tuple(dataclasses.replace(a, in_place=()) for a in tiny_schedule().actions)
    schedule = Schedule((*actions[:9], free(P), *actions[9:]))
    placement = place(graph, schedule, sizes, {}, 32, None, 0)
    offset = next(s.offset for s in placement.slots if s.value == P)
    slots = tuple(
        dataclasses.replace(s, offset=offset) if s.value == GP else s for s in placement.slots
    )
    broken = dataclasses.replace(placement, slots=slots)
    with pytest.raises(InternalError, match=r"buffers 8 and 10 overlap .* actions 8\.\.9"):
        verify_placement(graph, schedule, sizes, {}, broken, None, None)


def test_many_problems_are_cut_short():
    with pytest.raises(InternalError) as caught:
        check(changed(slots=tuple(dataclasses.replace(s, offset=1) for s in SLOTS)))
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert re.match(r"placement: and \d+ more;", lines[-1])


def test_schedule_that_frees_twice_is_named():
    schedule = Schedule((*tiny_schedule().actions, free(X)))
    with pytest.raises(InternalError, match="action 20: expected value 0 resident, got none"):
        verify_placement(tiny_graph(), schedule, {}, {}, GOOD, None, None)


def painted_overlap(schedule: Schedule, placement: Placement) -> bool:
    """Paint each slot's bytes action by action; the oracle shares nothing with the verifier."""
    unit = placement.alignment_bytes
    areas = [(s.offset, s.nbytes, s.first, s.last, s.value) for s in placement.slots]
    areas += [(s.offset, s.nbytes, s.action, s.action + 1, -1) for s in placement.scratch]
    for index, action in enumerate(schedule.actions):
        paint = np.zeros(placement.arena_bytes // unit + 1, dtype=np.int64)
        taken = {value for _, value in action.in_place}
        for offset, nbytes, first, last, value in areas:
            ends_here = action.kind is ActionKind.COMPUTE and value in taken and last == index + 1
            if first <= index < last and not ends_here:
                paint[offset // unit : (offset + nbytes) // unit] += 1
        for out, value in action.in_place:  # what the successor does not cover stays its input's
            old = next(a for a in areas if a[4] == value and a[3] == index + 1)
            new = next(a for a in areas if a[4] == out and a[2] == index)
            if old[0] != new[0]:
                return True
            paint[(old[0] + new[1]) // unit : (old[0] + old[1]) // unit] += 1
        if paint.max() > 1:
            return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_moving_one_offset_is_caught_exactly_when_bytes_collide(seed):
    rng = random.Random(seed)
    graph = random_graph(seed)
    sizes = padded(graph)
    schedule = random_schedule(graph, seed, sizes)
    workspace = {node.id: rng.choice((0, 0, 40, 200)) for node in graph.nodes}
    placement = place(graph, schedule, sizes, workspace, 32, None, 0)
    assert not painted_overlap(schedule, placement)
    for _ in range(10):
        index = rng.randrange(len(placement.slots))
        old = placement.slots[index]
        room = placement.arena_bytes - old.nbytes
        moved = dataclasses.replace(old, offset=rng.randrange(0, room + 1, 32))
        slots = (*placement.slots[:index], moved, *placement.slots[index + 1 :])
        broken = dataclasses.replace(placement, slots=slots)
        if painted_overlap(schedule, broken):
            with pytest.raises(InternalError, match=r"overlap at \[|in-place pair"):
                verify_placement(graph, schedule, sizes, workspace, broken, None, None)
        else:
            verify_placement(graph, schedule, sizes, workspace, broken, None, None)
