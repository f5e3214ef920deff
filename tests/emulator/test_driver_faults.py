"""The STM32F7's card driver with a card that fails: repeated where that helps, else told.

The real firmware on the emulated registers: two writes and two reads of five blocks and a tail.
"""

from __future__ import annotations

import bench
import pytest
from bench import Patch

from poet_mcu.emulator.fault import MachineFault

CRC = "CRC error on the card bus"
NO_CARD = "no SD card answers"
WRITE = "card could not write a block"
OK = ("ok", "ok")
SLOW = pytest.mark.slow  # seconds each
#: fault of the card -> what open, the writes and the reads say
ROWS = {
    "absent": (NO_CARD, (), ()),
    "command-crc:0+": (CRC, (), ()),
    "command-index:0+": (CRC, (), ()),
    "command-crc:3": ("ok", OK, OK),
    "command-crc:30": ("ok", OK, OK),
    "command-index:30": ("ok", OK, OK),
    "read-crc:2": ("ok", OK, OK),
    "read-crc:2+": ("ok", OK, (CRC, CRC)),
    "write-crc:2": ("ok", OK, OK),
    "write-crc:2+": ("ok", (CRC, CRC), OK),
    "write-error:1": ("ok", OK, OK),
    "write-error:1+": ("ok", (WRITE, WRITE), OK),
}
EVERY_DAY = (
    "absent",
    "command-crc:0+",
    "command-index:0+",
    "read-crc:2+",
    "write-crc:2+",
)


@pytest.mark.parametrize(
    "fault", [name if name in EVERY_DAY else pytest.param(name, marks=SLOW) for name in ROWS]
)
def test_a_card_that_fails(fault: str) -> None:
    run = bench.run(bench.firmware(), [fault])
    opened, writes, reads = ROWS[fault]
    found = run.values
    assert found["open"] == [opened]
    assert (tuple(found.get("write", ())), tuple(found.get("read", ()))) == (writes, reads)
    if writes == reads == OK:
        assert found["same"] == ["1", "1"]


#: what the board's file says of each pin that the driver bench uses
PINS = {
    "D0": "{PORT_C, 8u, 12u}",
    "D1": "{PORT_C, 9u, 12u}",
    "D2": "{PORT_C, 10u, 12u}",
    "D3": "{PORT_C, 11u, 12u}",
    "CK": "{PORT_C, 12u, 12u}",
    "CMD": "{PORT_D, 2u, 12u}",
    "TX": "{PORT_A, 9u, 7u}",
}


@pytest.mark.parametrize("pin", PINS)
def test_each_pin_is_the_boards(pin: str) -> None:
    """Next to it, the machine finds the right one unconnected (UM1907, DS10916 table 12)."""
    right = PINS[pin]
    port, number, function = right.strip("{}").split(", ")
    wrong = f"{{{port}, {int(number[:-1]) ^ 1}u, {function}}}"
    moved = Patch("stm32f746g_disco/board.c", right, wrong)
    letter = port[-1]
    with pytest.raises(MachineFault, match=f"{pin}: expected P{letter}{number[:-1]} in alternate"):
        bench.run(bench.firmware((moved,)))


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["DC", "IC"])
def test_without_a_cache_the_bytes_are_the_same(cache: str) -> None:
    off = Patch("stm32f7/core.c", f"    SCB_CCR |= SCB_CCR_{cache};\n", "")
    run = bench.run(bench.firmware((off,)))
    assert run.values["same"] == run.values["kept"] == ["1", "1"]
