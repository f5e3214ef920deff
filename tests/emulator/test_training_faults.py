"""docs/faults.md over the SDMMC driver: whole training steps on the emulated board, row by row.

Told is what the table says, for the SPI driver too: the scenarios are those of host/faults. After
each the same weights come back, to the bit. The driver's limits are a hundredth of its own.
"""

from __future__ import annotations

import functools
import re
import sys
from dataclasses import dataclass, field

import bench
import pytest
from bench import FIRMWARE, HASTE, LIMITS_US, ROOT

sys.path.insert(0, str(ROOT / "tests" / "host"))
import power_build

HOST = ROOT / "tests" / "host"
KERNELS = sorted(FIRMWARE.glob("kernels/*.c"))
TRAIN = [path for path in sorted(FIRMWARE.glob("train/*.c")) if path.name != "main.c"]
STORAGE = [FIRMWARE / "storage" / f"{name}.c" for name in (*power_build.RUNTIME, "sd_csd")]
#: what the host's end of the line has in place of the port
LINE = ("getc", "putc")
PORT = ("init", "micros", "cycles", "cycle_hz", "flush", "bdev", "stack_free_bytes",
        "stack_bytes", "reset")  # fmt: skip
#: two steps with all their waits: a block that is read four times in vain, a card that stays busy
LIMIT_US = 100_000 + (4 * LIMITS_US["READ"] + LIMITS_US["BUSY"]) // HASTE


def renamed(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"poet_port_{name}=session_{name}" for name in names)


@functools.cache
def image() -> bytes:
    """The scenarios with a small model, its parameters and Adam's states at home on the card."""
    folder = bench.folder() / "scenarios"
    folder.mkdir()
    power_build.generate(
        folder, (17, 9, 3), board="stm32f7", optimizer="adam", lr=0.01, home_parameters="card"
    )
    speaks = [*TRAIN, FIRMWARE / "link" / "link.c"]
    host = [HOST / "power" / "host_session.c"]
    quiet = [*STORAGE, *KERNELS, *sorted(folder.glob("*.c")), HOST / "faults" / "scenario.c"]
    sources = {
        (*bench.HASTY, "SESSION_BYTES=8192"): [
            *bench.port_sources(), *quiet, ROOT / "tests" / "emulator" / "training_faults_main.c",
        ],
        renamed(LINE): speaks,
        (*renamed((*LINE, *PORT)), "SESSION_BYTES=8192"): host,
    }  # fmt: skip
    objects = [
        bench.compiled(source, None, defines, folder)
        for defines, group in sources.items()
        for source in group
    ]
    return bench.linked(objects, "scenarios")


@dataclass
class Board:
    """A board with a card of some kind, on which one scenario runs after another."""

    kind: str
    made: bench.Run = field(init=False)
    seen: int = 0

    def __post_init__(self) -> None:
        self.made = bench.start(image(), (), self.kind)
        self._until("next", ())

    def run(self, moment: str, faults: tuple[str, ...]) -> dict[str, str]:
        """What was said; ``us`` from the fault to what was told of it."""
        bench.go_on(self.made, byte=moment.encode())
        return self._until("next", faults)

    def _until(self, wanted: str, faults: tuple[str, ...]) -> dict[str, str]:
        """Give the firmware the card that it asks for until it says ``wanted``."""
        said: dict[str, str] = {}
        while True:
            bench.until_idle(self.made)
            text = self.made.console.said.decode("ascii")
            fresh, self.seen = text[self.seen :], len(text)
            lines = fresh.splitlines()
            assert "FAIL" not in lines, text[-2000:]
            said |= dict(line.split("=") for line in lines if "=" in line)
            if lines[-1] == wanted:
                return said
            health, power = said.pop("insert").split()
            self._give(faults if health == "faulty" else (), power)

    def _give(self, faults: tuple[str, ...], power: str) -> None:
        self.made.machine.card_faults.replace([bench.parse_fault(text) for text in faults])
        if power != "kept":
            self.made.machine.card.power_up()
        self.made.console.coming = b"\n"


@functools.cache
def board(kind: str) -> Board:
    return Board(kind)


@dataclass(frozen=True)
class Row:
    """How a row of docs/faults.md is made here: when, and which faults; where it is told."""

    when: str
    fault: str
    where: str = "action"
    kind: str = "sdhc"
    model: str = ""  # where it is another one than over SPI


ROWS = {
    "absent": Row("o", "absent", "outside"),
    "removed in a step": Row("s", "removed:0"),
    "removed in a checkpoint": Row("c", "removed:0", "checkpoint"),
    "removed in a restore": Row("r", "removed:0", "checkpoint"),
    "line held low": Row("s", "busy:0+:1000"),
    "write-protected, step": Row("s", "write-error:0+"),
    "write-protected, checkpoint": Row("c", "write-error:0+", "checkpoint"),
    "CRC error once, read": Row("s", "read-crc:0"),
    "CRC error always, read": Row("s", "read-crc:0+"),
    "CRC error once, write": Row("s", "write-crc:0"),
    "CRC error always, write": Row("s", "write-crc:0+"),
    "CRC error always, checkpoint": Row("c", "write-crc:0+", "checkpoint"),
    "stuck transfer": Row("s", "read-timeout:0+"),
    "busy for 0.5 s": Row("s", "busy:0:0.005"),
    "busy for 4 s, step": Row("s", "busy:0:0.04"),
    # CMD0 ends what the card programs; over SPI a busy card cannot be spoken to.
    "busy for 4 s, checkpoint": Row("c", "busy:0:0.04", "checkpoint", model="whole"),
    "write error in a page": Row("s", "write-error:1+"),
    "write error in a checkpoint": Row("c", "write-error:2+", "checkpoint"),
    "read error in a page": Row("s", "read-error:0+"),
    "read error in the only checkpoint": Row(
        "r", " ".join(f"read-error:{n}" for n in range(4)), "checkpoint"
    ),
    "bit rot in a page": Row("s", "rot:0"),
    "bit rot in a checkpoint's data": Row("c", "rot:1+", "checkpoint"),
    "power-up in the middle: reads": Row("o", "awake-reading"),
    "power-up in the middle: writes": Row("o", "awake-writing"),
    "power-up in the middle: programming": Row("o", "awake-programming"),
    "SDSC1": Row("s", "removed:9999", kind="sdsc1"),
    "SDSC": Row("s", "removed:9999", kind="sdsc"),
    "SDXC": Row("s", "removed:9999", kind="sdxc"),
}
DAILY = ("removed in a step",)


def documented() -> dict[str, tuple[str, str]]:
    """Row of docs/faults.md -> what is told, what the model is."""
    text = (ROOT / "docs" / "faults.md").read_text("utf-8")
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| (whole|spoiled|unreadable) \|$", text, re.MULTILINE
    )
    return {name: (told, model) for name, told, model in rows}


@pytest.mark.parametrize(
    "name", [n if n in DAILY else pytest.param(n, marks=pytest.mark.slow) for n in ROWS]
)
def test_row(name: str) -> None:
    row = ROWS[name]
    try:
        found = board(row.kind).run(row.when, tuple(row.fault.split()))
    except BaseException:
        board.cache_clear()  # it stands in the middle of something
        raise
    told, model = documented()[name]
    assert (found["told"], found["model"]) == (told, row.model or model)
    assert found["end"] == "same"
    assert int(found["us"]) < LIMIT_US
    if found["told"] != "ok":
        assert found["where"] == row.where
