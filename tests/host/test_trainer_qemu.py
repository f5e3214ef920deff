"""The trainer on emulated cores: same losses and weights as on this computer, over pty and TCP."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import pytest
from trainer import harness
from trainer.harness import BUILD_ID, MOMENTUM, Reference, W, batches

from poet_mcu.board.load import load_board
from poet_mcu.codegen.render import render
from poet_mcu.link import status
from poet_mcu.link.client import open_board
from poet_mcu.link.emulator import run_qemu
from poet_mcu.pipeline.build import linker_fields
from poet_mcu.toolchain import compile_program

pytestmark = pytest.mark.qemu
FIRMWARE = harness.ROOT / "firmware"
CARD_BYTES = 1 << 20


def build(board_name: str, folder: Path) -> Path:
    board = load_board(board_name)
    script = folder / "linker.ld"
    script.write_text(
        render("linker.ld.j2", **linker_fields(board, 32 * 1024) | {"stack_bytes": 2048})
    )
    sources = [harness.HERE / "model.c", FIRMWARE / "link/link.c"]
    for part in ("train", "storage", *(f"port/{name}" for name in board.port_folders)):
        sources += sorted((FIRMWARE / part).glob("*.c"))
    include = [FIRMWARE / "include"]
    return compile_program(board, sources, include, folder / "tiny.elf", linker_script=script)


def card(folder: Path) -> Path:
    path = folder / "card.img"
    path.write_bytes(bytes(CARD_BYTES))
    return path


@pytest.mark.parametrize(
    ("board_name", "machine", "cpu", "serial"),
    [
        ("qemu-lm3s6965evb", "lm3s6965evb", "cortex-m3", "pty"),
        ("qemu-m7-sd", "lm3s6965evb", "cortex-m7", "socket"),
        ("qemu-mps2-an500", "mps2-an500", None, "pty"),
    ],
)
def test_emulated_cores_train_the_same_weights(
    tmp_path: Path, board_name: str, machine: str, cpu: str | None, serial: Literal["pty", "socket"]
) -> None:
    elf = build(board_name, tmp_path)
    reference = Reference()
    semihosting = machine == "mps2-an500"
    with (
        run_qemu(elf, machine, cpu, card(tmp_path), serial, semihosting=semihosting) as url,
        open_board(url, build_id=BUILD_ID) as board,
    ):
        assert board.identity.card_status == status.E_CARD_IMAGE
        assert board.format_card().card_status == status.OK
        start = time.monotonic()
        for batch in batches(5):
            loss = board.train_step({**batch, "control": [0, 0, 0]}, lr=0.01).loss
            assert loss == reference.train(batch["x"], batch["labels"], 0.01)
        elapsed_s = time.monotonic() - start
        assert board.read_tensor(W).tobytes() == reference.w.tobytes()
        assert board.tensor_equals(MOMENTUM, reference.momentum)
        counters = board.counters()
        assert (counters.sd_reads, counters.sd_write_bytes) == (5, 120)
        assert 0 < counters.stack_free_bytes < counters.stack_bytes == 2048
        board.reboot()
        assert board.identify().steps_done == 0
    assert elapsed_s < 60.0


def test_a_machine_without_a_card_says_so(tmp_path: Path) -> None:
    elf = build("qemu-lm3s6965evb", tmp_path)
    with run_qemu(elf, "lm3s6965evb", "cortex-m3") as url, open_board(url) as board:
        assert board.identity.card_status == status.E_NO_CARD


def test_instruction_counts_repeat(tmp_path: Path) -> None:
    elf = build("qemu-lm3s6965evb", tmp_path)
    batch = {**batches(1)[0], "control": [0, 0, 0]}
    counts = []
    for _ in range(2):
        with (
            run_qemu(elf, "lm3s6965evb", "cortex-m3", card(tmp_path), icount=True) as url,
            open_board(url) as board,
        ):
            board.format_card()
            counts.append([board.train_step(batch).cycles, board.evaluate()])
    assert counts[0][1] > 1000
    assert abs(counts[0][0] - counts[1][0]) < counts[0][0] // 100
