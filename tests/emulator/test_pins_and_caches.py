"""The pins and caches of the STM32F7's card driver, held against the machine."""

from __future__ import annotations

import bench
import pytest
from bench import Patch

from poet_mcu.emulator.fault import MachineFault

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
