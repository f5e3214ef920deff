"""``train``: whole epochs on the board over the serial link, weights back into ONNX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from poet_mcu.errors import InputError
from poet_mcu.frontend.export import save_with_weights
from poet_mcu.pipeline.dataset import Dataset
from poet_mcu.pipeline.position import Batches, Position
from poet_mcu.pipeline.prepare import Prepared
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import connect, open_folder
from poet_mcu.pipeline.training_run import TrainingRun
from poet_mcu.pipeline.validate import train_data


@dataclass(frozen=True, slots=True)
class TrainProgress:
    """Where a training is: ``step`` of ``steps`` in all, the loss of the step just done."""

    epoch: int
    step: int
    steps: int
    loss: float


#: what ``newer_checkpoint_damaged`` among the facts means, for people
LOST_CHECKPOINT = (
    "the board went on from an older checkpoint, as a newer one on the card is not whole: its "
    "steps were done again; look with 'poet-mcu card check', and do not trust this card"
)
Watch = Callable[[TrainProgress], None]


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """``lr`` None: the build's. ``test`` is data for the accuracy before and after.

    ``checkpoint_every``: the board writes a checkpoint after each so many steps, 0: none.
    ``resume``: go on from the newest checkpoint on the card, with the same data and seed. ``card``:
    the emulated board's card is this file, made if it does not exist, and kept.
    """

    data: Path
    test: Path | None = None
    epochs: int = 1
    lr: float | None = None
    seed: int = 0
    save: Path | None = None
    checkpoint_every: int = 0
    resume: bool = False
    card: Path | None = None


def _unwatched(_: TrainProgress) -> None:
    """Nobody looks."""


def train(
    folder: Path,
    options: TrainOptions,
    *,
    port: str | None = None,
    serial: Literal["pty", "socket"] = "pty",
    watch: Watch = _unwatched,
) -> dict[str, Any]:
    """Train from the start values, or from a checkpoint; the facts of the run.

    Raises DeviceError when the loss stops being finite or the board fails, InputError when the
    checkpoint is one of other data or another seed. Accuracy is given for class labels only.
    ``save`` gets the model with the trained weights.
    """
    build = open_folder(folder)
    prepared = build.prepared()
    data = train_data(prepared, options.data)
    test = train_data(prepared, options.test) if options.test else None
    facts: dict[str, Any] = {"board": build.board.name, "samples": data.samples}
    with connect(build, port, serial=serial, card=options.card) as board:
        session = Session.of(board, prepared)
        run, started = _start(session, data, options)
        facts |= started | _accuracy(session, test, "accuracy_before")
        run.run(lambda step, loss: watch(_progress(data, run.steps, step, loss)))
        facts |= _accuracy(session, test, "accuracy_after")
        counters = board.counters()
        weights = session.parameters()
        run.require_all_done()
    facts |= {"newer_checkpoint_damaged": True} if run.lost_checkpoint else {}
    facts |= _losses(run, data) | {
        "steps": run.steps,
        "recoveries": run.recoveries,
        "stack_bytes": counters.stack_bytes,
        "stack_used_bytes": counters.stack_bytes - counters.stack_free_bytes,
    }
    if options.save is not None:
        shaped = {n: a.reshape(_shape(prepared, n)) for n, a in weights.items()}
        save_with_weights(folder / "model.onnx", shaped, options.save)
        facts["saved"] = str(options.save)
    return facts


def _start(
    session: Session, data: Dataset, options: TrainOptions
) -> tuple[TrainingRun, dict[str, Any]]:
    """The run from the board's start values or its newest checkpoint; facts of the latter."""
    position = Position.of(data, options.seed, options.lr)
    total = options.epochs * data.steps_per_epoch
    start, facts = 0, {}
    if options.resume:
        restored = session.board.restore()
        saved = Position.unpack(restored.position)
        saved.require(data, options.seed)
        if options.lr is None:
            position = saved
        start = restored.step
        facts = {"resumed_at_step": start, "newer_checkpoint_damaged": restored.damaged}
        if start > total:
            raise InputError(
                f"--resume: --epochs: expected at least the {start} steps of the checkpoint, got "
                f"{total}; raise --epochs"
            )
    else:
        session.board.reset_model()
    batches = Batches(data, options.seed)
    every = options.checkpoint_every
    return TrainingRun(session, batches, position, total, every, start), facts


def _progress(data: Dataset, steps: int, step: int, loss: float) -> TrainProgress:
    return TrainProgress(step // data.steps_per_epoch, step + 1, steps, loss)


def _losses(run: TrainingRun, data: Dataset) -> dict[str, float | None]:
    """Losses of the steps of this run; None where a checkpoint held them all."""
    losses = [run.losses[step] for step in sorted(run.losses)]
    last = losses[-data.steps_per_epoch :]
    return {
        "loss_first": losses[0] if losses else None,
        "loss_last": losses[-1] if losses else None,
        "loss_last_epoch": sum(last) / len(last) if losses else None,
    }


def _accuracy(session: Session, test: Dataset | None, key: str) -> dict[str, float]:
    if test is None or not np.issubdtype(test.y.dtype, np.integer):
        return {}
    return {key: session.accuracy(test)}


def _shape(prepared: Prepared, name: str) -> tuple[int, ...]:
    return next(v.shape for v in prepared.train.values if name in (v.origin, v.name))
