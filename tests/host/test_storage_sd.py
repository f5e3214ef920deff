"""The SD driver against a card model written from the SD specification, on the host."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_storage import HELPERS, SANITIZE, compile_host, run, values

SOURCES = [HELPERS / f"sd_card_{part}.c" for part in ("model", "bus", "test")]
NO_CARD = "no SD card answers"
CARD_TYPE = "card type or voltage not supported"
STATE = "not allowed in this state"
CRC = "CRC error on the card bus"
BUSY = "card stayed busy too long"
READ = "card could not read a block"
WRITE = "card could not write a block"
KINDS = [("sdsc1", 4096), ("sdsc", 4096), ("sdhc", 4096), ("sdsc", 4194304), ("sdxc", 268435456)]
OFF, IN_READ, IN_MULTI_READ, IN_WRITE, IN_MULTI_WRITE, AWAITS_TOKEN, BUSY_WRITING = range(7)
ALL_WELL = {
    "open": "ok",
    "write": "ok",
    "read": "ok",
    "same": "1",
    "write_one": "ok",
    "read_one": "ok",
    "same_one": "1",
    "violations": "0 ",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_host(tmp_path_factory.mktemp("sd") / "sd_test", SOURCES, SANITIZE)


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without sanitizers: sweeps over every byte, where a wait costs a million exchanges."""
    return compile_host(tmp_path_factory.mktemp("sd") / "sd_fast", SOURCES, ["-O2"])


def session(program: Path, kind: str, blocks: int, *options: str) -> dict[str, str]:
    return values(run(program, "session", kind, str(blocks), *options))


def assert_all_well(found: dict[str, str], retries: int = 0) -> None:
    expected = ALL_WELL | {"retries": str(retries)}
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(("kind", "blocks"), KINDS)
def test_each_kind_of_card(program: Path, kind: str, blocks: int) -> None:
    found = session(program, kind, blocks)
    assert_all_well(found)
    assert found["blocks"] == str(blocks)
    assert found["pre_erase"] == "4"


