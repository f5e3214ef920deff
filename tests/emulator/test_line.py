"""The emulator's process from outside: when it tells of its line, what it says of wrong words."""

from __future__ import annotations

import bench
import pytest

from poet_mcu.emulator.card_faults import parse_fault
from poet_mcu.emulator.line import AnnouncedLine
from poet_mcu.emulator.sdcard_registers import find_kind
from poet_mcu.errors import InputError


@pytest.mark.parametrize("first", ["send", "wait"])
def test_the_line_is_told_of_when_the_firmware_uses_it_and_once(first: str) -> None:
    told: list[str] = []
    line = AnnouncedLine(bench.Console(coming=b"ab"), told.append)
    assert told == []
    uses = {"send": lambda: line.send(b"x"), "wait": lambda: line.wait(0.0)}
    uses[first]()
    assert told == [line.where]
    for use in uses.values():
        use()
    assert line.receive() == b"ab"
    assert told == [line.where]


@pytest.mark.parametrize("text", ["read-crcs:1", "removed:x", "busy:1:", ""])
def test_a_wrong_fault_is_told_with_those_there_are(text: str) -> None:
    with pytest.raises(InputError, match=r"^--fault: expected KIND, .* read-timeout, .*got '"):
        parse_fault(text)


def test_a_wrong_card_is_told_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"^--kind: expected one of sdsc1, .*got 'sdhx'; .*sdhc"):
        find_kind("sdhx")
