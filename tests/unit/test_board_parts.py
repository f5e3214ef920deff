"""Parts of memories, planning-only boards, ways of flashing: what a board file may say and not."""

from __future__ import annotations

from pathlib import Path

import pytest

from poet_mcu.board.load import buildable, list_boards, load_board
from poet_mcu.cost.compute import node_price
from poet_mcu.cost.paging import page_in_price, page_out_price
from poet_mcu.errors import BoardError
from poet_mcu.ops.operator import Cost

PLANNING = ("poet-jetson-tx2", "poet-m4f", "poet-mkr1000", "poet-rpi", "poet-rpi-nocache")
PART = """
extends = "qemu-m7-sd"
[[memory.sram.parts]]
name = "low"
origin = {low}
size_bytes = 32_768
bytes_per_cycle = {rate}
cached = false
dma = {dma}
source = "a document"
[[memory.sram.parts]]
name = "high"
origin = 0x2000_8000
size_bytes = {size}
bytes_per_cycle = 4
cached = true
dma = true
source = "a document"
[memory.sram]
source = "a document"
"""
FITS = {"low": "0x2000_0000", "size": 32768, "rate": 8, "dma": "true"}
OVERLAP = '[storage]\noverlap = true\nsource = "a document"\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_parts_are_read(tmp_path: Path) -> None:
    board = load_board(write(tmp_path, PART.format(**FITS)))
    assert [part.name for part in board.sram.parts] == ["low", "high"]
    assert [part.cached for part in board.sram.parts] == [False, True]
    dtcm, *others = load_board("stm32f7").sram.parts
    assert (dtcm.name, dtcm.cached, dtcm.size_bytes) == ("DTCM", False, 65536)
    assert all(part.cached and part.dma for part in others)
    assert sum(p.size_bytes for p in load_board("nucleo-f767zi").sram.parts) == 512 * 1024


@pytest.mark.parametrize(
    ("changed", "more", "said"),
    [
        ({"low": "0x2000_0400"}, "", "parts: expected 'low' at 0x20000000, got 0x20000400"),
        ({"size": 16384}, "", "expected the last to end at 0x20010000, got 0x2000c000"),
        ({"size": 65536}, "", "expected the last to end at 0x20010000, got 0x20018000"),
        ({"dma": "false"}, OVERLAP, r"expected DMA reach \(dma = true\) in all of them"),
        ({"rate": 800}, "", r"sram\.parts\.0\.bytes_per_cycle: expected 0\.01\.\.64, got 800"),
        ({"dma": "3"}, "", r"sram\.parts\.0\.dma: expected a valid boolean, got 3"),
    ],
)
def test_wrong_parts_are_refused(
    changed: dict[str, object], more: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(BoardError, match=said):
        load_board(write(tmp_path, PART.format(**(FITS | changed)) + more))


def test_ways_of_flashing_are_checked(tmp_path: Path) -> None:
    text = 'extends = "qemu-m7-sd"\n[flash_with]\nconsole_usb = ["ST-LINK"]\npyocd = "x"\n'
    with pytest.raises(BoardError) as caught:
        load_board(write(tmp_path, text))
    said = str(caught.value)
    assert "flash_with.pyocd: expected one of console_usb, openocd, pyocd_target" in said
    assert "did you mean 'openocd' or 'pyocd_target'?" in said
    assert "flash_with.console_usb.0: expected string should match pattern" in said
    assert "flash_with.source: expected this key, got none" in said


def test_every_real_board_says_how_it_is_flashed() -> None:
    for name in list_boards():
        board = load_board(name)
        assert (board.flash_with is not None) == (board.kind == "hardware"), name
        if board.flash_with is not None:
            assert board.flash_with.console_usb
            assert board.flash_with.pyocd_target


def test_boards_that_need_reset_held_say_so_to_every_tool() -> None:
    """RIOT issue 17462: an STM32F7 that sleeps is only reached under reset."""
    held = []
    for name in list_boards():
        how = load_board(name).flash_with
        under = how is not None and any("connect_assert_srst" in word for word in how.openocd)
        assert under == (how is not None and how.under_reset), name
        held += [name] if under else []
    assert {"stm32f746g-disco", "stm32f769i-disco", "nucleo-f767zi"} <= set(held)


def test_counts_of_an_emulator_are_no_times_of_a_chip() -> None:
    """QEMU is not cycle-accurate: what it counts is exact for the boards that it is, alone."""
    for name in list_boards():
        board = load_board(name)
        assert board.kind == "emulated" or all(row.estimated for row in board.cost.values()), name
        for row in board.cost.values():
            assert row.estimated or row.source.startswith("Instructions counted"), name


def test_poets_platforms_are_there_to_plan_with() -> None:
    assert tuple(n for n in list_boards() if load_board(n).kind == "planning") == PLANNING
    for name in PLANNING:
        board = load_board(name)
        assert board.port_folders == ()
        assert all(row.estimated for row in board.cost.values())
        with pytest.raises(BoardError, match="'planning'; plan and sweep work with it, build wor"):
            buildable(board)


@pytest.mark.parametrize(
    ("name", "seconds", "watts"),
    # 1e6 floating-point operations by chipsets.py: seconds = 1e6 / FLOPS.
    [
        ("poet-mkr1000", 6.0, 0.066),
        ("poet-m4f", 0.156988, 0.0109824),
        ("poet-rpi", 0.00830928, 3.0),
    ],
)
def test_poets_numbers_come_out_in_seconds_and_joules(
    name: str, seconds: float, watts: float
) -> None:
    board = load_board(name)
    price = node_price(Cost("conv_fwd", macs=500_000), board)
    assert price.seconds == pytest.approx(seconds, rel=1e-4)
    assert price.joules == pytest.approx(seconds * watts, rel=1e-4)
    same = node_price(Cost("elementwise", elements=1_000_000), board)
    assert same.seconds == pytest.approx(seconds, rel=1e-4)


def test_poets_card_is_that_of_its_instances() -> None:
    """Of 5120 bytes, in whole blocks: 0.109 ms + n / 4616.51 kB/s and 0.113 ms + n / 4440 kB/s."""
    for name in ("poet-mkr1000", "poet-m4f"):
        board = load_board(name)
        into, out = page_in_price(5120, board), page_out_price(5120, board)
        assert into.seconds == pytest.approx(0.109e-3 + 5120 / 4616.51e3)
        assert out.seconds == pytest.approx(0.113e-3 + 5120 / 4440e3)
        assert into.joules == pytest.approx(into.seconds * (0.33 + board.power.active_w))


def test_a_planning_board_has_no_port(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="port: expected '' exactly when kind is 'planning', got"):
        load_board(write(tmp_path, 'extends = "poet-m4f"\nport = "lm3s6965evb"\n'))