@pytest.mark.parametrize(
    "options",
    [
        ["response_delay=0"],
        ["response_delay=8"],
        ["garbage=1"],
        ["garbage=7", "response_delay=8"],
        ["data_delay=0"],
        ["data_delay=1000"],
        ["power_up_us=250000"],
        ["init_us=1000000"],
        ["init_us=1900000", "power_up_us=900000"],
        ["busy_us=1000"],
        ["busy_us=250000"],
        ["busy_us=590000"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("kind", ["sdsc", "sdhc"])
def test_slow_and_odd_but_correct_cards(program: Path, kind: str, options: list[str]) -> None:
    assert_all_well(session(program, kind, 4096, *options))


@pytest.mark.parametrize(
    "start", [IN_READ, IN_MULTI_READ, IN_WRITE, IN_MULTI_WRITE, AWAITS_TOKEN, BUSY_WRITING]
)
@pytest.mark.parametrize("kind", ["sdsc1", "sdsc", "sdhc"])
def test_open_from_the_middle_of_a_transfer(program: Path, kind: str, start: int) -> None:
    found = session(program, kind, 4096, f"start={start}")
    expected = {key: value for key, value in ALL_WELL.items() if key != "violations"}
    assert {key: found.get(key) for key in expected} == expected
    assert int(found["us"]) < 2_000_000


@pytest.mark.parametrize("floating", [0xFF, 0x00])
def test_no_card(program: Path, floating: int) -> None:
    found = session(program, "sdhc", 4096, "absent=1", f"floating={floating}")
    assert found["open"] == NO_CARD
    assert found["blocks"] == "0"
    assert found["write"] == found["read"] == STATE
    assert 1_000_000 <= int(found["us"]) < 3_000_000


@pytest.mark.parametrize(
    ("kind", "options"),
    [("mmc", []), ("sduc", []), ("sdhc", ["low_voltage=1"]), ("sdhc", ["refuses_voltage=1"])],
)
def test_cards_that_are_not_supported(program: Path, kind: str, options: list[str]) -> None:
    found = session(program, kind, 4096, *options)
    assert found["open"] == CARD_TYPE
    assert found["blocks"] == "0"


def test_card_that_never_gets_ready(program: Path) -> None:
    found = session(program, "sdhc", 4096, "init_us=3000000")
    assert found["open"] == "timed out"
    assert 2_000_000 <= int(found["us"]) < 2_500_000


@pytest.mark.parametrize("damaged", [1, 2, 3])
@pytest.mark.parametrize("after", [1, 2, 4])
def test_damaged_reads_are_repeated(program: Path, damaged: int, after: int) -> None:
    """The CSD is the first data block, so damage begins with the block after it.

    The card prepares a block ahead, so one retry may get past two damaged blocks.
    """
    options = f"damaged_blocks={damaged}", f"damage_after={after}"
    found = session(program, "sdhc", 4096, *options)
    retries = int(found["retries"])
    assert 1 <= retries <= damaged
    assert_all_well(found, retries)


def test_always_damaged_reads_are_an_error(program: Path) -> None:
    found = session(program, "sdhc", 4096, "damaged_blocks=100000", "damage_after=1")
    assert found["open"] == found["write"] == found["write_one"] == "ok"
    assert found["read"] == found["read_one"] == CRC
    assert found["retries"] == "6"
    assert found["violations"] == "0 "


def test_damaged_capacity_is_an_error(program: Path) -> None:
    found = session(program, "sdhc", 4096, "damaged_blocks=100000")
    assert found["open"] == CRC
    assert found["blocks"] == "0"


@pytest.mark.parametrize("after", [0, 1, 3, 4])
def test_refused_writes_are_repeated(program: Path, after: int) -> None:
    options = "refused_blocks=1", f"refuse_after={after}"
    assert_all_well(session(program, "sdsc", 4096, *options), retries=1)


def test_always_refused_writes_are_an_error(program: Path) -> None:
    found = session(program, "sdhc", 4096, "refused_blocks=100000")
    assert found["write"] == found["write_one"] == CRC
    assert found["read"] == "ok"
    assert found["retries"] == "6"
    assert found["violations"] == "0 "


# CMD0 and ACMD41 have waits of their own; ACMD23 is a hint, without consequence.
@pytest.mark.parametrize("command", [8, 59, 58, 16, 9, 18, 12, 17, 25, 24, 13])
def test_a_command_misheard_once_is_repeated(program: Path, command: int) -> None:
    found = session(program, "sdhc", 4096, "misheard=1", f"misheard_command={command}")
    assert_all_well(found, retries=1)


@pytest.mark.parametrize(
    ("command", "verb"),
    [(8, "open"), (59, "open"), (9, "open"), (25, "write"), (18, "read"), (12, "write_one"),
     (24, "write_one"), (17, "read_one")],
)  # fmt: skip
def test_a_command_always_misheard_is_an_error_of_the_bus(
    program: Path, command: int, verb: str
) -> None:
    found = session(program, "sdhc", 4096, "misheard=100000", f"misheard_command={command}")
    assert found[verb] == CRC


def test_another_echo_is_asked_for_again(program: Path) -> None:
    assert_all_well(session(program, "sdhc", 4096, "misheard_echoes=1"), retries=1)
    assert session(program, "sdhc", 4096, "misheard_echoes=100000")["open"] == CRC


@pytest.mark.parametrize("option", ["write_error_at", "program_error_at"])
@pytest.mark.parametrize("block", [20, 22, 23])
def test_write_errors_are_told(program: Path, option: str, block: int) -> None:
    found = session(program, "sdhc", 4096, f"{option}={block}")
    assert found["write"] == WRITE
    assert found["write_one"] == found["read_one"] == "ok"
    assert found["same_one"] == "1"
    assert found["violations"] == "0 "


@pytest.mark.parametrize("option", ["write_error_at", "program_error_at"])
def test_write_errors_of_a_single_block_are_told(program: Path, option: str) -> None:
    found = session(program, "sdhc", 4096, f"{option}=30")
    assert found["write"] == found["read"] == "ok"
    assert found["write_one"] == WRITE


@pytest.mark.parametrize("block", [20, 23])
def test_read_errors_are_told(program: Path, block: int) -> None:
    found = session(program, "sdhc", 4096, f"read_error_at={block}")
    assert found["write"] == "ok"
    assert found["read"] == READ
    assert found["read_one"] == "ok"


def test_busy_for_ever_is_told_in_time(program: Path) -> None:
    found = session(program, "sdhc", 4096, "busy_us=4000000")
    assert found["open"] == "ok"
    assert found["write"] == BUSY
    assert found["read"] == STATE
    assert 600_000 <= int(found["us"]) < 1_000_000


@pytest.mark.parametrize(("kind", "blocks"), KINDS)
def test_every_size_at_both_ends(program: Path, kind: str, blocks: int) -> None:
    found = values(run(program, "sizes", kind, str(blocks)))
    assert found["sizes"] == "6300"
    assert found["retries"] == "0"
    assert found["violations"] == "0 "


@pytest.mark.parametrize(
    ("kind", "stride"),
    [
        ("sdhc", 1),
        ("sdsc", 7),
        ("sdsc1", 7),
        pytest.param("sdsc", 1, marks=pytest.mark.slow),
        pytest.param("sdsc1", 1, marks=pytest.mark.slow),
    ],
)
def test_any_disturbed_byte_is_never_silent(fast: Path, kind: str, stride: int) -> None:
    """Every byte of a session disturbed in five ways: all of them recover, none is wrong.

    Byte-addressed cards differ in the argument of a command alone: each seventh byte daily.
    """
    found = values(run(fast, f"sweep/{stride}", kind, "4096"))
    runs, session_bytes = int(found["runs"]), int(found["session_bytes"])
    assert runs == 5 * -(-session_bytes // stride) + 1
    assert session_bytes > 4_000
    assert found["clean"] == str(runs)
    assert found["errors"] == found["stuck"] == "0"


def test_some_disturbed_bytes_under_sanitizers(program: Path) -> None:
    found = values(run(program, "sweep/31", "sdhc", "4096", "busy_us=300", "garbage=2"))
    assert int(found["runs"]) > 500
    assert found["stuck"] == "0"


def test_removal_at_any_byte(fast: Path) -> None:
    found = values(run(fast, "removal/1", "sdhc", "4096"))
    assert found["runs"] == "4200"
    assert 0 < int(found["finished"]) < 1500
    assert int(found["longest_us"]) < 4_000_000


def test_removal_with_a_bus_that_floats_low(fast: Path) -> None:
    found = values(run(fast, "removal/97", "sdsc", "4096", "floating=0"))
    assert int(found["runs"]) == 44
    assert int(found["longest_us"]) < 10_000_000
