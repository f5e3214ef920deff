"""Flags, builds and measurements, on a firmware of a dozen lines with its own linker script."""

import importlib.util
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from poet_mcu import resources
from poet_mcu.board import load_board
from poet_mcu.errors import CheckFailed, InputError, InternalError, ToolMissing
from poet_mcu.toolchain import (
    Sizes,
    check_budget,
    check_elf,
    compile_flags,
    compile_program,
    compiler,
    doctor,
    find_tool,
    host_twin,
    link_flags,
    make_images,
    measure,
    tools,
)
from poet_mcu.toolchain.elf import symbols
from poet_mcu.toolchain.flags import WARNINGS

ARM_BOARDS = ("qemu-lm3s6965evb", "qemu-m4-sd", "qemu-m7-sd", "qemu-m55-sd", "qemu-mps2-an500")

MAIN_C = """
#include <stdint.h>
#include <string.h>
#include "use.h"
extern uint32_t _stack_top[];
void reset(void);
int main(void);
typedef void (*vector)(void);
typedef struct { uint32_t *stack; vector reset; } vectors;
__attribute__((section(".vectors"), used)) static const vectors table = {_stack_top, reset};
__attribute__((section(".arena"), used)) static uint8_t poet_arena[1000];
static volatile uint32_t initialised = 7u;
static volatile uint8_t zeroed[300];
static const uint8_t constants[64] = {1u, 2u};
int main(void)
{
    uint8_t copy[64];
    (void)memcpy(copy, constants, (size_t)(initialised & 63u));
    zeroed[0] = copy[1];
    poet_arena[0] = (uint8_t)product(2.0f, 3.0f, (float)zeroed[0]);
    return 0;
}
void reset(void)
{
    (void)main();
    for (;;) {
    }
}
"""
USE_H = "float product(float a, float b, float c);\n"
USE_C = """
#include "poet/fma.h"
#include "use.h"
float product(float a, float b, float c) { return POET_FMA(a, b, c) + (float)EXTRA; }
"""
LINKER = """
MEMORY {{ FLASH (rx) : ORIGIN = {flash:#x}, LENGTH = {flash_size}
         RAM (rwx) : ORIGIN = {ram:#x}, LENGTH = {ram_size} }}
ENTRY(reset)
SECTIONS {{
  .text : {{ KEEP(*(.vectors)) *(.text*) *(.rodata*) }} > {code}
  .data : {{ *(.data*) }} > RAM AT > FLASH
  .bss (NOLOAD) : {{ *(.bss*) *(COMMON) }} > RAM
  .arena (NOLOAD) : {{ . = ALIGN(8); KEEP(*(.arena)) . = ALIGN(8); }} > RAM
  .stack (NOLOAD) : {{ . = ALIGN(8); _stack_bottom = .; . = . + 512; _stack_top = .; }} > RAM
  /DISCARD/ : {{ *(.ARM.exidx*) *(.ARM.attributes.none) }}
}}
"""


def program(folder, board, *, main=MAIN_C, linker=None, name="firmware.elf", **options):
    for file, text in (("main.c", main), ("use.c", USE_C), ("use.h", USE_H)):
        (folder / file).write_text(text, encoding="ascii")
    script = None
    if board.kind != "host":
        script = folder / "linker.ld"
        script.write_text(linker or script_for(board), encoding="ascii")
    include = resources.root() / "firmware" / "include"
    return compile_program(
        board,
        [folder / "main.c", folder / "use.c"],
        [folder, include],
        folder / name,
        linker_script=script,
        defines={"EXTRA": 1},
        **options,
    )


def script_for(board, **changes):
    values = {
        "flash": board.flash.origin,
        "flash_size": board.flash.size_bytes,
        "ram": board.sram.origin,
        "ram_size": board.sram.size_bytes,
        "code": "FLASH",
    } | changes
    return LINKER.format(**values)


@pytest.mark.parametrize("name", ARM_BOARDS)
def test_build_measure_check(name, tmp_path):
    board = load_board(name)
    elf = program(tmp_path, board)
    sizes = check_elf(elf, board)
    assert sizes == measure(elf)
    assert (sizes.data, sizes.stack) == (4, 512)
    assert 1000 <= sizes.arena < 1008  # from a multiple of eight on
    assert 300 <= sizes.bss <= 308
    assert sizes.text > 64
    assert sizes.entry & ~1 >= board.flash.origin
    assert sizes.ram_bytes == sizes.data + sizes.bss + sizes.arena + 512
    assert sizes.static_bytes == sizes.data + sizes.bss
    assert sizes.flash_bytes == sizes.text + 4


