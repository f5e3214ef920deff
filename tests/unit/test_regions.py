"""An arena of several parts: walls in the packing, rules of the verifier, what board files say."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
from pathlib import Path

import numpy as np
import pytest
from test_memory_pack import assert_apart, random_items
from test_memory_plans import padded, random_graph, random_schedule, tiny_graph
from test_verify_placement import GOOD, changed, check, scratch, slot

from poet_mcu.board.load import load_board
from poet_mcu.errors import BoardError, InternalError
from poet_mcu.ir.placement import ArenaPart, Placement, used_parts
from poet_mcu.ir.schedule import ActionKind
from poet_mcu.ir.text import placement_text
from poet_mcu.ir.verify_placement import verify_placement
from poet_mcu.memory.greedy import lowest_fit
from poet_mcu.memory.items import Instance, Item, Wall
from poet_mcu.memory.pack import pack, place
from poet_mcu.report.arena import arena_figure

CCM = """
extends = "qemu-m4-sd"
name = "mine"
title = "a board with RAM out of the DMA's reach"
[memory.sram]
size_bytes = 32_768
source = "a document"
[storage]
overlap = {overlap}
source = "a document"
[arena]
alignment_bytes = {alignment}
source = "a document"
[[arena.parts]]
name = "{name}"
origin = {origin}
size_bytes = {size}
bytes_per_cycle = 4
cached = {cached}
dma = {dma}
source = "a document"
[[arena.parts]]
name = "more"
origin = 0x1000_0000
size_bytes = 8_192
bytes_per_cycle = 4
cached = false
dma = true
source = "a document"
"""
FITS = {"name": "CCM", "origin": "0x2000_C000", "size": 16384, "cached": "false", "dma": "false",
        "overlap": "true", "alignment": 8}  # fmt: skip


def write(folder: Path, **given: object) -> Path:
    path = folder / "mine.toml"
    path.write_text(CCM.format(**(FITS | given)))
    return path


def walls_of(seed: int) -> list[Wall]:
    """Some borders, a run of homes behind one, and a range closed to paged items from 0 on."""
    rng = random.Random(seed)
    first, second = 32 * rng.randint(4, 16), 32 * rng.randint(17, 40)
    walls = [Wall(first, first + 32 * rng.randint(0, 3)), Wall(second, second)]
    walls.append(Wall(0, rng.choice((first, second)), paged_only=True))
    return sorted(walls, key=lambda wall: (wall.start, wall.end))


def some_paged(items: list[Item], seed: int) -> list[Item]:
    rng = random.Random(seed)
    return [dataclasses.replace(item, paged=rng.random() < 0.4) for item in items]


def is_clear(item: Item, offset: int, walls: list[Wall]) -> bool:
    own = [wall for wall in walls if item.paged or not wall.paged_only]
    return all(offset + item.height <= wall.start or offset >= wall.end for wall in own)


@pytest.mark.parametrize("seed", range(30))
def test_no_item_touches_a_wall_and_small_sets_are_packed_as_low_as_any_order_can(
    seed: int,
) -> None:
    walls = walls_of(seed)
    items = some_paged(random_items(seed, count=seed % 3 + 3, moments=6), seed)
    packing = pack(items, None, walls=walls)
    assert_apart(items, packing.offsets)
    assert all(map(is_clear, items, packing.offsets, itertools.repeat(walls)))
    instance = Instance(items, walls)
    orders = itertools.permutations(range(len(items)))
    heights = [instance.height_of(lowest_fit(instance, np.array(order))) for order in orders]
    assert packing.height == min(heights)


@pytest.mark.parametrize("seed", range(4))
def test_large_sets_keep_clear_of_walls_too(seed: int) -> None:
    walls = walls_of(seed)
    items = some_paged(random_items(seed + 100, count=40, moments=30), seed)
    packing = pack(items, None, walls=walls, node_budget=500)
    assert_apart(items, packing.offsets)
    assert all(map(is_clear, items, packing.offsets, itertools.repeat(walls)))
    assert packing == pack(items, None, walls=walls, node_budget=500)


PARTS = (ArenaPart("CCM", 0, 288, reached=False), ArenaPart("more", 288, 64, reached=True))

#: what is broken -> placement, what the verifier must say
SABOTAGES = {
    "another part than given": (
        changed(parts=(dataclasses.replace(PARTS[0], reached=True), PARTS[1])),
        "parts: expected ['CCM', 'more'] as given, got [ArenaPart(name='CCM', offset=0",
    ),
    "across a border": (
        dataclasses.replace(slot(11, offset=256), parts=PARTS),
        (
            "buffer 5 of actions 17..18: expected bytes on one side of the end of part CCM at 288, "
            "got [256, 320)"
        ),
    ),
    "scratch across a border": (
        dataclasses.replace(scratch(0, offset=320), parts=PARTS),
        (
            "scratch of action 3: expected bytes on one side of the end of part more at 352, "
            "got [320, 384)"
        ),
    ),
    "paged value out of reach": (
        dataclasses.replace(slot(9, offset=224), parts=PARTS),
        (
            "buffer 6 of actions 10..13: expected a paged value where the DMA reaches, got "
            "[224, 288) in part CCM"
        ),
    ),
}


def good() -> Placement:
    """As the hand-written placement, with the one slot moved that crosses a border."""
    return dataclasses.replace(slot(11, offset=352), parts=PARTS)


def test_a_placement_in_parts_is_accepted() -> None:
    check(good(), parts=PARTS)
    assert (GOOD.main_offset, good().main_offset) == (0, 352)


@pytest.mark.parametrize("name", SABOTAGES)
def test_each_rule_of_parts_is_noticed(name: str) -> None:
    placement, message = SABOTAGES[name]
    with pytest.raises(InternalError, match="placement: " + re.escape(message)):
        check(placement, parts=PARTS)


def test_parts_lie_side_by_side_and_aligned() -> None:
    for parts, said in (
        ((PARTS[1], PARTS[0]), "part more: expected an aligned offset 0, got 288"),
        ((ArenaPart("odd", 0, 40, reached=True), ArenaPart("b", 40, 64, reached=True)),
         "part b: expected an aligned offset 40, got 40"),
    ):  # fmt: skip
        with pytest.raises(InternalError, match=re.escape(said)):
            check(changed(parts=parts), parts=parts)


@pytest.mark.parametrize("seed", range(16))
def test_every_placement_in_parts_is_verified(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(seed)
    sizes = padded(graph)
    schedule = random_schedule(graph, seed, sizes)
    workspace = {node.id: rng.choice((0, 0, 40, 200)) for node in graph.nodes}
    small = ArenaPart("CCM", 0, 32 * rng.randint(1, 12), reached=False)
    parts = (small, ArenaPart("more", small.end, 32 * rng.randint(1, 12), reached=True))
    placement = place(graph, schedule, sizes, workspace, 32, None, 0, node_budget=300, parts=parts)
    verify_placement(graph, schedule, sizes, workspace, placement, None, None, parts=parts)
    moves = (ActionKind.PAGE_IN, ActionKind.PAGE_OUT)
    paged = {action.subject for action in schedule.actions if action.kind in moves}
    assert all(s.offset >= small.end for s in placement.slots if s.value in paged)


def test_dumps_and_pictures_name_the_parts() -> None:
    assert placement_text(good()).splitlines()[1:3] == [
        "part 'CCM' bytes [0, 288) never paged", "part 'more' bytes [288, 352) paged too",
    ]  # fmt: skip
    drawn = arena_figure(tiny_graph(), good(), 20).standalone()
    assert ">CCM below<" in drawn
    assert ">more below<" in drawn
    assert "below<" not in arena_figure(tiny_graph(), GOOD, 20).standalone()


def test_a_budget_takes_the_main_ram_first_and_then_the_parts_in_order(tmp_path: Path) -> None:
    board = load_board(write(tmp_path))
    assert board.ram_bytes == (32 + 16 + 8) * 1024
    assert board.parts_within(32768) == board.parts_within(32768 + 7) == ()
    assert board.parts_within(32768 + 1001) == (ArenaPart("CCM", 0, 1000, reached=False),)
    both = (ArenaPart("CCM", 0, 16384, reached=False), ArenaPart("more", 16384, 808, reached=True))
    assert board.parts_within(49152 + 808) == both
    assert [board.sram_within(n) for n in (1000, 32768, 50000)] == [1000, 32768, 32768]
    assert used_parts(both, 16384) == both[:1]
    assert used_parts(both, 17000) == (both[0], ArenaPart("more", 16384, 616, reached=True))
    assert board.most_paged_bytes == 32768 - board.runtime.stack_bytes - board.runtime.static_bytes
    polled = load_board(write(tmp_path, overlap="false"))
    assert all(part.reached for part in polled.parts_within(polled.ram_bytes))
    assert load_board("qemu-m4-sd").most_paged_bytes == 2**32


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"origin": "0x2000_7000"}, (r"arena\.parts\.0\.origin: expected a range apart from "
                                    r"memory\.sram, got overlap")),
        ({"origin": "0x1000_1000"}, (r"arena\.parts\.1\.origin: expected a range apart from "
                                    r"arena\.parts\.0, got overlap")),
        ({"origin": "0"}, r"arena\.parts\.0\.origin: expected above 0, the address of absent ope"),
        ({"origin": "0x2000_C004"}, r"arena\.parts\.0\.origin: expected a multiple of arena\.al"),
        ({"size": 16380}, r"arena\.parts\.0\.size_bytes: expected a multiple of .* 8, got 16380"),
        ({"size": 16}, r"arena\.parts\.0\.size_bytes: expected 1024\.\.4294967296, got 16; did y"),
        ({"name": "more"}, r"arena\.parts: expected every part's name once, got 'more' twice"),
        ({"cached": "true"}, r"arena\.alignment_bytes: expected a multiple of 32, the cache line"),
        ({"dma": "1"}, r"arena\.parts\.0\.dma: expected a valid boolean, got 1"),
    ],
)  # fmt: skip
def test_wrong_parts_of_the_arena_are_refused(
    given: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(BoardError, match=r"mine\.toml: " + said):
        load_board(write(tmp_path, **given))


def test_cached_parts_take_slots_of_whole_lines(tmp_path: Path) -> None:
    assert load_board(write(tmp_path, cached="true", alignment=32)).arena.alignment_bytes == 32
    assert load_board(write(tmp_path, cached="true", overlap="false")).arena.alignment_bytes == 8
