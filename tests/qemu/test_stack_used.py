"""The computed stack against the one that was used, and what becomes of a stack that overflows."""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path

import models
import numpy as np
import onnx
import pytest
from models import node, weights

from poet_mcu import resources
from poet_mcu.board.load import list_boards, load_board
from poet_mcu.codegen.render import render
from poet_mcu.link.client import Board
from poet_mcu.pipeline.build import build, linker_fields
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import connect, open_folder
from poet_mcu.pipeline.validate import batches, run_steps
from poet_mcu.toolchain import compile_program

pytestmark = pytest.mark.qemu

FIRMWARE = resources.root() / "firmware"
CORES = ("qemu-lm3s6965evb", "qemu-m4-sd", "qemu-m7-sd", "qemu-m55-sd")
EMULATED = [name for name in list_boards() if load_board(name).kind == "emulated"]
#: what the start-up leaves unpainted below the stack pointer, and so counts as used (startup.c)
PAINT_GAP_BYTES = 128
#: Most that the bound lies above what is seen. The path that is longest need not be taken (an
#: interrupt comes elsewhere, a shape takes other blocks): seen 1.03 to 1.34 times.
LOOSE = 1.5
QUIET_S = 0.2


def strided() -> onnx.ModelProto:
    """Stride 2: convolutions whose operands are packed, the deepest path there is."""
    nodes = [
        node("Conv", "x w1 b1", "a", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", "a", "r"),
        node("Conv", "r w2", "c", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Flatten", "c", "f"),
        node("MatMul", "f w3", "y"),
    ]
    tensors = {
        "w1": weights(8, 2, 3, 3), "b1": weights(8), "w2": weights(8, 8, 3, 3),
        "w3": weights(8 * 16, 3),
    }  # fmt: skip
    return models.model(nodes, ["N", 2, 16, 16], tensors, y=["N", 3])


def recurrent() -> onnx.ModelProto:
    """A GRU over five steps."""
    tensors = {
        "gru.w": weights(1, 18, 5), "gru.r": weights(1, 18, 6), "gru.b": weights(1, 36),
        "fc": weights(6, 3), "row": np.asarray([2, 6], np.int64),
    }  # fmt: skip
    gru = node("GRU", "x gru.w gru.r gru.b", "ys", hidden_size=6)
    gru.output.append("h")
    nodes = [gru, node("Reshape", "h row", "flat"), node("MatMul", "flat fc", "y")]
    return models.model(nodes, [5, 2, 5], tensors, y=[2, 3])


MODELS = {
    "cnn": (lambda: models.cnn("N"), {"batch": 2, "strategy": "page-all"}),
    "strided": (strided, {"batch": 1}),
    "recurrent": (recurrent, {"strategy": "page-all"}),
}


def everything(board: Board, folder: Path) -> None:
    """Every kind of request, so that every path from the trainer down is walked."""
    session = Session(board)
    run_steps(session, batches(open_folder(folder).prepared(), None, 2))
    board.checkpoint()
    board.restore()
    session.parameters()
    board.evaluate()
    board.reset_model()
    board.format_card()


@pytest.mark.parametrize(
    "name",
    ["strided", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cnn", "recurrent"))],
)
@pytest.mark.parametrize("core", CORES)
def test_the_computed_stack_bounds_the_used_one(core: str, name: str, tmp_path: Path) -> None:
    make, switches = MODELS[name]
    path = models.save(make(), tmp_path / f"{name}.onnx")
    facts = build(Options(path, core, **switches), tmp_path / "build").facts
    with connect(open_folder(tmp_path / "build"), None) as board:
        everything(board, tmp_path / "build")
        counters = board.counters()
    used = counters.stack_bytes - counters.stack_free_bytes
    assert counters.stack_bytes == facts["stack_bytes"]
    assert PAINT_GAP_BYTES < used <= facts["stack_worst_bytes"] <= facts["stack_bytes"]
    assert facts["stack_worst_bytes"] < LOOSE * used


def overflowing(name: str, folder: Path, *, leap: bool) -> Path:
    board = load_board(name)
    script = folder / "linker.ld"
    script.write_text(render("linker.ld.j2", **linker_fields(board, board.sram.size_bytes)))
    sources = [resources.root() / "tests" / "qemu" / "overflow_main.c"]
    sources += [FIRMWARE / "storage" / f"{part}.c" for part in ("sd_bus", "sd_csd", "sd_spi")]
    for port in board.port_folders:
        sources += sorted((FIRMWARE / "port" / port).glob("*.c"))
    return compile_program(
        board, sources, [FIRMWARE / "include"], folder / "overflow.elf", linker_script=script,
        defines={"LEAP": 1} if leap else {},
    )  # fmt: skip


def heard(command: list[str], text: bytes, limit_s: float = 30.0) -> bytes:
    """What the console says until ``text`` and the end of its line."""
    said = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        end = time.monotonic() + limit_s
        while text not in said or not said.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], end - time.monotonic())
            assert ready, said
            part = os.read(process.stdout.fileno(), 4096)
            assert part, said
            said += part
        ready, _, _ = select.select([process.stdout], [], [], QUIET_S)
        more = os.read(process.stdout.fileno(), 4096) if ready else b""  # b"": the emulator ended
        assert not more, "something is said after the report"
        process.kill()
    return said


@pytest.mark.parametrize("leap", [False, True], ids=["creep", "leap"])
@pytest.mark.parametrize("name", EMULATED)
def test_an_overflow_ends_in_the_fault_report(name: str, leap: bool, tmp_path: Path) -> None:
    emulator = load_board(name).emulator
    assert emulator is not None
    elf = overflowing(name, tmp_path, leap=leap)
    command = ["qemu-system-arm", "-M", emulator.machine, "-kernel", str(elf)]
    command += ["-cpu", emulator.cpu] if emulator.cpu else []
    command += ["-display", "none", "-monitor", "none", "-serial", "stdio"]
    command += ["-semihosting-config", "enable=on,target=native"]
    assert b"\r\npoet: stack overflow sp=" in heard(command, b"cfsr=")