def test_vectors_apart_must_be_where_the_core_looks(tmp_path):
    board = load_board("qemu-m7-sd")
    elf = program(tmp_path, board)
    elsewhere = board.flash.model_copy(update={"origin": 0x3000_0000, "size_bytes": 1024})
    apart = board.model_copy(update={"memory": {**board.memory, "vectors": elsewhere}})
    with pytest.raises(CheckFailed, match=r"expected a section at 0x30000000, got none"):
        check_elf(elf, apart)


def test_images_hold_text_and_data(tmp_path):
    board = load_board("qemu-m7-sd")
    elf = program(tmp_path, board)
    binary, ihex = make_images(board, elf)
    assert binary.stat().st_size == pytest.approx(measure(elf).flash_bytes, abs=8)
    lines = ihex.read_text().splitlines()
    assert lines[-1] == ":00000001FF"
    assert all(sum(bytes.fromhex(line[1:])) % 256 == 0 for line in lines)


def test_the_same_sources_give_the_same_bytes(tmp_path):
    board = load_board("qemu-m4-sd")
    images = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        images.append(program(tmp_path / name, board, jobs=1 + len(images)).read_bytes())
    assert images[0] == images[1]


def test_symbols_are_listed_by_size(tmp_path):
    found = symbols(program(tmp_path, load_board("qemu-m4-sd")))
    assert found[0].name == "poet_arena"
    assert (found[0].size_bytes, found[0].section, found[0].function) == (1000, ".arena", False)
    assert any(s.name == "product" and s.function for s in found)


def test_a_core_gets_the_multiply_add_that_its_board_chose(tmp_path):
    text = {}
    for name in ("qemu-m7-sd", "qemu-m4-sd", "qemu-lm3s6965evb"):
        (tmp_path / name).mkdir()
        elf = program(tmp_path / name, load_board(name))
        dump = ["arm-none-eabi-objdump", "-d", "--disassemble=product", str(elf)]
        text[name] = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    assert "vfma.f32" in text["qemu-m7-sd"]
    assert "vmul.f32" in text["qemu-m4-sd"]
    assert "vadd.f32" in text["qemu-m4-sd"]
    assert "__aeabi_fmul" in text["qemu-lm3s6965evb"]


def test_flags_are_the_contract():
    flags = compile_flags(load_board("qemu-m7-sd"))
    assert {"-std=c11", "-ffp-contract=off", "-ffreestanding", "-Werror", *WARNINGS} <= set(flags)
    assert {"-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard", "-mthumb"} <= set(flags)
    assert {"-DPOET_FMA_FUSED=1", "-DPOET_CORE_HZ=50000000u"} <= set(flags)
    soft = compile_flags(load_board("qemu-lm3s6965evb"))
    assert {"-mcpu=cortex-m3", "-mfloat-abi=soft", "-DPOET_FMA_FUSED=0"} <= set(soft)
    assert not any(flag.startswith("-mfpu") for flag in soft)
    assert "-mcpu=cortex-m7" in link_flags(load_board("qemu-m7-sd"))
    vectors = load_board("qemu-m55-sd")
    assert {"-mcpu=cortex-m55", "-DPOET_FLUSH_SUBNORMALS=1"} <= set(compile_flags(vectors))
    assert "-DPOET_FLUSH_SUBNORMALS=1" in compile_flags(host_twin(vectors))
    assert "-DPOET_FLUSH_SUBNORMALS=1" not in flags + soft


def test_host_twin_follows_the_fma_of_the_board(monkeypatch):
    fused, separate = load_board("qemu-m7-sd"), load_board("qemu-lm3s6965evb")
    monkeypatch.setattr("poet_mcu.toolchain.flags.platform.machine", lambda: "x86_64")
    monkeypatch.setattr("poet_mcu.toolchain.flags.host_has_fma", lambda: True)
    flags = compile_flags(host_twin(fused))
    assert {"-mfma", "-DPOET_FMA_FUSED=1"} <= set(flags)
    assert not any(flag.startswith("-mcpu") for flag in flags)
    assert "-mfma" not in compile_flags(host_twin(separate))
    monkeypatch.setattr("poet_mcu.toolchain.flags.host_has_fma", lambda: False)
    assert "-mfma" not in compile_flags(host_twin(fused))
    assert host_twin(load_board("host")) == load_board("host")
    twin = host_twin(fused)
    assert (twin.kind, twin.port, twin.storage.driver) == ("host", "host", "file")
    assert twin.storage.region_first_block == fused.storage.region_first_block
    assert (twin.cost, twin.power, twin.sram) == (fused.cost, fused.power, fused.sram)


