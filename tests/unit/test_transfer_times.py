"""Tables of transfers by size: how they price, what deadlines take of them, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.board.write import board_toml
from poet_mcu.cost import (
    knows_slow_transfers,
    page_in_price,
    page_out_price,
    slow_page_in_s,
    slow_page_out_s,
)
from poet_mcu.errors import BoardError

TABLE = """
extends = "qemu-m7-sd"
name = "mine"
title = "a board whose card was timed"
[storage.read_times]
transfer_bytes = {sizes}
median_s = {median}
p99_s = {p99}
worst_s = {worst}
source = "a log of a rig"
[storage.write_times]
transfer_bytes = [512, 1024]
median_s = [4e-3, 4e-3]
estimated = true
source = "a data sheet"
[storage]
read_latency_s = 1.0
read_throughput_bytes_per_s = 100_000
write_throughput_bytes_per_s = 100_000
source = "a log of a rig"
"""
FITS = {"sizes": [512, 4096, 8192], "median": [1e-3, 2e-3, 8e-3], "p99": [1e-3, 0.04, 0.05],
        "worst": [0.1, 0.2, 0.3]}  # fmt: skip


def board(folder: Path, **given: object) -> Board:
    path = folder / "mine.toml"
    path.write_text(TABLE.format(**(FITS | given)))
    return load_board(path)


def test_medians_count_between_sizes_and_the_throughput_goes_on_behind(tmp_path: Path) -> None:
    mine = board(tmp_path)
    for nbytes, seconds in (
        (1, 1e-3), (512, 1e-3), (2304, 1.5714285e-3), (4096, 2e-3), (6144, 5e-3), (8192, 8e-3),
        (18192 - 8, 8e-3 + 0.10240), (0, 0.0),
    ):  # fmt: skip
        price = page_in_price(nbytes, mine)
        assert price.seconds == pytest.approx(seconds, rel=1e-6)
        watts = mine.power.active_w + mine.power.sd_read_w
        assert price.joules == pytest.approx(seconds * watts, rel=1e-6)
    assert page_out_price(1024 + 512, mine).seconds == pytest.approx(4e-3 + 512 / 100_000)


def test_slow_transfers_are_those_that_the_table_knows(tmp_path: Path) -> None:
    mine = board(tmp_path)
    assert knows_slow_transfers(mine)
    assert slow_page_in_s(4096, mine) == pytest.approx(0.04)
    assert slow_page_in_s(6144, mine) == pytest.approx(0.045)
    assert slow_page_out_s(512, mine) == page_out_price(512, mine).seconds
    plain = load_board("qemu-m7-sd")
    assert not knows_slow_transfers(plain)
    assert slow_page_in_s(4096, plain) == page_in_price(4096, plain).seconds
    assert not knows_slow_transfers(board(tmp_path, p99=[], worst=[]))


def test_a_table_is_written_and_read_back(tmp_path: Path) -> None:
    mine = board(tmp_path)
    path = tmp_path / "again.toml"
    path.write_text(board_toml(mine, "again"))
    assert load_board(path) == mine


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sizes": [1024, 4096, 8192]}, r"transfer_bytes: expected a first size of at most 512,"),
        ({"sizes": []}, r"transfer_bytes: expected a first size of at most 512, got none"),
        ({"sizes": [512, 512, 8192]}, r"transfer_bytes: expected rising sizes, got 512 behind 512"),
        ({"median": [1e-3]}, r"median_s: expected 3 numbers as transfer_bytes has, got 1"),
        ({"p99": [1e-3, 1e-3, 9e-3]}, r"p99_s: expected at least median_s 0\.002 at 4096 bytes, g"),
        ({"worst": [1.0, 0.01, 1.0]}, r"worst_s: expected at least p99_s 0\.04 at 4096 bytes, got"),
        ({"median": [1, 2, 800]}, r"median_s\.2: expected 0\.\.10, got 800; did you mean 0\.8"),
        ({"p99": '["a"]'}, r"p99_s\.0: expected a valid number, got 'a'; correct the value"),
    ],
)  # fmt: skip
def test_lopsided_tables_are_refused(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"mine\.toml: storage\.read_times\." + said):
        board(tmp_path, **given)


def test_unknown_and_missing_keys_of_a_table_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "qemu-m7-sd"\n[storage.read_times]\np95_s = [1.0]\n'
                    '[storage]\nsource = "a rig\'s log"\n')  # fmt: skip
    with pytest.raises(BoardError) as caught:
        load_board(path)
    said = str(caught.value)
    assert "storage.read_times.p95_s: expected one of estimated, median_s, p99_s, source" in said
    assert "got 'p95_s'; did you mean 'p99_s'?" in said
    assert "storage.read_times.transfer_bytes: expected this key, got none" in said
