"""Firmware for boards that are not here: what a linked ELF can show without running it."""

from __future__ import annotations

import struct
from typing import Any

import models
import pytest
from elftools.elf.elffile import ELFFile

from poet_mcu import toolchain
from poet_mcu.board.load import list_boards, load_board

HARDWARE = [name for name in list_boards() if load_board(name).kind == "hardware"]
CORE_VECTORS = 16
INTERRUPTS = {"stm32f7": 110}


def words_at_flash(elf: ELFFile, count: int) -> tuple[int, ...]:
    text = elf.get_section_by_name(".text")
    return struct.unpack(f"<{count}I", text.data()[: 4 * count])


def address_of(elf: ELFFile, name: str) -> int:
    (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name(name)
    return int(symbol["st_value"])


@pytest.fixture(scope="module", params=HARDWARE)
def firmware(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    from poet_mcu.cli import main  # noqa: PLC0415 - as the command does

    folder = tmp_path_factory.mktemp("hw")
    model = models.save(models.cnn("N"), folder / "cnn.onnx")
    out = folder / "build"
    words = ["build", str(model), "--board", request.param, "--batch", "2", "-o", str(out)]
    assert main(words) == 0
    return load_board(request.param), out


def test_the_elf_fits_the_board_and_the_budget(firmware: Any) -> None:
    board, folder = firmware
    sizes = toolchain.check_elf(folder / "firmware.elf", board)
    assert sizes.ram_bytes <= board.sram.size_bytes
    assert sizes.static_bytes <= board.runtime.static_bytes
    assert sizes.stack == board.runtime.stack_bytes


def test_every_vector_is_a_handler_in_flash(firmware: Any) -> None:
    board, folder = firmware
    with (folder / "firmware.elf").open("rb") as file:
        elf = ELFFile(file)
        count = CORE_VECTORS + INTERRUPTS[board.port_family]
        vectors = words_at_flash(elf, count)
        text = elf.get_section_by_name(".text")
        code = range(text["sh_addr"] + 4 * count, text["sh_addr"] + text["sh_size"])
        assert vectors[0] == address_of(elf, "poet_ld_stack_end")
        assert vectors[1] == elf["e_entry"] == address_of(elf, "poet_cortex_m_reset")
        assert all(vector & 1 and vector - 1 in code for vector in vectors[1:])
        assert vectors[15] == address_of(elf, "poet_cortex_m_systick")
        assert set(vectors[CORE_VECTORS:]) == {address_of(elf, "poet_stm32f7_interrupt")}


def test_loadable_bytes_lie_in_flash_and_binary_is_what_is_flashed(firmware: Any) -> None:
    board, folder = firmware
    flash = range(board.flash.origin, board.flash.end)
    with (folder / "firmware.elf").open("rb") as file:
        elf = ELFFile(file)
        loads = [s for s in elf.iter_segments("PT_LOAD") if s["p_filesz"]]
        assert loads
        for segment in loads:
            assert segment["p_paddr"] in flash
            assert segment["p_paddr"] + segment["p_filesz"] - 1 in flash
        image = (folder / "firmware.bin").read_bytes()
        first = min(s["p_paddr"] for s in loads)
        assert first == board.flash.origin
        for segment in loads:
            start = segment["p_paddr"] - first
            assert image[start : start + segment["p_filesz"]] == segment.data()


def test_dma_buffers_own_their_cache_lines(firmware: Any) -> None:
    board, folder = firmware
    with (folder / "firmware.elf").open("rb") as file:
        elf = ELFFile(file)
        assert board.arena.alignment_bytes == 32
        assert address_of(elf, "poet_ld_arena_start") % 32 == 0
        staging = elf.get_section_by_name(".symtab").get_symbol_by_name("staging") or []
        assert len(staging) == (board.storage.driver == "sdmmc")
        for symbol in staging:
            assert symbol["st_value"] % 32 == 0
            assert symbol["st_size"] == 512


def test_what_nobody_ran_says_so(run: Any) -> None:
    listed = run("boards", "--json").json["boards"]
    shown = run("boards").out
    for board in listed:
        if board["kind"] == "hardware" and board["run_on"] == "nothing":
            assert "built, not run" in next(x for x in shown.splitlines() if board["name"] in x)
        if board["kind"] == "emulated":
            assert board["run_on"] == "emulated core"


def test_the_alias_of_the_mission(run: Any) -> None:
    assert run("boards", "stm32f7", "--json").json["name"] == "stm32f746g-disco"