@pytest.mark.parametrize("name", ["qemu-m7-sd", "qemu-lm3s6965evb"])
@pytest.mark.parametrize("has_fma", [True, False])
def test_host_build_rounds_as_the_board_does(name, has_fma, tmp_path, monkeypatch):
    """(1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 rounded once and 0 rounded twice."""
    monkeypatch.setattr(
        "poet_mcu.toolchain.flags.host_has_fma", lambda: has_fma and tools.host_has_fma()
    )
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "poet/fma.h"\nint main(void) {\n'
        "volatile float a = 1.000244140625f, c = -1.00048828125f;\n"
        'const float r = POET_FMA(a, a, c);\n(void)printf("%d", r > 0.0f);\nreturn 0; }\n'
    )
    board = load_board(name)
    include = resources.root() / "firmware" / "include"
    exe = compile_program(host_twin(board), [tmp_path / "main.c"], [include], tmp_path / "main")
    out = subprocess.run([str(exe)], capture_output=True, text=True, check=True).stdout
    assert out == ("1" if board.core.fma == "fused" else "0")


def test_a_compiler_error_comes_with_its_command(tmp_path):
    board = load_board("qemu-m4-sd")
    with pytest.raises(InternalError) as caught:
        program(tmp_path, board, main=MAIN_C.replace("return 0;", "int unused; return 0;"))
    text = str(caught.value)
    assert "arm-none-eabi-gcc: expected exit code 0, got 1" in text
    assert "-mcpu=cortex-m4" in text
    assert "-Werror" in text
    assert "main.c:" in text
    assert "unused variable" in text


def test_flash_that_is_too_small_is_said_in_bytes(tmp_path):
    board = load_board("qemu-m4-sd")
    with pytest.raises(CheckFailed, match=r"firmware\.elf: .* region FLASH overflows by \d+ bytes"):
        program(tmp_path, board, linker=script_for(board, flash_size=64))
    with pytest.raises(CheckFailed, match=r"region RAM overflows by \d+ bytes; raise --ram"):
        program(tmp_path, board, linker=script_for(board, ram_size=1024))


def test_an_undefined_symbol_is_our_bug(tmp_path):
    main = MAIN_C.replace("return 0;", "return absent();")
    main = main.replace("int main(void);", "int main(void);\nint absent(void);")
    with pytest.raises(InternalError, match="undefined reference to `absent'"):
        program(tmp_path, load_board("qemu-m4-sd"), main=main)


@pytest.mark.parametrize(
    ("main", "changes", "pattern"),
    [
        (MAIN_C, {"ram": 0x30000000}, r"section \.bss: expected a place inside memory\.sram"),
        (MAIN_C, {"flash": 0x08000000}, r"vector table: expected a section at 0x00000000"),
        (MAIN_C, {"code": "RAM"}, r"vector table: expected a section at 0x00000000"),
        (
            MAIN_C.replace("{_stack_top, reset}", "{0, reset}"),
            {},
            r"vector table: expected an initial stack pointer in memory\.sram.* got 0x00000000",
        ),
        (
            MAIN_C.replace("{_stack_top, reset}", "{_stack_top, 0}"),
            {},
            r"vector table: expected a Thumb address in memory\.flash as reset vector, got 0x0000",
        ),
    ],
)
def test_sabotaged_layouts_are_refused(main, changes, pattern, tmp_path):
    board = load_board("qemu-m4-sd")
    elf = program(tmp_path, board, main=main, linker=script_for(board, **changes))
    with pytest.raises(CheckFailed, match=pattern):
        check_elf(elf, board)


def test_wrong_float_abi_is_refused(tmp_path):
    hard = program(tmp_path, load_board("qemu-m4-sd"))
    with pytest.raises(CheckFailed, match="float ABI: expected soft, got hard"):
        check_elf(hard, load_board("qemu-lm3s6965evb"))


def test_a_host_program_is_no_firmware(tmp_path):
    board = load_board("host")
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return 0; }\n")
    exe = compile_program(board, [source], [], tmp_path / "main")
    assert subprocess.run([str(exe)], check=False).returncode == 0
    with pytest.raises(CheckFailed, match="machine: expected EM_ARM"):
        check_elf(exe, load_board("qemu-m4-sd"))


