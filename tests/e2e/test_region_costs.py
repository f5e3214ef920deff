"""Cycles by part of RAM: in board files, in predictions, and how the self-test finds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_cli_regions import CCM, DIGITS, TINY, board_file

from poet_mcu.bench.select import board_cases
from poet_mcu.bench.table import place
from poet_mcu.board.load import load_board
from poet_mcu.board.write import board_toml
from poet_mcu.cost import node_cycles, placed_s
from poet_mcu.errors import BoardError
from poet_mcu.link import status
from poet_mcu.link.selftest import SelfTest
from poet_mcu.link.transport import BoardFault
from poet_mcu.ops.operator import Cost
from poet_mcu.pipeline.selftest import build_selftest
from poet_mcu.pipeline.target import connect

#: ten times as slow there
SLOW = """
[arena.parts.cost.update]
cycles_per_mac = 0
cycles_per_element = {element}
cycles_per_transcendental = 0
cycles_per_call = 1000
source = "a log of a rig"
"""


def test_a_part_prices_the_families_it_knows_by_the_share_of_its_bytes(tmp_path: Path) -> None:
    path = board_file(tmp_path, CCM + SLOW.format(element=70))
    board = load_board(path)
    ccm = board.arena.parts[0]
    update, other = Cost("update", elements=100), Cost("dense_fwd", macs=100)
    assert node_cycles(update, board, ccm) == 1000 + 70 * 100
    assert node_cycles(other, board, ccm) == node_cycles(other, board)
    plain, there = (node_cycles(update, board, part) for part in (None, ccm))
    for nbytes, cycles in (
        ({}, plain),
        ({"": 8}, plain),
        ({"CCM": 8}, there),
        ({"CCM": 8, "": 24}, there / 4 + plain * 0.75),
    ):
        assert placed_s(update, board, nbytes) * board.core.clock_hz == pytest.approx(cycles)
    again = tmp_path / "again.toml"
    again.write_text(board_toml(board, "again"))
    assert load_board(again) == board


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cost.update", "cost.updates", r"cost\.updates: expected one of conv_fwd, .*'update'\?"),
        ("per_element", "per_elment", r"cost\.update\.cycles_per_elment: expected one of cycles_p"),
        ("{element}", "3e6", r"cost\.update\.cycles_per_element: expected 0\.\.1000000, got 30000"),
        ("source", "sauce", r"cost\.update\.source: expected this key, got none"),
    ],
)
def test_wrong_rows_of_a_part_are_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = board_file(tmp_path, CCM + SLOW.replace(old, new).format(element=70))
    with pytest.raises(BoardError, match=r"mine\.toml: arena\.parts\.0\." + said):
        load_board(path)


def test_predicted_times_follow_the_placement(run: Any, tmp_path: Path) -> None:
    """Parameters lie in the part, what is paged does not: updates pay its price, or a share."""
    path, out = board_file(tmp_path, CCM + SLOW.format(element=10_000)), tmp_path / "out"
    told = run("build", DIGITS, "--board", path, *TINY, "--no-fuse", "-o", out)
    assert told.code == 0, told.err
    rows = json.loads((out / "actions.json").read_text())
    updates_s = sum(row["seconds"] for row in rows if row["op"] == "sgd")
    clock_hz = load_board(path).core.clock_hz
    in_the_part_s = 10_000 * sum(_parameters(out)) / clock_hz
    assert 0.3 * in_the_part_s < updates_s < 1.1 * in_the_part_s
    assert sum(row["seconds"] for row in rows if row["op"] == "conv2d") < 0.1 * updates_s


def _parameters(out: Path) -> list[int]:
    tensors = json.loads((out / "plan.json").read_text())["checkpoint"]["tensors"]
    return [tensor["nbytes"] // 4 for tensor in tensors]


@pytest.mark.qemu
def test_the_self_test_works_in_each_part(tmp_path: Path) -> None:
    board = load_board(board_file(tmp_path, CCM))
    every = board_cases(20_000)
    small = [case for case in every if place(case).end <= 4096][:3]
    large = next(case for case in every if place(case).end > 16384)
    built = build_selftest(board, tmp_path / "st", only=[case.name for case in (*small, large)])
    with connect(built.folder, None) as link:
        test = SelfTest(link)
        found = test.memory()
        assert found.nbytes == built.tested_bytes == built.arena_bytes + 16384
        assert found.bad_words == 0
        for number, case in enumerate(built.cases):
            known = test.case(number, 1)
            if case.name != large.name:
                assert test.case(number, 1, part=1).crc == known.crc
        for part, number in ((2, 0), (1, built.cases.index(large))):
            with pytest.raises(BoardFault) as caught:
                test.case(number, 1, part=part)
            assert caught.value.answer.status == status.E_ARG
