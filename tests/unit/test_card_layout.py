"""Checkpoint slots on the card: where they are placed, and what the checker of it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import models
import numpy as np
import plans
import pytest

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import Graph, Role
from poet_mcu.ir.placement import CheckpointSlots
from poet_mcu.ir.program import PageRange
from poet_mcu.ir.verify_card import verify_card
from poet_mcu.memory.slots import place_slots
from poet_mcu.pipeline.dataset import Dataset
from poet_mcu.pipeline.position import Position

FIRST = 9


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = plans.prepared(models.mlp(2), tmp_path_factory.mktemp("g"), optimizer="adam")
    return made.train


def test_slots_hold_parameters_and_states_behind_the_pages(graph: Graph) -> None:
    slots = place_slots(graph, FIRST, 8)
    kept = graph.with_role(Role.PARAMETER, Role.STATE)
    assert len(kept) == 12  # two layers, weight and bias, each with two means
    assert set(slots.values) == {value.id for value in kept}
    assert (slots.first_block, slots.blocks) == (16, 16)  # 13 blocks, rounded up
    assert slots.end_block == 48
    verify_card(graph, (), slots, 64, slots.end_block)


PAGE = PageRange(0, 1, 8, 8, 4096)
SABOTAGE: dict[str, tuple[dict[str, object], str]] = {
    "a value is missing": ({"values": (1,)}, "expected the values"),
    "a value twice": ({"values": None}, "expected the values"),
    "too small": ({"blocks": 12}, "expected at least 13 blocks each, got 12"),
    "over the header": ({"first_block": 0}, "expected them after the header"),
    "over a page": ({"first_block": 15}, "page 0: expected its end by the slots' block 15"),
    "past the region": ({"first_block": 17}, "expected their end in the region of 48 blocks"),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_every_rule_notices_its_sabotage(graph: Graph, name: str) -> None:
    changes, message = SABOTAGE[name]
    good = place_slots(graph, FIRST, 8)
    verify_card(graph, (PAGE,), good, 64, 48)
    if "values" in changes and changes["values"] is None:
        changes = {"values": (*good.values, good.values[0])}
    with pytest.raises(InternalError, match=message):
        verify_card(graph, (PAGE,), replace(good, **changes), 64, 48)


def test_the_region_ends_where_32_bits_do(graph: Graph) -> None:
    good = place_slots(graph, FIRST, 8)
    verify_card(graph, (), good, 2**32 - 48, 48)
    with pytest.raises(InternalError, match="region: expected its end by block 4294967296"):
        verify_card(graph, (), good, 2**32 - 47, 48)


def test_end_of_two_slots() -> None:
    assert CheckpointSlots(10, 3, ()).end_block == 16


def test_position_survives_its_bytes_and_tells_other_data(tmp_path: Path) -> None:
    data = Dataset(np.ones((4, 2), np.float32), np.zeros(4, np.int32), 2)
    for lr in (None, 0.125):
        position = Position.of(data, 2**64 + 3, lr)
        assert len(position.pack()) == 16
        assert Position.unpack(position.pack()) == position
        assert (position.seed, position.lr) == (3, lr)
    crc = Position.of(data, 0, None).data_crc
    others = (
        replace(data, batch=1),
        replace(data, x=data.x.reshape(2, 4)),
        replace(data, y=data.y.astype(np.float32)),
        replace(data, x=data.x * 2),
    )
    assert len({crc, *(Position.of(other, 0, None).data_crc for other in others)}) == 5
