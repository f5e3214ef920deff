"""The line between host and board fails in every way we could think of: recovered from, or told.

docs/faults.md has the table. What must hold: the bits of an undisturbed training, no step counted
twice, or an error that says what happened.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import models
import numpy as np
import pytest
from trainer.faulty import HARMS, Proxy, faulty_line

from poet_mcu.errors import DeviceError
from poet_mcu.link.client import Board, open_board
from poet_mcu.link.emulator import run_host
from poet_mcu.link.frame import Frame, encode_frame
from poet_mcu.link.protocol import Message, TensorRole, pack_train_step
from poet_mcu.link.transport import Link, Port
from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.dataset import Dataset
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.position import Batches, Position
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import BuildFolder, open_folder
from poet_mcu.pipeline.train import TrainOptions
from poet_mcu.pipeline.training_run import Restarted, TrainingRun
from poet_mcu.pipeline.validate import train_data

STEPS, EVERY = 8, 2
WINDOW = 4
Outcome = tuple[dict[str, bytes], list[float]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> BuildFolder:
    where = tmp_path_factory.mktemp("line")
    path = models.save(models.mlp("N"), where / "mlp.onnx")
    options = Options(path, "host", batch=2, optimizer="momentum", lr=0.1)
    build(options, where / "build")
    return open_folder(where / "build")


@pytest.fixture(scope="module")
def data(folder: BuildFolder, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("data") / "d.npz"
    x = rng.normal(size=(STEPS, 6)).astype(np.float32)
    np.savez(path, x=x, y=rng.integers(0, 4, STEPS).astype(np.int32))
    return train_data(folder.prepared(), TrainOptions(path).data)


@dataclass
class Rig:
    """The firmware as a process, which can be killed and started again, behind a line."""

    folder: BuildFolder
    card: Path
    kind: str = "bytes lost"
    rate: float = 0.0
    stack: ExitStack = field(default_factory=ExitStack)
    proxy: Proxy | None = None

    def start(self) -> str:
        return self.stack.enter_context(run_host(self.folder.path / "firmware.elf", self.card))

    def restart(self) -> None:
        """What a reset button does."""
        self.stack.close()
        assert self.proxy is not None
        self.proxy.board_is_now(self.start())


@contextmanager
def rig(folder: BuildFolder, where: Path, kind: str = "bytes lost", rate: float = 0.0):
    card = where / f"card-{random.randrange(2**32)}.img"
    card.write_bytes((folder.path / "card.img").read_bytes())
    made = Rig(folder, card)
    with made.stack, faulty_line(made.start(), kind, rate) as made.proxy:
        yield made


@contextmanager
def client(url: str, build_id: bytes, repeat_s: float = 0.1) -> Iterator[Board]:
    with Board(Link(url, repeat_s, 60, WINDOW), 20.0) as board:
        board.require(build_id)
        yield board


def run_of(board: Board, data: Dataset, every: int = 0) -> TrainingRun:
    board.reset_model()
    return TrainingRun(
        Session(board), Batches(data, 1), Position.of(data, 1, None), STEPS, every, 0
    )


def outcome(board: Board, run: TrainingRun) -> Outcome:
    weights = {name: a.tobytes() for name, a in Session(board).parameters().items()}
    return weights, [run.losses[step] for step in range(STEPS)]


def nothing(_step: int, _loss: float) -> None:
    """Nobody looks."""


@pytest.fixture(scope="module")
def undisturbed(folder: BuildFolder, data: Dataset, tmp_path_factory) -> Outcome:
    with (
        rig(folder, tmp_path_factory.mktemp("once")) as made,
        client(made.proxy.url, folder.build_id) as board,
    ):
        run = run_of(board, data)
        run.run(nothing)
        return outcome(board, run)


@pytest.mark.parametrize("kind", HARMS)
def test_a_harmed_line_trains_the_same_bits(
    folder: BuildFolder, data: Dataset, undisturbed: Outcome, tmp_path: Path, kind: str
) -> None:
    with (
        rig(folder, tmp_path, kind, 0.04) as made,
        client(made.proxy.url, folder.build_id) as board,
    ):
        run = run_of(board, data, EVERY)
        run.run(nothing)
        assert outcome(board, run) == undisturbed
        assert board.counters().steps == STEPS
        assert made.proxy.to_board.harmed > 0
        assert made.proxy.to_host.harmed > 0
        assert run.recoveries == 0  # the line's repetition is enough, no checkpoint is needed


# ---- the host goes away ----


def test_a_killed_host_leaves_a_step_that_its_successor_finds(
    folder: BuildFolder, data: Dataset, undisturbed: Outcome, tmp_path: Path
) -> None:
    """Killed while a step runs, and in the middle of a request: the step is done once."""
    card = tmp_path / "card.img"
    card.write_bytes((folder.path / "card.img").read_bytes())
    work = Batches(data, 1)
    step = encode_frame(Frame(Message.TRAIN_STEP, 7, pack_train_step(1, 0.1, trace=False)))
    with run_host(folder.path / "firmware.elf", card) as url:
        with client(url, folder.build_id) as board:
            board.reset_model()
            session = Session(board)
            session.train_step(*work.at(0))
            x, y = work.at(1)
            board._write_all({session._the(TensorRole.INPUT).name: x})
            board._write_all({session._the(TensorRole.LABEL).name: y})
            board._link._port.write(step + step[: len(step) // 2])
        with client(url, folder.build_id) as board:
            assert board.steps_done == 2
            # The answer that nobody heard: the loss of that step, which is not done again.
            assert board.train_step(lr=0.1, step=1).loss == undisturbed[1][1]
            assert board.counters().steps == 2


def test_a_restarted_host_resumes_from_the_checkpoint(
    folder: BuildFolder, data: Dataset, undisturbed: Outcome, tmp_path: Path
) -> None:
    class Killed(Exception):
        pass

    def kill(step: int, _loss: float) -> None:
        if step == 4:
            raise Killed

    card = tmp_path / "card.img"
    card.write_bytes((folder.path / "card.img").read_bytes())
    with run_host(folder.path / "firmware.elf", card) as url:
        with client(url, folder.build_id) as board:
            run = run_of(board, data, EVERY)
            with pytest.raises(Killed):
                run.run(kill)
        with client(url, folder.build_id) as board:
            assert board.steps_done == 5
            start = board.restore().step
            assert start == 4
            rest = TrainingRun(
                Session(board), Batches(data, 1), run.position, STEPS, EVERY, start, run.losses
            )
            rest.run(nothing)
            assert outcome(board, rest) == undisturbed


# ---- the board restarts ----


def restarting(board: Board, made: Rig, before: set[tuple[int, Message]]) -> None:
    """Let the board restart before the first request of that kind at that step."""
    exchange = board._link.exchange

    def harmful(requests, on_event=None):
        key = (board.steps_done, requests[0].message) if requests else None
        if key in before:
            before.remove(key)
            made.restart()
        return exchange(requests, on_event)

    board._link.exchange = harmful  # type: ignore[method-assign]


RESTARTS = {
    "before the first inputs": {(0, Message.WRITE)},
    "between the first inputs and the step": {(0, Message.TRAIN_STEP)},
    "before later inputs": {(3, Message.WRITE)},
    "between later inputs and the step": {(5, Message.TRAIN_STEP)},
    "before a checkpoint": {(4, Message.CHECKPOINT)},
    "three times": {(0, Message.TRAIN_STEP), (3, Message.WRITE), (6, Message.TRAIN_STEP)},
}


@pytest.mark.parametrize("where", RESTARTS)
def test_a_board_that_restarts_is_led_back_to_the_same_bits(
    folder: BuildFolder, data: Dataset, undisturbed: Outcome, tmp_path: Path, where: str
) -> None:
    with rig(folder, tmp_path) as made, client(made.proxy.url, folder.build_id) as board:
        run = run_of(board, data, EVERY)
        left = set(RESTARTS[where])
        restarting(board, made, left)
        run.run(nothing)
        assert not left
        assert outcome(board, run) == undisturbed
        assert board.identify().steps_done == STEPS
        assert run.recoveries >= 1


@pytest.mark.parametrize("where", [name for name in RESTARTS if "three" not in name])
def test_without_checkpoints_a_restart_ends_the_training_and_is_named(
    folder: BuildFolder, data: Dataset, tmp_path: Path, where: str
) -> None:
    with rig(folder, tmp_path) as made, client(made.proxy.url, folder.build_id) as board:
        run = run_of(board, data)
        left = {key for key in RESTARTS[where] if key[1] is not Message.CHECKPOINT}
        left = left or {(4, Message.WRITE)}
        restarting(board, made, left)
        with pytest.raises(Restarted, match="expected a board that runs on, got one that has"):
            run.run(nothing)


# ---- two hosts ----


def test_a_second_host_gets_an_error_and_the_first_its_bits(
    folder: BuildFolder, data: Dataset, undisturbed: Outcome, tmp_path: Path
) -> None:
    card = tmp_path / "card.img"
    card.write_bytes((folder.path / "card.img").read_bytes())
    with run_host(folder.path / "firmware.elf", card) as url:
        with client(url, folder.build_id) as board:
            run = run_of(board, data)

            def intrude(step: int, _loss: float) -> None:
                if step == 3:
                    with pytest.raises(DeviceError, match="IDENTIFY: expected an answer within"):
                        open_board(url, 0.05)

            run.run(intrude)
            assert outcome(board, run) == undisturbed
        with client(url, folder.build_id) as board:  # the first has gone
            assert board.steps_done == STEPS


def test_a_serial_port_belongs_to_one_host() -> None:
    master, slave = os.openpty()
    try:
        name = os.ttyname(slave)
        with (
            Link(name, 0.1, 1),
            pytest.raises(DeviceError, match="no other program has it open"),
        ):
            Port(name, 1.0)
        Port(name, 1.0).close()
    finally:
        os.close(master)
        os.close(slave)


# ---- no board at all ----


@contextmanager
def talker(says: Callable[[], bytes]) -> Iterator[str]:
    """Something that talks without being asked, until the other side leaves."""
    listener = socket.create_server(("127.0.0.1", 0))

    done = threading.Event()

    def serve() -> None:
        with suppress(OSError):
            line, _ = listener.accept()
            with line:
                while not done.wait(0.005):
                    line.sendall(says())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"socket://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        done.set()
        listener.close()
        thread.join(5.0)
        assert not thread.is_alive()


RNG = random.Random(5)
NOISE: dict[str, tuple[Callable[[], bytes], str]] = {
    "random bytes": (lambda: RNG.randbytes(50), r"got none, and \d+ damaged frames"),
    "the line held low: zeros": (lambda: bytes(20), "got serial silence"),
    "the wrong speed: no zeros": (
        lambda: bytes(RNG.randrange(1, 256) for _ in range(50)),
        "got none, but bytes that are no frame",
    ),
    "another program's text": (lambda: b"AT+OK\r\n", "got none, but bytes that are no frame"),
}


@pytest.mark.parametrize("kind", NOISE)
def test_noise_is_told_in_time(kind: str) -> None:
    says, message = NOISE[kind]
    start = time.monotonic()
    with talker(says) as url, pytest.raises(DeviceError, match=message) as error:
        open_board(url, 0.05)
    assert "115200 baud" in str(error.value)
    assert time.monotonic() - start < 10.0


@pytest.mark.parametrize("inside", [b"", b"\0\x05half a frame"])
def test_the_report_of_a_stopped_board_is_told_at_once(inside: bytes) -> None:
    """A step may take minutes: nobody waits for them when the board says that it has stopped."""
    report = b"\r\npoet: stack overflow sp=1ffffff0 pc=00001234 lr=00000101 cfsr=00000082\r\n"
    parts = [inside + report[:30], report[30:]]
    start = time.monotonic()
    with (
        talker(lambda: parts.pop(0) if parts else b"") as url,
        pytest.raises(DeviceError, match=r"got 'poet: stack overflow sp=1ffffff0 .* has stopped"),
        Board(Link(url, 1.0, 8), 600.0) as board,
    ):
        board.train_step(step=0, lr=0.1)
    assert time.monotonic() - start < 10.0
