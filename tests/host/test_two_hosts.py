"""Two hosts on one line that knows no lock: told before a step meets the other's inputs.

A step that the other one does is a step of the board, and may get into a checkpoint: nobody can
tell it from one's own afterwards. What stands here is that the first host ends, and where.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from test_link_faults import (
    EVERY,
    STEPS,
    Batches,
    Outcome,
    client,
    data,
    folder,
    nothing,
    outcome,
    run_of,
    undisturbed,
)
from trainer.shared_line import shared_line

from poet_mcu.errors import DeviceError
from poet_mcu.link.client import Board
from poet_mcu.link.emulator import run_host
from poet_mcu.link.protocol import TensorRole
from poet_mcu.pipeline.dataset import Dataset
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import BuildFolder
from poet_mcu.pipeline.training_run import TrainingRun

__all__ = ["data", "folder", "undisturbed"]  # fixtures
ANOTHER = "another program talks with the board on the same line"
AT = 5  # the step after which the other comes: between two checkpoints
Intrusion = Callable[[Board, Batches], object]


def writes(board: Board, work: Batches) -> None:
    x, _ = work.at(7)
    board.write_tensor(Session(board)._the(TensorRole.INPUT).name, x)


def trains(board: Board, work: Batches) -> None:
    Session(board).train_step(*work.at(7))


#: what leaves the first host's checkpoints as they are
HARMLESS: dict[str, Intrusion] = {
    "asks who is there": lambda _board, _work: None,
    "writes inputs": writes,
    "starts over": lambda board, _work: board.reset_model(),
    "goes back to the checkpoint": lambda board, _work: board.restore(),
}
INTRUSIONS = HARMLESS | {"trains a step": trains}


def goes_on_alone(url: str, folder: BuildFolder, data: Dataset, run: TrainingRun) -> Outcome:
    """What ``--resume`` does, with the line to itself."""
    with client(url, folder.build_id) as board:
        start = board.restore().step
        rest = TrainingRun(
            Session(board), Batches(data, 1), run.position, STEPS, EVERY, start, run.losses
        )
        rest.run(nothing)
        return outcome(board, rest)


@pytest.mark.parametrize("intrusion", INTRUSIONS)
def test_the_first_host_ends_before_a_step_of_the_others(
    folder: BuildFolder,
    data: Dataset,
    undisturbed: Outcome,
    tmp_path: Path,
    intrusion: str,
) -> None:
    card = tmp_path / "card.img"
    card.write_bytes((folder.path / "card.img").read_bytes())
    with run_host(folder.path / "firmware.elf", card) as target, shared_line(target) as line:
        with client(line.url, folder.build_id) as board:
            run = run_of(board, data, EVERY)

            def intrude(step: int, _loss: float) -> None:
                if step == AT:
                    with client(line.url, folder.build_id) as other:
                        INTRUSIONS[intrusion](other, Batches(data, 1))

            with pytest.raises(DeviceError, match=ANOTHER):
                run.run(intrude)
        assert run.losses == {step: undisturbed[1][step] for step in range(AT + 1)}
        if intrusion in HARMLESS:
            assert goes_on_alone(line.url, folder, data, run) == undisturbed


def test_two_trainings_at_once_end_both_or_leave_one_alone(
    folder: BuildFolder, data: Dataset, undisturbed: Outcome, tmp_path: Path
) -> None:
    """Whoever comes second is seen by the first, and sees the first as soon as it trains."""
    card = tmp_path / "card.img"
    card.write_bytes((folder.path / "card.img").read_bytes())
    errors: list[str] = []

    def second(url: str) -> None:
        try:
            with client(url, folder.build_id) as other:
                run_of(other, data).run(nothing)
        except DeviceError as error:
            errors.append(str(error))

    with run_host(folder.path / "firmware.elf", card) as target, shared_line(target) as line:
        thread = threading.Thread(target=second, args=(line.url,), daemon=True)
        with client(line.url, folder.build_id) as board:
            run = run_of(board, data, EVERY)

            def begin(step: int, _loss: float) -> None:
                if step == 2:
                    thread.start()
                    thread.join(0.2)

            with pytest.raises(DeviceError, match=ANOTHER):
                run.run(begin)
        thread.join(20.0)
        assert not thread.is_alive()
        assert all(ANOTHER in error for error in errors)
        assert all(run.losses[step] == undisturbed[1][step] for step in run.losses)
