"""Power cuts of an emulated board, at every block it writes, and boards that restart.

QEMU logs each block that the firmware writes through the real SD driver. From the log the card is
made as a power cut at write n would have left it; a board that starts with it must be at the last
acknowledged checkpoint or a newer whole one, and come to the bits of the undisturbed run.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import models
import numpy as np
import pytest

from poet_mcu.link import status
from poet_mcu.link.card_image import SLOT_MAGIC, read_card
from poet_mcu.link.client import Board, open_board
from poet_mcu.link.emulator import run_host, run_qemu
from poet_mcu.link.protocol import Restored
from poet_mcu.link.transport import BoardFault
from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.position import Batches, Position
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import BuildFolder, connect, open_folder
from poet_mcu.pipeline.train import TrainOptions, TrainProgress, train
from poet_mcu.pipeline.training_run import TrainingRun
from poet_mcu.pipeline.validate import batches, train_data

pytestmark = pytest.mark.qemu

BOARD = "qemu-lm3s6965evb"
STEPS, EVERY = 6, 2
BLOCK = 512
#: of the block on its way: bytes that are new, and what the rest is (None: as it was)
TEARS = ((0, None), (1, None), (100, None), (256, 0x5A), (511, None), (512, None))
Weights = dict[str, bytes]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> BuildFolder:
    """Adam, sums of half an update, large values at home on the card."""
    out = tmp_path_factory.mktemp("power")
    path = models.save(models.mlp("N", (17, 9, 3)), out / "mlp.onnx")
    recipe = {"optimizer": "adam", "lr": 0.01, "accumulate": 3, "home_parameters": "card"}
    build(Options(path, BOARD, batch=2, time_limit_s=5.0, **recipe), out / "build")
    return open_folder(out / "build")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("data") / "d.npz"
    x = rng.normal(size=(8, 17)).astype(np.float32)
    np.savez(path, x=x, y=rng.integers(0, 3, 8).astype(np.int32))
    return path


@contextmanager
def emulated(folder: BuildFolder, image: Path, log: Path | None = None) -> Iterator[Board]:
    emulator = folder.board.emulator
    assert emulator is not None
    extra: list[str] = []
    if log is not None:
        log.touch()
        drive = f"if=sd,driver=blklogwrites,file.driver=file,file.filename={image}"
        extra = ["-drive", f"{drive},log.driver=file,log.filename={log}"]
    elf = folder.path / "firmware.elf"
    card = image if log is None else None
    with (
        run_qemu(elf, emulator.machine, emulator.cpu or None, card, extra=extra) as url,
        open_board(url, build_id=folder.build_id) as board,
    ):
        yield board


@contextmanager
def twin(folder: BuildFolder, image: Path) -> Iterator[Board]:
    with (
        run_host(folder.path / "host" / "firmware", image) as url,
        open_board(url, build_id=folder.build_id) as board,
    ):
        yield board


def kept(board: Board) -> Weights:
    roles = ("PARAMETER", "STATE")
    names = [t.name for t in board.tensors() if t.role.name in roles]
    return {name: board.read_tensor(name).tobytes() for name in names}


def writes_in(log: Path) -> list[tuple[int, bytes]]:
    """Blocks written, in order: dm-log-writes, entries of one sector and their data."""
    raw = log.read_bytes()
    found, at = [], BLOCK
    while at + BLOCK <= len(raw):
        sector, count, _, _ = struct.unpack_from("<4Q", raw, at)
        at += BLOCK
        ends = range(at + BLOCK, at + (count + 1) * BLOCK, BLOCK)
        found += [(sector + i, raw[end - BLOCK : end]) for i, end in enumerate(ends)]
        at += count * BLOCK
    return found


@dataclass(frozen=True)
class Logged:
    """A run on the emulator: what it wrote, and how much of it before each acknowledgement."""

    start: Path
    writes: list[tuple[int, bytes]]
    acknowledged: tuple[tuple[int, int], ...]  # writes, step of the checkpoint
    weights: list[Weights]  # after each step


@pytest.fixture(scope="module")
def logged(folder: BuildFolder, tmp_path_factory: pytest.TempPathFactory) -> Logged:
    scratch = tmp_path_factory.mktemp("logged")
    image, start, log = scratch / "card.img", scratch / "start.img", scratch / "log"
    shutil.copyfile(folder.path / "card.img", image)
    shutil.copyfile(image, start)
    acknowledged = [(0, 0)]
    with emulated(folder, image, log) as board:
        session = Session(board)
        board.plan_checkpoints(EVERY, b"where")
        weights = [kept(board)]
        for step, (x, y) in enumerate(batches(folder.prepared(), None, STEPS), 1):
            session.train_step(x, y)
            if step % EVERY == 0:
                acknowledged.append((len(writes_in(log)), step))
            weights.append(kept(board))
    return Logged(start, writes_in(log), tuple(acknowledged), weights)


def in_header(logged: Logged, n: int) -> bool:
    """Whether write n erases or writes the header of a checkpoint, which a cut tears."""
    headers = {block for block, content in logged.writes if content.startswith(SLOT_MAGIC)}
    return logged.writes[n][0] in headers


def cut(logged: Logged, n: int, target: Path) -> int:
    """The card after a cut in write n, in ``target``; the step of the last acknowledgement."""
    shutil.copyfile(logged.start, target)
    new, filler = TEARS[n % len(TEARS)]
    with target.open("r+b") as card:
        for block, content in logged.writes[:n]:
            card.seek(block * BLOCK)
            card.write(content)
        block, content = logged.writes[n]
        card.seek(block * BLOCK)
        old = card.read(BLOCK) if filler is None else bytes([filler]) * BLOCK
        card.seek(block * BLOCK)
        card.write(content[:new] + old[new:])
    return max(step for count, step in logged.acknowledged if count <= n)


def doubtful(image: Path) -> bool:
    """Whether the host says of a card that a newer checkpoint may be lost."""
    return read_card(image).doubtful is not None


def restore(board: Board) -> Restored | None:
    """None: the card says that there is no checkpoint."""
    try:
        return board.restore()
    except BoardFault as error:
        if error.answer.status != status.E_CHECKPOINT:
            raise
        return None


def resume(
    folder: BuildFolder, board: Board, logged: Logged, acknowledged: int, *, doubt: bool
) -> int:
    """Restore, train to the end, compare every bit; the step it went on from.

    ``doubt``: the host finds in the card's image that a newer checkpoint may be lost, and so must
    the board.
    """
    restored = restore(board)
    if restored is None:
        board.reset_model()
    else:
        assert restored.position == b"where".ljust(16, b"\0")
        assert restored.damaged == doubt
    step = restored.step if restored else 0
    assert acknowledged <= step <= acknowledged + EVERY
    assert step % EVERY == 0
    assert kept(board) == logged.weights[step]
    for x, y in batches(folder.prepared(), None, STEPS)[step:]:
        Session(board).train_step(x, y)
    assert board.identify().steps_done == STEPS
    assert kept(board) == logged.weights[STEPS]
    return step


def test_a_cut_at_every_write_resumed_on_the_host(
    folder: BuildFolder, logged: Logged, tmp_path: Path
) -> None:
    """What the emulated board had written is taken up by the same program on this machine."""
    assert logged.weights[0] != logged.weights[STEPS]
    steps = []
    with twin(folder, shutil.copyfile(logged.start, tmp_path / "card.img")) as board:
        for n in range(len(logged.writes)):
            acknowledged = cut(logged, n, tmp_path / "card.img")
            steps.append(
                resume(folder, board, logged, acknowledged, doubt=doubtful(tmp_path / "card.img"))
            )
    assert len(steps) == len(logged.writes) > 100
    assert set(steps) == set(range(0, STEPS + 1, EVERY))


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 23])
def test_a_cut_resumed_on_the_emulator(
    folder: BuildFolder, logged: Logged, tmp_path: Path, every: int
) -> None:
    """The board itself starts from each of these cards."""
    for n in range(0, len(logged.writes), every):
        acknowledged = cut(logged, n, tmp_path / "card.img")
        with emulated(folder, tmp_path / "card.img") as board:
            resume(folder, board, logged, acknowledged, doubt=doubtful(tmp_path / "card.img"))


def test_the_host_reads_what_the_board_wrote(
    folder: BuildFolder, logged: Logged, tmp_path: Path
) -> None:
    """At every cut the host tool takes the checkpoint that the board takes."""
    found, torn = set(), 0
    for n in range(len(logged.writes)):
        acknowledged = cut(logged, n, tmp_path / "card.img")
        card = read_card(tmp_path / "card.img")
        states = {slot.state for slot in card.slots}
        assert states <= {"whole", "empty", *(["torn"] if in_header(logged, n) else [])}
        torn += "torn" in states
        newest = card.newest
        found.add(newest.step if newest else 0)
        assert acknowledged <= (newest.step if newest else 0) <= acknowledged + EVERY
    assert found == set(range(0, STEPS + 1, EVERY))
    assert 0 < torn <= 4 * STEPS // EVERY


class Killed(Exception):
    """The test ends the emulator."""


def test_training_killed_and_resumed_gives_the_same_weights(
    folder: BuildFolder, data: Path, tmp_path: Path
) -> None:
    """The emulator ends in the middle of an epoch and starts again with the same card."""

    def stop(now: TrainProgress) -> None:
        if now.step == 7:
            raise Killed

    whole, parts = tmp_path / "whole.onnx", tmp_path / "parts.onnx"
    options = {"epochs": 3, "seed": 5, "lr": 0.02}
    once = train(folder.path, TrainOptions(data, save=whole, **options))
    card = {"checkpoint_every": 3, "card": tmp_path / "card.img"}
    with pytest.raises(Killed):
        train(folder.path, TrainOptions(data, **options, **card), watch=stop)
    options["lr"] = None  # the checkpoint knows it
    again = train(folder.path, TrainOptions(data, save=parts, resume=True, **options, **card))
    assert (once["steps"], again["steps"], again["resumed_at_step"]) == (12, 12, 6)
    assert again["loss_last"] == once["loss_last"]
    assert parts.read_bytes() == whole.read_bytes()


def test_a_board_that_restarts_goes_back_by_itself(folder: BuildFolder, data: Path) -> None:
    """No step is counted twice, none is left out."""
    samples = train_data(folder.prepared(), data)
    outcomes = []
    for restarts in (set(), {0, 4, 5, 10}):
        with connect(folder, None) as board:
            session = Session(board)
            position = Position.of(samples, 1, None)
            board.reset_model()
            run = TrainingRun(session, Batches(samples, 1), position, 11, 2, 0)
            left = set(restarts)

            def restart(step: int, _loss: float, board: Board = board, left: set = left) -> None:
                if step in left:
                    left.remove(step)
                    board.reboot()

            if 10 in restarts:
                with pytest.raises(Exception, match="expected 11 steps done, got 0"):
                    run.run(restart)
                assert board.restore().step == 11
            else:
                run.run(restart)
            outcomes.append((kept(board), [run.losses[step] for step in range(11)]))
            assert run.recoveries == len(restarts - {10})
    assert outcomes[0] == outcomes[1]
