"""What the user may choose, as plain data; the command line fills it in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from poet_mcu.errors import InputError, nearest
from poet_mcu.training.order import ORDERS
from poet_mcu.training.training import LOSSES, OPTIMIZERS

STRATEGIES = ("optimal", "keep-all", "free-early", "page-all", "recompute-all", "sqrt-checkpoints")


@dataclass(frozen=True, slots=True)
class Options:
    """Options of plan and build.

    ``ram_bytes`` None means all the RAM of the board; ``deadline_s`` None means no deadline.
    ``strategy`` 'optimal' solves the integer program; the others are the baselines, made without
    a solver, for measuring against. ``train`` and ``freeze`` are globs over initializer names.
    ``home_parameters``: where parameters and states of a block or more live, 'ram' or 'card';
    'auto' takes the card where nothing else fits. ``order`` is the order of execution of the
    training step, 'auto' the one whose plan costs least. ``max_write_bytes`` bounds what a step may
    write to the card. With ``epochs`` and ``samples`` (both or none) ``deadline_s`` is for the
    whole training: so many passes over so many samples.
    """

    model: Path
    board: str
    ram_bytes: int | None = None
    deadline_s: float | None = None
    loss: str = "cross-entropy"
    optimizer: str = "sgd"
    lr: float = 0.01
    batch: int | None = None
    train: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    batchnorm: Literal["auto", "train", "frozen"] = "auto"
    paging: bool = True
    remat: bool = True
    solver: Literal["highs", "cbc"] = "highs"
    time_limit_s: float = 60.0
    strategy: str = "optimal"
    max_write_bytes: int | None = None
    home_parameters: str = "ram"
    order: str = "given"
    epochs: int | None = None
    samples: int | None = None

    def __post_init__(self) -> None:
        _one_of("--loss", self.loss, tuple(LOSSES))
        _one_of("--optimizer", self.optimizer, tuple(OPTIMIZERS))
        _one_of("--solver", self.solver, ("highs", "cbc"))
        _one_of("--strategy", self.strategy, STRATEGIES)
        _one_of("--batchnorm", self.batchnorm, ("auto", "train", "frozen"))
        _one_of("--home-parameters", self.home_parameters, ("ram", "card", "auto"))
        _one_of("--order", self.order, (*ORDERS, "auto"))
        if self.home_parameters == "card" and not self.paging:
            raise InputError(
                "--home-parameters: expected ram with --no-paging, got card; allow the SD card"
            )
        _positive("--lr", self.lr)
        _positive("--time-limit", self.time_limit_s)
        for option, value in (
            ("--batch", self.batch),
            ("--ram", self.ram_bytes),
            ("--deadline", self.deadline_s),
            ("--epochs", self.epochs),
            ("--samples", self.samples),
        ):
            if value is not None:
                _positive(option, value)
        if (self.epochs is None) != (self.samples is None) or (
            self.epochs is not None and self.deadline_s is None
        ):
            raise InputError(
                "--epochs, --samples: expected both, with the --deadline of the whole training, "
                f"got {self.epochs}, {self.samples} and --deadline {self.deadline_s}"
            )

    def steps(self, batch: int) -> int | None:
        """Training steps of ``batch`` samples in the whole training; None when not asked for."""
        if self.epochs is None or self.samples is None:
            return None
        return self.epochs * math.ceil(self.samples / batch)

    def summary(self) -> str:
        """The options that shape the generated files, for their headers. No paths."""
        words = [f"loss={self.loss}", f"optimizer={self.optimizer}", f"lr={self.lr:g}"]
        words.append(f"batch={self.batch or 'as in the model'}")
        words.append(f"ram={self.ram_bytes if self.ram_bytes is not None else 'all'}")
        if self.max_write_bytes is not None:
            words.append(f"max-write-bytes={self.max_write_bytes}")
        if self.order != "given":
            words.append(f"order={self.order}")
        if self.home_parameters != "ram":
            words.append(f"home-parameters={self.home_parameters}")
        if self.epochs is not None:
            words.append(f"epochs={self.epochs} samples={self.samples}")
        if self.deadline_s is not None:
            words.append(f"deadline={self.deadline_s:g}s")
        words += [f"train={glob}" for glob in self.train]
        words += [f"freeze={glob}" for glob in self.freeze]
        words += [] if self.batchnorm == "auto" else [f"batchnorm={self.batchnorm}"]
        words += [] if self.paging else ["no-paging"]
        words += [] if self.remat else ["no-remat"]
        words.append(f"strategy={self.strategy}")
        return " ".join(words)


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        names = ", ".join(known)
        raise InputError(f"{option}: expected one of {names}, got '{value}'{nearest(value, known)}")


def _positive(option: str, value: float) -> None:
    if not value > 0 or value == float("inf"):
        raise InputError(f"{option}: expected a number above 0, got {value:g}")
