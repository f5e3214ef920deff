"""``train``: whole epochs on the board over the serial link, weights back into ONNX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from poet_mcu.errors import DeviceError
from poet_mcu.frontend.export import save_with_weights
from poet_mcu.pipeline.dataset import Dataset
from poet_mcu.pipeline.prepare import Prepared
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import connect, open_folder
from poet_mcu.pipeline.validate import train_data


@dataclass(frozen=True, slots=True)
class TrainProgress:
    """Where a training is: ``step`` of ``steps`` in all, the loss of the step just done."""

    epoch: int
    step: int
    steps: int
    loss: float


Watch = Callable[[TrainProgress], None]


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """``lr`` None: the build's. ``test`` is data for the accuracy before and after."""

    data: Path
    test: Path | None = None
    epochs: int = 1
    lr: float | None = None
    seed: int = 0
    save: Path | None = None


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
    """Train from the start values; the facts of the run.

    Raises DeviceError when the loss stops being finite or the board fails. Accuracy is given for
    class labels only. ``save`` gets the model with the trained weights.
    """
    build = open_folder(folder)
    prepared = build.prepared()
    data = train_data(prepared, options.data)
    test = train_data(prepared, options.test) if options.test else None
    facts: dict[str, Any] = {"board": build.board.name, "samples": data.samples}
    with connect(build, port, serial=serial) as board:
        session = Session(board)
        board.reset_model()
        facts |= _accuracy(session, test, "accuracy_before")
        losses = _epochs(session, data, options, watch)
        facts |= _accuracy(session, test, "accuracy_after")
        counters = board.counters()
        weights = session.parameters()
    last = losses[-data.steps_per_epoch :]
    facts |= {
        "steps": len(losses),
        "loss_first": losses[0],
        "loss_last": losses[-1],
        "loss_last_epoch": sum(last) / len(last),
        "stack_bytes": counters.stack_bytes,
        "stack_used_bytes": counters.stack_bytes - counters.stack_free_bytes,
    }
    if options.save is not None:
        shaped = {n: a.reshape(_shape(prepared, n)) for n, a in weights.items()}
        save_with_weights(folder / "model.onnx", shaped, options.save)
        facts["saved"] = str(options.save)
    return facts


def _accuracy(session: Session, test: Dataset | None, key: str) -> dict[str, float]:
    if test is None or not np.issubdtype(test.y.dtype, np.integer):
        return {}
    return {key: session.accuracy(test)}


def _epochs(session: Session, data: Dataset, options: TrainOptions, watch: Watch) -> list[float]:
    """The loss of every step."""
    rng = np.random.default_rng(options.seed)
    total = options.epochs * data.steps_per_epoch
    losses: list[float] = []
    for epoch in range(options.epochs):
        for x, y in data.epoch(rng):
            loss = session.train_step(x, y, options.lr).loss
            losses.append(loss)
            _require_finite(loss, len(losses))
            watch(TrainProgress(epoch, len(losses), total, loss))
    return losses


def _shape(prepared: Prepared, name: str) -> tuple[int, ...]:
    return next(v.shape for v in prepared.train.values if name in (v.origin, v.name))


def _require_finite(loss: float, step: int) -> None:
    if not np.isfinite(loss):
        raise DeviceError(
            f"training: step {step}: expected a finite loss, got {loss}; lower --lr, or check the "
            "data"
        )
