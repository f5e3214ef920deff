"""The tests of the self-test firmware fail for what is broken: memories and cards with faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_storage import ARGUMENT, ROOT, SANITIZE, compile_host, run, values

HELPER = Path(__file__).with_name("selftest") / "selftest_test.c"
TESTED = [ROOT / "firmware" / "selftest" / name for name in ("memory.c", "card.c")]
WRITE, READ, KEEP, CHECKSUM = 1, 2, 4, 8
BOTH = WRITE | READ
FAIL, TEAR_SILENT, FLIP, MISDIRECT = 1, 3, 4, 5
CRC = "CRC error on the card bus"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("selftest") / "selftest_test"
    return compile_host(out, [HELPER, *TESTED], [*SANITIZE, f"-I{ROOT / 'firmware'}"])


def card(program: Path, *words: object) -> dict[str, str]:
    return values(run(program, "card", *map(str, words)))


def test_a_good_memory_passes(program: Path) -> None:
    assert values(run(program, "memory", "good"))["bad"] == "0"


def test_an_address_line_that_does_nothing_is_found_at_its_first_word(program: Path) -> None:
    found = values(run(program, "memory", "aliased"))
    assert int(found["bad"]) > 0
    assert (found["offset"], found["wrong"]) == ("0", "1")


@pytest.mark.parametrize("nbytes", [4, 512, 516, 4096])
@pytest.mark.parametrize("offset", [32, 96])
def test_a_good_card_passes(program: Path, nbytes: int, offset: int) -> None:
    found = card(program, 3, nbytes, offset, BOTH, 1)
    assert found["status"] == "ok"
    assert (found["bad"], found["guards"], found["kept"]) == ("0", "0", "0")
    assert (found["timed"], found["sum"]) == ("11", "0")


def test_transfers_follow_one_another_and_are_summed(program: Path) -> None:
    found = card(program, 0, 1024, 32, BOTH | CHECKSUM, 32)
    assert (found["status"], found["bad"], found["sum"]) == ("ok", "0", "1")
    # Only reading: what is there is not what was expected.
    assert int(card(program, 0, 1024, 32, READ, 2)["bad"]) > 1900


def test_what_was_in_the_blocks_is_there_again(program: Path) -> None:
    assert card(program, 63, 512, 32, BOTH | KEEP, 1)["kept"] == "1"
    assert card(program, 10, 1000, 32, BOTH | KEEP, 1)["kept"] == "1"
    # Also when the write (operation 1, after the read of what is kept) fails.
    found = card(program, 10, 1000, 32, BOTH | KEEP, 1, FAIL, 1)
    assert (found["status"], found["kept"]) == (CRC, "1")


@pytest.mark.parametrize(
    ("kind", "operation", "bad"),
    [(TEAR_SILENT, 0, 1024), (FLIP, 0, 1), (FLIP, 1, 1), (TEAR_SILENT, 1, 1024)],
)
def test_wrong_bytes_are_counted(program: Path, kind: int, operation: int, bad: int) -> None:
    found = card(program, 8, 1024, 32, BOTH, 1, kind, operation)
    assert found["status"] == "ok"
    # By chance a torn byte may be the right one: one in 256.
    assert bad * 0.97 <= int(found["bad"]) <= bad
    assert found["first"] == ("5" if kind == FLIP else "0")


@pytest.mark.parametrize("operation", [0, 1])
def test_a_failing_transfer_is_reported(program: Path, operation: int) -> None:
    assert card(program, 8, 1024, 32, BOTH, 1, FAIL, operation)["status"] == CRC


def test_a_byte_beside_the_buffer_is_noticed(program: Path) -> None:
    assert card(program, 8, 1000, 32, BOTH, 1, 0, 0, "careless")["guards"] == "1"


@pytest.mark.parametrize(
    "words",
    [
        (0, 0, 32, BOTH, 1),  # no bytes
        (0, 512, 16, BOTH, 1),  # no room for the guard in front
        (0, 8192, 32, BOTH, 1),  # larger than the arena
        (0, 8192 - 63, 32, BOTH, 1),  # no room for the guard behind
        (0, 512, 8192, BOTH, 1),
        (0, 512, 32, BOTH, 0),  # no transfer
        (0, 500, 32, BOTH, 2),  # several that are no whole blocks
        (0, 512, 32, BOTH | KEEP, 2),
        (0, 4096, 32, BOTH | KEEP, 1),  # no room for what is kept
    ],
)
def test_orders_that_do_not_fit_are_refused(program: Path, words: tuple[int, ...]) -> None:
    found = card(program, *words)
    assert (found["status"], found["kept"]) == (ARGUMENT, "1")
