"""The port template compiles and links for every core; its guide names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poet_mcu import resources, toolchain
from poet_mcu.board.load import load_board
from poet_mcu.codegen.render import render
from poet_mcu.pipeline.build import linker_fields
from poet_mcu.pipeline.selftest import selftest_sources

ROOT = resources.root()
GUIDE = (ROOT / "docs" / "porting.md").read_text(encoding="utf-8")
BOARDS = ("qemu-m0-sd", "qemu-lm3s6965evb", "qemu-m4-sd", "qemu-m7-sd", "qemu-m55-sd")
#: of the firmware that tests a board, without the kernels: the part that calls the port
PARTS = ("link", "selftest", "storage", "train", "port")
CASES = """#include "selftest/selftest.h"
__attribute__((section(".arena"), aligned(8))) static uint8_t arena[8192];
const poet_selftest poet_the_selftest = {.board = "template", .arena = arena, .arena_bytes = 8192u};
"""


@pytest.mark.parametrize("name", BOARDS)
def test_the_template_is_a_whole_port(name: str, tmp_path: Path) -> None:
    board = load_board(name).model_copy(update={"port": "template", "port_family": ""})
    cases, script = tmp_path / "cases.c", tmp_path / "linker.ld"
    cases.write_text(CASES)
    script.write_text(render("linker.ld.j2", **linker_fields(board, board.sram.size_bytes)))
    kept = [path for path in selftest_sources(board) if path.split("/")[1] in PARTS]
    sources = [cases, *(ROOT / path for path in kept)]
    assert ROOT / "firmware/port/template/port.c" in sources
    elf = toolchain.compile_program(
        board, sources, [ROOT / "firmware", ROOT / "firmware" / "include"], tmp_path / "t.elf",
        linker_script=script,
    )  # fmt: skip
    assert toolchain.check_elf(elf, board).arena == 8192


def test_the_guide_names_every_function_of_the_contract() -> None:
    header = (ROOT / "firmware" / "include" / "poet" / "port.h").read_text()
    wanted = set(re.findall(r"poet_port_(\w+)\(", header))
    common = " ".join(p.read_text() for p in (ROOT / "firmware/port/common").glob("*.c"))
    shared = {
        name for name in wanted if re.search(rf"^\w.*poet_port_{name}\(", common, re.MULTILINE)
    }
    # The table shortens what belongs together: `poet_port_getc`, `putc`, `flush`.
    assert {n for n in wanted - shared if f"`{n}`" not in GUIDE.replace("poet_port_", "")} == set()


def test_paths_and_files_of_the_guide_exist() -> None:
    named = re.findall(r"`((?:boards|firmware|tests)/[\w/.\-]+)`", GUIDE)
    assert len(named) > 8
    assert [path for path in named if not (ROOT / path).exists()] == []
