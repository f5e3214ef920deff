"""A board whose vectors flush subnormals, its scalar unit and its host twin: one arithmetic.

MVE takes subnormal operands as zero and makes zero of subnormal results, decided before rounding.
Sums and multiply-adds must agree to the bit, in scalar code, in vectors and on the host. A lone
product or quotient may differ on x86 in one stated way (flush_twin.h), which is checked too.
"""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path

import pytest
from test_sd_card import linker_script, lm3s, qemu_command, running

from poet_mcu.board import load_board
from poet_mcu.pipeline.build import runtime_sources
from poet_mcu.toolchain import compile_program, host_twin

pytestmark = pytest.mark.qemu

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "tests" / "qemu" / "flush_main.c"
INCLUDE = ROOT / "firmware" / "include"
NAMES = ("add", "conv2d", "dense", "product", "relu", "sgd")
KERNELS = [ROOT / "firmware" / "kernels" / f"{name}.c" for name in NAMES]
SMALLEST = {"00800000": "00000000", "80800000": "80000000"}  # +-2^-126 -> zero of its sign


def board_lines(folder: Path) -> list[str]:
    board = load_board("qemu-m55-sd")
    target = lm3s("m55", ())
    script = folder / "firmware.ld"
    script.write_text(linker_script(target, target.ram_bytes), "utf-8")
    port = [ROOT / name for name in runtime_sources(board) if "port/" in name or "storage/" in name]
    elf = folder / "firmware.elf"
    compile_program(board, [MAIN, *KERNELS, *port], [INCLUDE], elf, linker_script=script)
    with running(qemu_command(target, elf), folder) as console:
        console.until("done")
        return console.lines


def host_lines(folder: Path, *, has_fma: bool, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    if not has_fma:
        monkeypatch.setattr("poet_mcu.toolchain.flags.host_has_fma", lambda: False)
    twin = host_twin(load_board("qemu-m55-sd"))
    exe = compile_program(twin, [MAIN, *KERNELS], [INCLUDE], folder / "twin")
    done = subprocess.run([str(exe)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def on_board(tmp_path_factory: pytest.TempPathFactory):
    return cache(lambda: board_lines(tmp_path_factory.mktemp("flush")))


def test_scalar_code_of_every_context_flushes(on_board) -> None:
    """FZ and DN are set in FPSCR, and in FPDSCR for the contexts of handlers."""
    assert on_board()[0] == "state 03000000 03000000"


@pytest.mark.parametrize("has_fma", [True, False])
def test_the_twin_flushes_as_the_board_does(on_board, has_fma, tmp_path, monkeypatch) -> None:
    board = [line for line in on_board() if not line.startswith("state")]
    host = host_lines(tmp_path, has_fma=has_fma, monkeypatch=monkeypatch)
    assert len(board) == len(host)
    differing = [
        (there, here)
        for a, b in zip(board, host, strict=True)
        for there, here in zip(a.split(), b.split(), strict=True)
        if there != here and a.split()[0] in ("product", "quotient")
    ]
    assert all(SMALLEST.get(here) == there for there, here in differing)
    if platform.machine() == "x86_64":
        assert differing  # else the stated difference is gone: say so in flush_twin.h
    exact = ("fma", "sum", "kernel", "done")
    for a, b in zip(board, host, strict=True):
        assert a == b or a.split()[0] not in exact
    words = [word for line in board for word in line.split()[1:]]
    assert words.count("00000000") > 1000  # much was flushed
    assert sum(line.startswith("kernel") for line in board) == 20


def test_a_twin_that_does_not_flush_differs(on_board, tmp_path) -> None:
    """The cases meet subnormals: without flushing kernels and sums give something else."""
    twin = host_twin(load_board("qemu-m7-sd"))
    text = MAIN.read_text("utf-8").replace("poet_flush_subnormals();", "")
    main = tmp_path / "main.c"
    main.write_text(text, "utf-8")
    exe = compile_program(twin, [main, *KERNELS], [INCLUDE], tmp_path / "twin")
    done = subprocess.run([str(exe)], capture_output=True, text=True, check=True)
    board = [line for line in on_board() if not line.startswith("state")]
    pairs = list(zip(board, done.stdout.splitlines(), strict=True))
    for kind in ("fma", "sum", "kernel"):
        assert any(a != b for a, b in pairs if a.startswith(kind)), kind
