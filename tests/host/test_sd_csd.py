"""The capacity in a card's CSD register: every form, and registers that contradict themselves."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from poet_mcu.link import status

ROOT = Path(__file__).resolve().parents[2]
OK, CARD_TYPE, CARD_CRC = (
    status.OK,
    *(s.value for s in status.STATUSES if s.name in ("POET_E_CARD_TYPE", "POET_E_CARD_CRC")),
)
Capacity = Callable[[bytes, bool], tuple[int, int]]


@pytest.fixture(scope="module")
def capacity(tmp_path_factory: pytest.TempPathFactory) -> Capacity:
    library = tmp_path_factory.mktemp("csd") / "csd.so"
    source = ROOT / "firmware" / "storage" / "sd_csd.c"
    include = f"-I{ROOT / 'firmware' / 'include'}"
    subprocess.run(["gcc", "-shared", "-fPIC", include, source, "-o", library], check=True)
    function = ctypes.CDLL(str(library)).poet_sd_capacity

    def call(csd: bytes, block_addressed: bool) -> tuple[int, int]:
        blocks = ctypes.c_uint32(0)
        told = function(csd, ctypes.c_bool(block_addressed), ctypes.byref(blocks))
        return told, blocks.value

    return call


def register(**fields: tuple[int, int]) -> bytes:
    """Fields as (lowest bit, number) in 128 bits, the highest first."""
    return sum(number << low for low, number in fields.values()).to_bytes(16, "big")


def version_1(size: int, multiplier: int, length: int) -> bytes:
    """SD Physical Layer Simplified Specification 5.3.2."""
    return register(size=(62, size), multiplier=(47, multiplier), length=(80, length))


def version_2(size: int) -> bytes:
    """The same, 5.3.3."""
    return register(structure=(126, 1), size=(48, size))


@pytest.mark.parametrize("length", [9, 10, 11])
@pytest.mark.parametrize("multiplier", range(8))
@pytest.mark.parametrize("size", [0, 1, 1000, 4095])
def test_version_1(capacity: Capacity, size: int, multiplier: int, length: int) -> None:
    nbytes = (size + 1) * 2 ** (multiplier + 2) * 2**length
    assert capacity(version_1(size, multiplier, length), False) == (OK, nbytes // 512)


@pytest.mark.parametrize("size", [0, 7, 0xFFFF, 0x3FFFFE])
def test_version_2(capacity: Capacity, size: int) -> None:
    assert capacity(version_2(size), True) == (OK, (size + 1) * 1024)


def test_the_largest_card_gives_up_its_last_block(capacity: Capacity) -> None:
    assert capacity(version_2(0x3FFFFF), True) == (OK, 2**32 - 1)


@pytest.mark.parametrize("length", [0, 8, 12, 15])
def test_blocks_of_another_length_are_no_card(capacity: Capacity, length: int) -> None:
    assert capacity(version_1(100, 3, length), False)[0] == CARD_TYPE


@pytest.mark.parametrize("structure", [2, 3])
@pytest.mark.parametrize("block_addressed", [False, True])
def test_a_later_structure_is_no_card(
    capacity: Capacity, structure: int, block_addressed: bool
) -> None:
    assert capacity(register(structure=(126, structure)), block_addressed)[0] == CARD_TYPE


def test_a_register_that_contradicts_the_ocr_is_damage(capacity: Capacity) -> None:
    assert capacity(version_1(100, 3, 9), True)[0] == CARD_CRC
    assert capacity(version_2(100), False)[0] == CARD_CRC
