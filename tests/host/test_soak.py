"""Many steps on an emulated board whose card and line are bad: the weights come out the same."""

from __future__ import annotations

import os
import random
from pathlib import Path

import models
import numpy as np
import pytest
from bad_card import BadCard
from trainer.proxy import bad_line

from poet_mcu.link.client import Board
from poet_mcu.link.emulator import run_qemu
from poet_mcu.link.transport import BoardFault, Link
from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.dataset import Dataset
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.position import Batches, Position
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import BuildFolder, connect_twin, open_folder
from poet_mcu.pipeline.training_run import TrainingRun

pytestmark = [pytest.mark.qemu, pytest.mark.slow]

STEPS = int(os.environ.get("POET_SOAK_STEPS", "10000"))
EVERY = 20
FRAMES = 0.01  # of them are harmed on their way
TRANSFERS = 0.001  # a step has about ten: one step in a hundred meets a bad one
RESTARTS = 0.0005  # of the steps the board restarts after
GIVE_UP = 200  # runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> BuildFolder:
    out = tmp_path_factory.mktemp("soak")
    path = models.save(models.mlp("N", (17, 9, 3)), out / "mlp.onnx")
    recipe = {"optimizer": "adam", "lr": 0.001, "accumulate": 2, "home_parameters": "card"}
    build(Options(path, "qemu-m7-sd", batch=2, time_limit_s=5.0, **recipe), out / "build")
    return open_folder(out / "build")


def samples() -> Dataset:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(64, 17)).astype(np.float32)
    return Dataset(x, rng.integers(0, 3, 64).astype(np.int32), 2)


def run_of(session: Session, start: int) -> TrainingRun:
    data = samples()
    return TrainingRun(session, Batches(data, 9), Position.of(data, 9, None), STEPS, EVERY, start)


def kept(board: Board) -> dict[str, bytes]:
    names = [t.name for t in board.tensors() if t.role.name in ("PARAMETER", "STATE")]
    return {name: board.read_tensor(name).tobytes() for name in names}


class Abused:
    """The run on the bad board: what happened."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.restarts = self.recoveries = self.runs = 0
        self.losses: dict[int, float] = {}
        self._random = random.Random(6)

    def restart(self, _step: int, _loss: float) -> None:
        if self._random.random() < RESTARTS:
            self.restarts += 1
            self.board.reboot()

    def train(self) -> None:
        """As a user who gives --resume again and again."""
        start = 0
        while self.runs < GIVE_UP:
            self.runs += 1
            run = run_of(Session(self.board), start)
            try:
                run.run(self.restart)
            except BoardFault:
                start = self.restored()
            else:
                return
            finally:
                self.recoveries += run.recoveries
                self.losses |= run.losses
        raise AssertionError(f"not done after {GIVE_UP} runs")

    def restored(self) -> int:
        for _ in range(GIVE_UP):
            try:
                return self.board.restore().step
            except BoardFault:
                continue
        raise AssertionError("the checkpoint does not come back")


def test_bad_card_bad_line_and_restarts_change_no_bit(
    folder: BuildFolder, tmp_path: Path, record_property
) -> None:
    with connect_twin(folder) as board:
        good = run_of(Session(board), 0)
        good.run(lambda _step, _loss: None)
        expected = kept(board)
    emulator = folder.board.emulator
    assert emulator is not None
    elf = folder.path / "firmware.elf"
    with (
        BadCard(folder.path / "card.img", tmp_path, 1, 0.0) as card,
        run_qemu(
            elf, emulator.machine, emulator.cpu, None, "socket", extra=["-drive", card.drive]
        ) as url,
        bad_line(url, seed=2, rate=FRAMES) as line,
        Board(Link(line.url, 0.1, 100, 8), 60.0) as board,
    ):
        board.require(folder.build_id)
        card.rate = TRANSFERS
        abused = Abused(board)
        abused.train()
        card.rate = 0.0
        assert board.restore().step == STEPS  # a page may have rotted since it was written
        found = kept(board)
        damaged = line.to_board.harmed + line.to_host.harmed
    record_property("steps", STEPS)
    record_property("card", f"{card.harmed} of {card.transfers} transfers harmed")
    record_property("line", f"{damaged} frames harmed")
    record_property("board", f"{abused.restarts} restarts, {abused.recoveries} recoveries")
    record_property("runs", abused.runs)
    assert found == expected
    assert abused.losses == good.losses
    assert card.harmed > STEPS // 200
    assert damaged > STEPS // 200
    assert abused.recoveries > 0
