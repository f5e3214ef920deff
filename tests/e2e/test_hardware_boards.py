"""Firmware for boards that are not here: what a linked ELF can show without running it."""

from __future__ import annotations

import struct
import subprocess
import types
from functools import cache
from pathlib import Path
from typing import Any

import models
import pytest
import unicorn
import unicorn.arm_const
from elftools.elf.elffile import ELFFile

from poet_mcu import toolchain
from poet_mcu.board.load import list_boards, load_board
from poet_mcu.board.schema import Board

HARDWARE = [name for name in list_boards() if load_board(name).kind == "hardware"]
CORE_VECTORS = 16
#: vectors of a chip's own interrupts; a port without handlers has none
INTERRUPTS = {"stm32f7": 110, "primecell": 0}
#: bytes in front of the vector table
BOOT_BYTES = {"rpi-pico": 256}


def words_at_flash(elf: ELFFile, count: int) -> tuple[int, ...]:
    text = elf.get_section_by_name(".text")
    return struct.unpack(f"<{count}I", text.data()[: 4 * count])


def address_of(elf: ELFFile, name: str) -> int:
    (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name(name)
    return int(symbol["st_value"])


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from poet_mcu.cli import main  # noqa: PLC0415 - as the command does

    @cache
    def made(name: str) -> tuple[Board, Path]:
        folder = tmp_path_factory.mktemp("hw")
        model = models.save(models.cnn("N"), folder / "cnn.onnx")
        out = folder / "build"
        assert main(["build", str(model), "--board", name, "--batch", "2", "-o", str(out)]) == 0
        return load_board(name), out

    return made


@pytest.fixture(scope="module", params=HARDWARE)
def firmware(request: pytest.FixtureRequest, build: Any) -> Any:
    return build(request.param)


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
        assert text["sh_addr"] == board.flash.origin + BOOT_BYTES.get(board.name, 0)
        assert vectors[0] == address_of(elf, "poet_ld_stack_end")
        assert vectors[1] == elf["e_entry"] == address_of(elf, "poet_cortex_m_reset")
        assert all(vector & 1 and vector - 1 in code for vector in vectors[1:])
        assert vectors[15] == address_of(elf, "poet_cortex_m_systick")
        if count > CORE_VECTORS:
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
        has_cache = any(part.cached for part in board.sram.parts)
        assert board.arena.alignment_bytes == (32 if has_cache else 8)
        assert address_of(elf, "poet_ld_arena_start") % board.arena.alignment_bytes == 0
        staging = elf.get_section_by_name(".symtab").get_symbol_by_name("staging") or []
        assert len(staging) == (board.storage.driver == "sdmmc")
        for symbol in staging:
            assert symbol["st_value"] % 32 == 0
            assert symbol["st_size"] == 512


def test_float_abi_and_architecture_are_those_of_the_core(firmware: Any) -> None:
    board, folder = firmware
    command = ["arm-none-eabi-readelf", "-hA", str(folder / "firmware.elf")]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    hard = board.core.float_abi == "hard"
    assert ("hard-float ABI" in text) == ("Tag_ABI_VFP_args: VFP registers" in text) == hard
    assert f"Tag_CPU_arch: {'v7E-M' if board.core.cpu == 'cortex-m7' else 'v6S-M'}" in text


def crc_of_boot_rom(data: bytes) -> int:
    """CRC-32 as the RP2040's boot ROM computes it: most significant bit first, not inverted."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1) ^ (0x04C11DB7 if crc & 0x80000000 else 0)
            crc &= 0xFFFFFFFF
    return crc


@pytest.fixture(scope="module")
def pico(build: Any) -> Any:
    board, folder = build("rpi-pico")
    with (folder / "firmware.elf").open("rb") as file:
        elf = ELFFile(file)
        boot, text = (elf.get_section_by_name(name) for name in (".boot2", ".text"))
        stack = address_of(elf, "poet_ld_stack_end")
        sections = [(s["sh_addr"], s.data()) for s in (boot, text)]
        return types.SimpleNamespace(
            sections=sections, entry=elf["e_entry"], stack=stack, folder=folder, board=board
        )


def test_the_boot_stage_has_its_checksum_and_runs(pico: Any) -> None:
    """In a simulated Armv6-M: what it writes to the SSI, and where it ends."""
    (at, boot), (vectors, text) = pico.sections
    assert (at, len(boot), vectors) == (0x10000000, 256, 0x10000100)
    assert crc_of_boot_rom(boot[:252]) == struct.unpack("<I", boot[252:])[0], "see boot2.c"
    written: list[tuple[int, int]] = []
    core = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
    for base, size in ((0x20041000, 4096), (0x18000000, 4096), (0xE000E000, 4096)):
        core.mem_map(base, size)
    core.mem_map(0x10000000, 1 << 20)
    core.mem_write(0x20041F00, boot)  # where the boot ROM puts it
    core.mem_write(vectors, text)
    core.hook_add(
        unicorn.UC_HOOK_MEM_WRITE, lambda *event: written.append((event[2], event[4])), None
    )
    core.emu_start(0x20041F01, pico.entry & ~1, count=200)
    ssi, off_and_on = 0x18000000, [0, 1]
    assert [value for address, value in written if address == ssi + 8] == off_and_on
    assert (ssi + 0x14, 4) in written
    assert (ssi, 0x001F0300) in written
    assert (ssi + 0xF4, 0x03000218) in written
    assert written[-1] == (0xE000ED08, vectors)
    assert core.reg_read(unicorn.arm_const.UC_ARM_REG_PC) == pico.entry & ~1
    assert core.reg_read(unicorn.arm_const.UC_ARM_REG_SP) == pico.stack


def test_uf2_blocks_are_the_program_and_nothing_else(pico: Any) -> None:
    data = (pico.folder / "firmware.uf2").read_bytes()
    assert len(data) % 512 == 0
    count, memory = len(data) // 512, bytearray()
    for number in range(count):
        block = data[512 * number : 512 * (number + 1)]
        head = struct.unpack("<8I", block[:32])
        assert head[:3] == (0x0A324655, 0x9E5D5157, 0x2000)
        assert head[3] == pico.board.flash.origin + 256 * number
        assert head[4:] == (256, number, count, 0xE48BFF56)
        assert block[32 + 256 : 508] == bytes(476 - 256)
        assert block[508:] == struct.pack("<I", 0x0AB16F30)
        memory += block[32 : 32 + 256]
    image = (pico.folder / "firmware.bin").read_bytes()
    assert memory[: len(image)] == image
    assert not any(memory[len(image) :])


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
