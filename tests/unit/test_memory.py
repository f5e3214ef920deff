"""Lifetimes, the live peak, pages, and placements of whole plans."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
    compute,
    free,
    padded,
    random_graph,
    random_schedule,
    tiny_graph,
    tiny_schedule,
)

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import DType, Graph, Node, Phase, Role, TensorType, Value
from poet_mcu.ir.placement import Page, Placement
from poet_mcu.ir.schedule import ActionKind, Schedule
from poet_mcu.ir.verify_placement import verify_placement
from poet_mcu.memory.lifetimes import lifetimes, live_peak_bytes, live_profile
from poet_mcu.memory.pack import arena_to_peak_ratio, place
from poet_mcu.memory.pages import place_pages, region_end_block


def tiny_lives(alignment: int = 32):
    graph = tiny_graph()
    return lifetimes(graph, tiny_schedule(), padded(graph), TINY_WORKSPACE, alignment)


def test_intervals_are_those_of_the_slot_docstring():
    lives = tiny_lives()
    assert lives.actions == 20
    assert lives.home == ((W, 64), (M, 64))
    assert [(r.value, r.first, r.last) for r in lives.residencies] == [
        (X, 0, 20),
        (LABEL, 0, 10),
        (A, 0, 7),
        (R, 1, 6),
        (P, 3, 9),
        (LOSS, 7, 20),
        (GP, 8, 15),
        (R, 10, 14),
        (11, 12, 17),
        (A, 17, 19),
    ]


def test_takeover_is_linked_and_scratch_is_padded():
    lives = tiny_lives()
    links = {r.value: r.takes_over for r in lives.residencies if r.takes_over is not None}
    assert links == {GP: 4}
    assert lives.scratch == ((3, 64), (12, 64))


def test_profile_by_hand():
    # 128 home; x 64; t 32 until 9; a 64 in 0..6; r 64 in 1..5; p 64 in 3..8, then gp over it.
    assert live_profile(tiny_lives())[:10] == [288, 352, 352, 480, 416, 416, 352, 320, 320, 320]


def test_peak_counts_home_and_workspace():
    graph, schedule, sizes = tiny_graph(), tiny_schedule(), padded(tiny_graph())
    assert live_peak_bytes(graph, schedule, sizes, TINY_WORKSPACE, 32) == 480
    assert live_peak_bytes(graph, schedule, sizes, {}, 32) == 416
    assert live_peak_bytes(graph, schedule, sizes, {3: 200}, 32) == 320 + 224
    assert live_peak_bytes(graph, Schedule(()), sizes, {}, 32) == 128


@pytest.mark.parametrize("size", [33, -32, None])
def test_sizes_must_be_padded(size):
    sizes = {**padded(tiny_graph()), A: size}
    if size is None:
        del sizes[A]
    with pytest.raises(
        InternalError, match=rf"^sizes: value 5: expected a multiple of 32 bytes, got {size};"
    ):
        place(tiny_graph(), tiny_schedule(), sizes, {}, 32, None, 0)


def test_invalid_schedules_are_named():
    graph, sizes = tiny_graph(), padded(tiny_graph())
    with pytest.raises(InternalError, match="action 1: expected value 5 not resident"):
        lifetimes(graph, Schedule((compute(0), compute(0))), sizes, {}, 32)
    with pytest.raises(InternalError, match="action 0: expected value 5 resident, got none"):
        lifetimes(graph, Schedule((free(A),)), sizes, {}, 32)


def test_home_values_lie_lowest_in_id_order():
    graph, sizes = tiny_graph(), padded(tiny_graph())
    placement = place(graph, tiny_schedule(), sizes, TINY_WORKSPACE, 32, None, 1)
    assert [(s.value, s.offset, s.first, s.last) for s in placement.slots[:2]] == [
        (W, 0, 0, 20),
        (M, 64, 0, 20),
    ]
    assert min(s.offset for s in placement.slots[2:]) == 128
    assert placement.arena_bytes == 480  # the live peak of this plan can be reached
    offsets = {s.value: s.offset for s in placement.slots}
    assert offsets[GP] == offsets[P]


def test_ratio():
    assert arena_to_peak_ratio(Placement((), (), (), 90, 1), 60) == pytest.approx(1.5)
    assert arena_to_peak_ratio(Placement((), (), (), 0, 1), 0) == pytest.approx(1.0)


def test_schedule_without_actions_holds_home_only():
    values = tuple(Value(i, f"v{i}", TensorType((8,)), Role.STATE) for i in range(3))
    graph = Graph("still", values, (), (1,))
    placement = place(graph, Schedule(()), padded(graph), {}, 32, None, 0)
    assert placement.arena_bytes == 96
    verify_placement(graph, Schedule(()), padded(graph), {}, placement, 96, None)


def test_capacity_below_the_peak_still_gives_the_best():
    graph, sizes = tiny_graph(), padded(tiny_graph())
    placement = place(graph, tiny_schedule(), sizes, TINY_WORKSPACE, 32, 100, 0)
    assert placement.arena_bytes == 480
    with pytest.raises(InternalError, match="arena: expected at most 100 bytes, got 480"):
        verify_placement(graph, tiny_schedule(), sizes, TINY_WORKSPACE, placement, 100, None)


def chain_graph(*elements: int) -> Graph:
    """x -> v1 -> v2 ..., one node each; the last value is the output."""
    values = [Value(0, "x", TensorType((elements[0],)), Role.INPUT)]
    nodes = []
    for i, count in enumerate(elements[1:], start=1):
        values.append(Value(i, f"v{i}", TensorType((count,)), Role.ACTIVATION))
        nodes.append(Node(i - 1, "op", (i - 1,), (i,), {}, Phase.FORWARD))
    return Graph("chain", tuple(values), tuple(nodes), (len(values) - 1,))


def test_chain_of_takeovers_shares_one_offset_and_gives_its_tail_back():
    graph = chain_graph(32, 16, 8)
    schedule = Schedule((compute(0, (1, 0)), compute(1, (2, 1))))
    sizes = padded(graph)
    lives = lifetimes(graph, schedule, sizes, {}, 32)
    assert live_profile(lives) == [128, 64]
    placement = place(graph, schedule, sizes, {1: 64}, 32, None, 0)
    assert {slot.offset for slot in placement.slots} == {0}
    assert placement.arena_bytes == 128  # the scratch of node 1 lies on what x gave back
    verify_placement(graph, schedule, sizes, {1: 64}, placement, 128, None)


@pytest.mark.parametrize("bytes_", [1, 3, 31, 33])
@pytest.mark.parametrize("alignment", [4, 8, 32])
def test_odd_sizes_stay_aligned_and_apart(bytes_, alignment):
    # Scratch and values of odd sizes side by side: two roundings that differ would show here.
    tensor = TensorType((bytes_,), DType.U8)
    roles = (Role.INPUT, Role.STATE, Role.ACTIVATION, Role.ACTIVATION)
    values = tuple(Value(i, f"v{i}", tensor, role) for i, role in enumerate(roles))
    nodes = (
        Node(0, "op", (0, 1), (2,), {}, Phase.FORWARD),
        Node(1, "op", (2,), (3,), {}, Phase.FORWARD),
    )
    graph = Graph("odd", values, nodes, (3,))
    schedule = Schedule((compute(0), free(0), compute(1), free(2)))
    sizes, workspace = padded(graph, alignment), {0: bytes_, 1: bytes_}
    placement = place(graph, schedule, sizes, workspace, alignment, None, 0)
    verify_placement(
        graph, schedule, sizes, workspace, placement, None, None, alignment_bytes=alignment
    )
    starts = [s.offset for s in (*placement.slots, *placement.scratch)]
    assert all(start % alignment == 0 for start in starts)
    assert placement.arena_bytes == live_peak_bytes(graph, schedule, sizes, workspace, alignment)
    assert placement.arena_bytes == 4 * sizes[0]


def test_pages_are_contiguous_aligned_and_of_paged_values_only():
    schedule = tiny_schedule()
    assert place_pages(schedule, {R: 64}, 1, 8) == (Page(R, 8, 1),)
    assert place_pages(Schedule(()), {}, 5, 8) == ()
    pages = place_pages(
        Schedule(schedule.actions[2:3] + (type(schedule.actions[0])(ActionKind.PAGE_OUT, A),) * 2),
        {R: 513, A: 512},
        1,
    )
    assert pages == (Page(R, 1, 2), Page(A, 3, 1))
    assert region_end_block(pages, 1) == 4
    assert region_end_block((), 7) == 7


@pytest.mark.parametrize(("first", "alignment"), [(-1, 1), (0, 0)])
def test_pages_refuse_a_bad_region(first, alignment):
    with pytest.raises(InternalError, match="pages: expected first block >= 0 and alignment >= 1"):
        place_pages(tiny_schedule(), {R: 64}, first, alignment)


def place_and_verify(seed: int) -> float:
    rng = random.Random(seed)
    graph = random_graph(seed)
    sizes = padded(graph)
    schedule = random_schedule(graph, seed, sizes)
    workspace = {n.id: rng.choice((1, 3, 31, 33, 100)) for n in graph.nodes if rng.random() < 0.4}
    alignment = rng.choice((1, 8))
    pages = place_pages(schedule, sizes, 1, alignment)
    placement = place(graph, schedule, sizes, workspace, 32, None, 1, alignment)
    assert placement.pages == pages
    verify_placement(
        graph,
        schedule,
        sizes,
        workspace,
        placement,
        placement.arena_bytes,
        region_end_block(pages, 1),
        page_first_block=1,
        page_alignment_blocks=alignment,
        alignment_bytes=32,
    )
    peak = live_peak_bytes(graph, schedule, sizes, workspace, 32)
    assert placement.arena_bytes >= peak
    assert placement == place(graph, schedule, sizes, workspace, 32, None, 1, alignment)
    return arena_to_peak_ratio(placement, peak)


def test_random_plans_are_placed_near_their_peak():
    ratios = [place_and_verify(seed) for seed in range(120)]
    print(f"plans: worst {max(ratios):.4f}, mean {sum(ratios) / len(ratios):.4f}")  # noqa: T201
    assert max(ratios) <= 1.1
    assert sum(ratios) / len(ratios) <= 1.01


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(10_000, 1_000_000))
def test_any_random_plan_is_placed(seed):
    assert place_and_verify(seed) >= 1.0


@pytest.mark.slow
def test_a_thousand_random_plans():
    ratios = [place_and_verify(seed) for seed in range(2000, 3000)]
    print(f"plans: worst {max(ratios):.4f}, mean {sum(ratios) / len(ratios):.4f}")  # noqa: T201
    assert sum(ratios) / len(ratios) <= 1.005