def test_measure_without_named_sections_uses_symbols(tmp_path):
    board = load_board("qemu-m4-sd")
    script = script_for(board).replace(".arena (NOLOAD)", ".noinit (NOLOAD)")
    script = script.replace(".stack (NOLOAD)", ".tail (NOLOAD)")
    elf = program(tmp_path, board, linker=script)
    sizes = measure(elf)
    assert sizes.arena == 1000
    assert sizes.stack == 512


def test_not_an_elf(tmp_path):
    path = tmp_path / "x.elf"
    path.write_bytes(b"hello")
    with pytest.raises(InputError, match=r"x\.elf: expected an ELF file"):
        measure(path)


def test_one_byte_over_the_budget_fails():
    sizes = Sizes(text=100, data=10, bss=20, arena=1000, stack=512, entry=0)
    check_budget(sizes, 1542, "firmware.elf")
    with pytest.raises(
        CheckFailed, match=re.escape("expected at most 1541 bytes, got 1542 (.data 10, .bss 20")
    ):
        check_budget(sizes, 1541, "firmware.elf")


def test_missing_tools_name_their_package(monkeypatch):
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)
    with pytest.raises(ToolMissing, match="run: sudo apt-get install gcc-arm-none-eabi"):
        compiler(load_board("qemu-m4-sd"))
    with pytest.raises(ToolMissing, match="run: sudo apt-get install gcc libc6-dev"):
        compiler(load_board("host"))
    with pytest.raises(ToolMissing, match="qemu-system-arm"):
        find_tool("qemu-system-arm")
    assert all(state.version is None for state in doctor() if state.tool != "pyocd")


def test_missing_newlib_is_noticed(monkeypatch):
    monkeypatch.setattr(tools, "_newlib", lambda _: None)
    with pytest.raises(ToolMissing, match="libnewlib-arm-none-eabi"):
        compiler(load_board("qemu-m4-sd"))


def test_doctor_finds_what_is_installed():
    states = {state.tool: state for state in doctor()}
    assert {"arm-none-eabi-gcc", "newlib", "qemu-system-arm", "cc", "make"} <= set(states)
    for tool, state in states.items():
        assert ("pip install" if tool == "pyocd" else "apt-get install") in state.install
        if tool == "pyocd":  # that of this Python, whatever another one has on the path
            found = {each.metadata["Name"].lower() for each in metadata.distributions()}
            assert (state.version is not None) == ("pyocd" in found)
        elif shutil.which(tool):
            assert state.version is not None
            assert re.match(r"\d+\.\d+", state.version)


def test_size_report_tells_what_changed(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location(
        "size_report", resources.root() / "tools" / "size_report.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    elf = program(tmp_path, load_board("qemu-m4-sd"))
    assert module.main([str(elf), "--json"]) == 0
    earlier = tmp_path / "earlier.json"
    earlier.write_text(capsys.readouterr().out.replace('"poet_arena": 1000', '"poet_arena": 900'))
    assert module.main([str(elf), "--against", str(earlier)]) == 0
    assert re.search(r"poet_arena +900 -> +1000 \(\+100\)", capsys.readouterr().out)
    assert module.main([str(elf)]) == 0
    assert re.search(r"arena +1000 bytes", capsys.readouterr().out)
    assert module.main([str(tmp_path / "none.elf")]) == 2


def test_the_object_cache_follows_text_and_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("POET_MCU_OBJECT_CACHE", str(cache))
    source, header = tmp_path / "a.c", tmp_path / "b.h"
    source.write_text('#include "b.h"\nint main(void) { return VALUE; }\n')
    host = load_board("host")

    def exit_code(value: int, name: str) -> int:
        header.write_text(f"#define VALUE {value}\n")
        out = compile_program(host, [source], [tmp_path], tmp_path / name)
        return subprocess.run([str(out)], check=False).returncode

    assert exit_code(3, "one") == 3
    assert len(list(cache.iterdir())) == 1
    assert exit_code(3, "two") == 3
    assert len(list(cache.iterdir())) == 1
    assert exit_code(4, "three") == 4
    assert len(list(cache.iterdir())) == 2
    source.write_text("int main(void) { return broken; }\n")
    with pytest.raises(InternalError, match="broken"):
        exit_code(5, "four")
    assert len(list(cache.iterdir())) == 2
