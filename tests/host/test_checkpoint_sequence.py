"""Checkpoints are counted modulo 2^32, from whatever number the card holds; a good one survives.

The program's arguments are at the head of ``storage/sequence_test.c``.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from test_storage import HELPERS, SANITIZE, compile_host, run

HALF, WHOLE = 2**31, 2**32
NUMBERS = (0, 1, 2, HALF - 2, HALF - 1, HALF, HALF + 1, WHOLE - 2, WHOLE - 1)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("sequence") / "sequence_test"
    return compile_host(output, [HELPERS / "sequence_test.c"], SANITIZE)


def counted(program: Path, first: str, second: str) -> tuple[str, list[tuple[int, int, int]]]:
    head, *lines = run(program, first, second)
    return head, [tuple(map(int, re.findall(r"=(\d+)", line))) for line in lines]


@pytest.mark.parametrize("start", NUMBERS)
def test_the_newest_is_the_one_written_last(program: Path, start: int) -> None:
    before = (start - 1) % WHOLE
    for words in ((str(start), "-"), ("-", str(start)), (str(start), str(before))):
        head, lines = counted(program, *words)
        assert head == f"first=ok sequence={start} step=0"
        assert lines == [((start + n) % WHOLE, (start + n) % WHOLE, n) for n in (1, 2, 3)]


@pytest.mark.parametrize("start", NUMBERS)
def test_a_damaged_newer_one_is_counted_and_written_over(program: Path, start: int) -> None:
    newer = (start + 1) % WHOLE
    head, lines = counted(program, f"{newer}!", str(start))
    assert head == f"first=ok sequence={start} step=0"
    assert lines == [((newer + n) % WHOLE, (newer + n) % WHOLE, n) for n in (1, 2, 3)]


def test_any_two_numbers_leave_the_newest_found(program: Path) -> None:
    """Forged cards too: nothing that is acknowledged may be passed over."""
    for first, second, harm in itertools.product(NUMBERS, NUMBERS, ("", "!")):
        _, lines = counted(program, f"{first}{harm}", str(second))
        assert [found for _, found, _ in lines] == [written for written, _, _ in lines]
        assert [step for _, _, step in lines] == [1, 2, 3]


def test_an_empty_card_counts_from_one(program: Path) -> None:
    head, lines = counted(program, "-", "-")
    assert head == "first=no whole checkpoint on the card sequence=0 step=0"
    assert lines == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]


WHOLE_WORDS = {"5", "6"}
WORDS = (*sorted(WHOLE_WORDS), "5!", "6!", "6?", "6~", "-", "x")
WRITES = 3  # of the smallest checkpoint


@pytest.mark.parametrize("misread", ["nothing", "data", "headers", "told"])
def test_a_whole_checkpoint_outlives_bad_reads_and_a_save_that_fails(
    program: Path, misread: str
) -> None:
    """The last good checkpoint may be read badly as often as the board tries; the save after that
    must not go over it, wherever that save ends."""
    for first, second, writes in itertools.product(WORDS, WORDS, range(WRITES + 1)):
        good = WHOLE_WORDS & {first, second}
        if not good:
            continue
        lines = run(program, first, second, misread, str(writes))
        if "saved=ok" in lines:
            assert writes == WRITES
            assert re.fullmatch(r"then=ok sequence=\d+ step=7", lines[-1]), (first, second, lines)
        else:
            kept = re.fullmatch(r"then=ok sequence=(\d+) step=0", lines[-1])
            assert kept, (first, second, writes, lines)
            assert kept[1] in good
