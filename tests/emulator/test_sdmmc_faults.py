"""Each fault of the card ends in recovery or in an error that names it, in the driver's limits.

The real driver moves three blocks and a tail each way over the emulated SDMMC by DMA; then the
card is healthy, and open and the same transfers must work. The driver's limits are a hundredth of
its own here; the slow tests have its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import bench
import pytest
from _pytest.mark.structures import ParameterSet
from bench import HASTE, LIMITS_US

OK = "ok"
NO_CARD = "no SD card answers"
CARD_TYPE = "card type or voltage not supported"
STATE = "not allowed in this state"
TIMEOUT = "timed out"
CRC = "CRC error on the card bus"
READ = "card could not read a block"
WRITE = "card could not write a block"
BUSY = "card stayed busy too long"
MAIN = "faults_main.c"
RETRIES = 3
#: identification at 400 kHz, five times, and transfers at 24 MHz, beside the waits
OPEN_US, MOVE_US = 40_000, 1_000
#: of one session: open 20 commands, write 4, read 3 and looks at a card that programs; 4 blocks
#: each way
COMMANDS, BLOCKS = 34, 4


@dataclass(frozen=True)
class Session:
    """What one session said: statuses, the longest each took, and whether the bits came back."""

    open: str
    write: str
    read: str
    us: tuple[int, int, int]
    same: bool
    opened: bool

    @property
    def told(self) -> tuple[str, str, str]:
        return self.open, self.write, self.read


def sessions(said: bytes) -> list[Session]:
    lines = [line.split("=") for line in said.decode("ascii").splitlines() if "=" in line]
    found = []
    for at in range(0, len(lines), 8):
        (_, opened), (_, open_us), (_, write), (_, write_us), (_, read), (_, read_us) = lines[
            at : at + 6
        ]
        us = int(open_us), int(write_us), int(read_us)
        (_, same), (_, still) = lines[at + 6 : at + 8]
        found.append(Session(opened, write, read, us, same == "1", still == "1"))
    return found


def run(*faults: str, kind: str = "sdhc", haste: int = HASTE, heal: bool = True) -> Session:
    """A session under ``faults``; afterwards all must be well. It was in time."""
    defines = bench.HASTY if haste == HASTE else ()
    made = bench.start(bench.firmware((), defines, MAIN), faults, kind)
    bench.until_idle(made, limit_s=900.0)
    assert made.console.said.endswith(b"heal\n")
    (first,) = sessions(made.console.said)
    init_us, read_us, busy_us = (us // haste for us in LIMITS_US.values())
    assert first.us[0] < init_us + OPEN_US
    assert first.us[1] < busy_us + MOVE_US
    assert first.us[2] < (1 + RETRIES) * read_us + MOVE_US
    if heal:
        bench.go_on(made)
        assert sessions(made.console.said)[1].told == (OK, OK, OK)
        assert sessions(made.console.said)[1].same
    return first


@pytest.mark.parametrize("kind", ["sdsc1", "sdsc", "sdhc", "sdxc"])
def test_each_kind_of_card(kind: str) -> None:
    found = run(kind=kind, heal=False)
    assert found.told == (OK, OK, OK)
    assert found.same


@pytest.mark.parametrize("kind", ["mmc", "sduc"])
def test_cards_that_are_not_supported(kind: str) -> None:
    assert run(kind=kind, heal=False).told == (CARD_TYPE, STATE, STATE)


def daily(faults: Iterable[str], every: int) -> list[ParameterSet]:
    """Some of them every day, the others with the slow tests."""
    return [
        pytest.param(fault, marks=[pytest.mark.slow] * (at % every > 0))
        for at, fault in enumerate(faults)
    ]


#: recovered: the transfers work and their bits are right
RECOVERED = [
    "awake-reading", "awake-writing", "awake-programming",
    "read-crc:0", "read-crc:1", "read-crc:3", "read-timeout:1", "read-timeout:3", "read-error:1",
    "write-crc:0", "write-crc:2", "write-crc:3", "write-error:1", "write-error:3",
    "busy:1:0.005", "busy:3:0.005",
]  # fmt: skip


@pytest.mark.parametrize("fault", daily(RECOVERED, 2))
def test_what_happens_once_is_recovered(fault: str) -> None:
    found = run(fault, heal=False)
    assert found.told == (OK, OK, OK)
    assert found.same


#: fault -> what open, write and read tell of it, whether the device is open then
TOLD = {
    "absent": (NO_CARD, STATE, STATE, False),
    "no-response:0+": (NO_CARD, STATE, STATE, False),
    "command-crc:0+": (CRC, STATE, STATE, False),
    "command-lost:0+": (NO_CARD, STATE, STATE, False),
    "never-ready": (TIMEOUT, STATE, STATE, False),
    "removed:1": (OK, NO_CARD, STATE, False),
    "removed:5": (OK, OK, NO_CARD, False),
    "pulled:1": (OK, NO_CARD, STATE, False),
    "pulled:5": (OK, OK, NO_CARD, False),
    "no-response:22+": (OK, NO_CARD, STATE, False),
    "command-crc:22+": (OK, CRC, STATE, False),
    "read-crc:1+": (OK, OK, CRC, True),
    "read-timeout:1+": (OK, OK, TIMEOUT, True),
    "read-error:1+": (OK, OK, READ, True),
    "write-crc:1+": (OK, CRC, OK, True),
    "write-error:1+": (OK, WRITE, OK, True),
    "busy:1:0.04": (OK, BUSY, STATE, False),
    "busy:3:0.04": (OK, BUSY, STATE, False),
    "command-index:0+": (CRC, STATE, STATE, False),
}


@pytest.mark.parametrize("fault", daily(TOLD, 2))
def test_what_lasts_is_told(fault: str) -> None:
    found = run(fault)
    assert (*found.told, found.opened) == TOLD[fault]
    assert not found.same


def well(found: Session) -> bool:
    return found.told == (OK, OK, OK) and found.same


def swept(kind: str, numbers: range) -> list[int]:
    """Those of ``numbers`` at which one such fault is not recovered from."""
    return [n for n in numbers if not well(run(f"{kind}:{n}", heal=False))]


COMMAND_KINDS = ("no-response", "command-crc", "command-lost", "command-index")


@pytest.mark.parametrize("kind", COMMAND_KINDS)
def test_some_command_disturbed_once(kind: str) -> None:
    assert swept(kind, range(4 * COMMAND_KINDS.index(kind), COMMANDS, 12)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMMAND_KINDS)
def test_any_command_disturbed_once(kind: str) -> None:
    assert swept(kind, range(COMMANDS)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["read-crc", "read-timeout", "read-error", "write-crc", "write-error"]
)
def test_any_block_disturbed_once(kind: str) -> None:
    assert swept(kind, range(BLOCKS)) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2 * BLOCKS))
@pytest.mark.parametrize("kind", ["removed", "pulled"])
def test_removal_at_any_block(kind: str, number: int) -> None:
    found = run(f"{kind}:{number}")
    assert found.told == ((OK, NO_CARD, STATE) if number < BLOCKS else (OK, OK, NO_CARD))
    assert not found.opened


@pytest.mark.slow
def test_power_lost_before_any_command() -> None:
    """The card is begun with again, or it is told; later only open can find out what is there.

    A card that has forgotten CMD8 while the driver repeats ACMD41 never gets ready.
    """
    for number in range(COMMANDS):
        found = run(f"reset:{number}")
        told = {NO_CARD, TIMEOUT} & set(found.told)
        assert well(found) or (told and not found.opened), number


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "told"),
    {
        "busy:1:0.5": (OK, OK, OK),
        "busy:1:4": (OK, BUSY, STATE),
        "read-timeout:1+": (OK, OK, TIMEOUT),
        "removed:1": (OK, NO_CARD, STATE),
        "never-ready": (TIMEOUT, STATE, STATE),
    }.items(),
)
def test_within_the_limits_that_are_built(fault: str, told: tuple[str, str, str]) -> None:
    assert run(fault, haste=1).told == told
