"""Pieces of calibration: lines through transfers, tails, board files written, time by operator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poet_mcu.bench.case import Case
from poet_mcu.bench.recurrent import every_case
from poet_mcu.bench.select import board_cases
from poet_mcu.bench.table import place
from poet_mcu.board.load import list_boards, load_board
from poet_mcu.board.write import board_toml
from poet_mcu.link.protocol import Trace
from poet_mcu.link.selftest import CaseResult
from poet_mcu.pipeline.actions import by_operator, compared
from poet_mcu.pipeline.calibrate import line, percentiles, time_parts, with_part_rows
from poet_mcu.pipeline.selftest import SelfTestBuild, arena_of
from poet_mcu.pipeline.target import BuildFolder


@given(st.floats(1e-5, 1e-2), st.floats(1e5, 1e8))
def test_a_line_comes_back_from_its_points(latency: float, rate: float) -> None:
    times = {str(size): [latency + size / rate] * 3 for size in (512, 4096, 32768)}
    found_latency, found_rate = line(times)
    assert found_latency == pytest.approx(latency, rel=1e-3, abs=1e-9)
    assert found_rate == pytest.approx(rate, rel=1e-3)


def test_a_line_that_bends_the_wrong_way_has_no_negative_latency() -> None:
    latency, rate = line({"512": [1e-6], "4096": [1e-3]})
    assert latency == 0.0
    assert rate > 0


def test_single_slow_transfers_are_in_the_tail_and_not_in_the_median() -> None:
    seconds = [1e-3] * 98 + [5e-2, 0.2]
    assert percentiles(seconds) == {"median": 1e-3, "p99": 0.2, "worst": 0.2}
    assert line({"512": seconds, "1024": seconds})[0] == pytest.approx(1e-3)
    assert percentiles([2.0]) == {"median": 2.0, "p99": 2.0, "worst": 2.0}


@pytest.mark.parametrize("name", list_boards())
def test_a_written_board_is_the_board(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    path = tmp_path / "mine.toml"
    path.write_text(board_toml(board, "two\nlines"), encoding="utf-8")
    assert load_board(path) == board


@pytest.mark.parametrize("kib", [24, 61, 4096])
def test_every_kernel_that_fits_is_among_the_calls(kib: int) -> None:
    cases = board_cases(kib * 1024)
    assert all(place(case).end <= kib * 1024 for case in cases)
    assert len({case.name for case in cases}) == len(cases)
    fitting = {c.kernel.function for c in every_case() if place(c).end <= kib * 1024}
    assert {case.kernel.function for case in cases} == fitting


ROWS = [
    {"op": "conv2d", "name": "a", "runs": 1, "seconds": 2.0},
    {"op": "page_out", "name": "a", "runs": 1, "seconds": 0.5},
    {"op": "free", "name": "x", "runs": 1, "seconds": 0.0},
    {"op": "page_out", "name": "a", "runs": 0, "seconds": 0.0},
    {"op": "conv2d", "name": "b", "runs": 1, "seconds": 1.0},
]


def test_time_by_operator_is_that_of_its_actions() -> None:
    assert by_operator(ROWS) == [
        {"op": "conv2d", "runs": 2, "predicted_s": 3.0},
        {"op": "page_out", "runs": 1, "predicted_s": 0.5},
    ]
    trace = [Trace(4, 500), Trace(0, 100), Trace(1, 110), Trace(3, 200)]
    conv, page = compared(ROWS, trace, 100.0)
    assert (conv["measured_s"], conv["ratio"]) == (4.0, pytest.approx(4 / 3))
    assert (page["measured_s"], page["ratio"]) == (1.0, 2.0)
    # A lost frame: its time goes to the next action that was seen.
    conv, page = compared(ROWS, [Trace(0, 100), Trace(3, 200), Trace(4, 500)], 100.0)
    assert (conv["measured_s"], page["measured_s"]) == (4.0, 1.0)
    assert compared(ROWS[2:4], [Trace(1, 5)], 1.0)[0]["ratio"] is None


class Timer:
    """A self-test whose kernels take a cycle an operand byte, and twice that in part 2."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases, self.asked = cases, set[tuple[str, int]]()

    def case(self, number: int, repeats: int, part: int) -> CaseResult:
        self.asked.add((self.cases[number].name, part))
        return CaseResult(repeats * place(self.cases[number]).end * (2 if part == 2 else 1), 0)


def test_kernels_are_timed_in_the_parts_that_have_room_for_them() -> None:
    board = load_board("rpi-pico")
    cases = board_cases(arena_of(board))
    built = SelfTestBuild(BuildFolder(Path(), {}, {}, board), cases, arena_of(board))
    timer = Timer(cases)
    found = time_parts(timer, built, 1.0, lambda _: None)
    banks, scratch = (part.name for part in board.ram_parts)
    assert timer.asked == {(case.name, 1) for case in cases if case.name in found[banks]} | {
        (case.name, 2) for case in cases if place(case).end <= 8192
    }
    assert len(found[banks]) > len(found[scratch]) > 10
    assert all(found[scratch][name] == 2 * found[banks][name] for name in found[scratch])
    made = with_part_rows(board, found, cases, "a log of a rig")
    rows = [part.cost for part in made.ram_parts]
    assert set(rows[1]) <= set(rows[0])
    assert all("Operands in" in row.source for row in rows[1].values())


def test_a_board_with_ram_of_one_kind_has_no_parts_to_time() -> None:
    board = load_board("qemu-m7-sd")
    built = SelfTestBuild(BuildFolder(Path(), {}, {}, board), (), 0)
    assert time_parts(Timer(()), built, 1.0, lambda _: None) == {}
    assert with_part_rows(board, {}, (), "a log of a rig") == board
