"""exp, log, tanh and their like: the same bits on every emulated core and on this computer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from test_sd_card import linker_script, lm3s, qemu_command, running

from poet_mcu.board import load_board
from poet_mcu.pipeline.build import runtime_sources
from poet_mcu.toolchain import compile_program, host_twin

pytestmark = pytest.mark.qemu

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "tests" / "qemu" / "math_main.c"
MATH = ROOT / "firmware" / "kernels" / "math.c"
INCLUDE = ROOT / "firmware" / "include"
CORES = {"m3": "qemu-lm3s6965evb", "m4": "qemu-m4-sd", "m7": "qemu-m7-sd", "m55": "qemu-m55-sd"}
FUNCTIONS = ["exp", "log", "expm1", "log1p", "tanh", "erf", "sigmoid", "sqrt"]


def on_board(core: str, folder: Path) -> list[str]:
    board = load_board(CORES[core])
    target = lm3s(core, ())
    script = folder / "firmware.ld"
    script.write_text(linker_script(target, target.ram_bytes), "utf-8")
    port = [ROOT / name for name in runtime_sources(board) if "port/" in name or "storage/" in name]
    elf = folder / "firmware.elf"
    compile_program(board, [MAIN, MATH, *port], [INCLUDE], elf, linker_script=script)
    with running(qemu_command(target, elf), folder) as console:
        console.until("done")
        return console.lines


def on_host(core: str, folder: Path, main: Path = MAIN) -> list[str]:
    twin = host_twin(load_board(CORES[core]))
    exe = compile_program(twin, [main, MATH], [INCLUDE], folder / "twin")
    done = subprocess.run([str(exe)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("core", CORES)
def test_same_bits(core: str, tmp_path: Path) -> None:
    board, host = on_board(core, tmp_path), on_host(core, tmp_path)
    assert board == host
    assert [line.split()[0] for line in host] == [n for n in FUNCTIONS for _ in range(2)] + ["done"]
    # Each part of the sample has its own checksum: nothing is a constant.
    for line in host[:-1:2]:
        assert len(set(line.split()[1:])) > 8, line


def test_another_sample_gives_other_sums(tmp_path: Path) -> None:
    """The comparison would see a difference: one argument more changes every part."""
    other = tmp_path / "main.c"
    other.write_text(MAIN.read_text("utf-8").replace("SAMPLES 61u", "SAMPLES 62u"), "utf-8")
    host, longer = on_host("m7", tmp_path), on_host("m7", tmp_path, other)
    for a, b in zip(host[:-1:2], longer[:-1:2], strict=True):
        assert all(x != y for x, y in zip(a.split()[1:], b.split()[1:], strict=True))
    assert host[1:-1:2] == longer[1:-1:2]
