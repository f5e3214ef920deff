"""What the user may choose, as plain data; the command line fills it in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from poet_mcu.errors import InputError
from poet_mcu.training.order import ORDERS
from poet_mcu.training.recipe import Recipe, one_of, positive

STRATEGIES = ("optimal", "keep-all", "free-early", "page-all", "recompute-all", "sqrt-checkpoints")


@dataclass(frozen=True, slots=True)
class Options(Recipe):
    """Options of plan and build.

    ``ram_bytes`` None means all the RAM of the board; ``deadline_s`` None means no deadline.
    ``strategy`` 'optimal' solves the integer program; the others are the baselines, made without
    a solver, for measuring against. ``train`` and ``freeze`` are globs over initializer names;
    ``train_last`` keeps to the weights of so many last operators that have any.
    ``home_parameters``: where parameters and states of a block or more live, 'ram' or 'card';
    'auto' takes the card where nothing else fits. ``order`` is the order of execution of the
    training step, 'auto' the one whose plan costs least. ``max_write_bytes`` bounds what a step may
    write to the card. With ``epochs`` and ``samples`` (both or none) ``deadline_s`` is for the
    whole training: so many passes over so many samples. ``fuse``: join nodes whose kernels can run
    as one (training/fuse.py); the bits are the same without. ``dropout``: which Dropout nodes drop
    in training, 'model' those that say so; ``seed`` chooses their masks.
    """

    model: Path
    board: str
    ram_bytes: int | None = None
    deadline_s: float | None = None
    lr: float = 0.01
    batch: int | None = None
    train: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    batchnorm: Literal["auto", "train", "frozen"] = "auto"
    train_last: int | None = None
    paging: bool = True
    remat: bool = True
    solver: Literal["highs", "cbc"] = "highs"
    time_limit_s: float = 60.0
    strategy: str = "optimal"
    fuse: bool = True
    dropout: Literal["model", "on", "off"] = "model"
    seed: int = 0
    max_write_bytes: int | None = None
    home_parameters: str = "ram"
    order: str = "given"
    epochs: int | None = None
    samples: int | None = None

    def __post_init__(self) -> None:
        self.check()
        one_of("--solver", self.solver, ("highs", "cbc"))
        one_of("--strategy", self.strategy, STRATEGIES)
        one_of("--batchnorm", self.batchnorm, ("auto", "train", "frozen"))
        one_of("--dropout", self.dropout, ("model", "on", "off"))
        if not 0 <= self.seed < 2**31:
            raise InputError(f"--seed: expected a number in 0..2147483647, got {self.seed}")
        one_of("--home-parameters", self.home_parameters, ("ram", "card", "auto"))
        one_of("--order", self.order, (*ORDERS, "auto"))
        if self.home_parameters == "card" and not self.paging:
            raise InputError(
                "--home-parameters: expected ram with --no-paging, got card; allow the SD card"
            )
        positive("--lr", self.lr)
        positive("--time-limit", self.time_limit_s)
        for option, value in (
            ("--batch", self.batch),
            ("--ram", self.ram_bytes),
            ("--deadline", self.deadline_s),
            ("--train-last", self.train_last),
            ("--epochs", self.epochs),
            ("--samples", self.samples),
        ):
            if value is not None:
                positive(option, value)
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
        words += [
            f"{name.replace('_', '-')}={_word(value)}"
            for name, value in self.changed().items()
            if name not in ("loss", "optimizer")
        ]
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
        words += [] if self.train_last is None else [f"train-last={self.train_last}"]
        words += [] if self.paging else ["no-paging"]
        words += [] if self.remat else ["no-remat"]
        words += [] if self.fuse else ["no-fuse"]
        words += [] if self.dropout == "model" else [f"dropout={self.dropout}"]
        words += [] if self.seed == 0 else [f"seed={self.seed}"]
        words.append(f"strategy={self.strategy}")
        return " ".join(words)


#: the options beside the recipe that shape the graphs
_GRAPH = ("lr", "batch", "train", "freeze", "train_last", "batchnorm", "fuse", "dropout", "seed")


def graph_options(options: Options) -> dict[str, Any]:
    """Every option that shapes the graphs, for a file from which they can be made again."""
    return {name: getattr(options, name) for name in _graph_names()}


def _graph_names() -> tuple[str, ...]:
    """The names of those options."""
    return (*(field.name for field in fields(Recipe)), *_GRAPH)


def _fits(kind: str, value: object) -> bool:
    """Whether ``value`` is of the type that the annotation of an option names."""
    if kind.endswith(" | None"):
        return value is None or _fits(kind.removesuffix(" | None"), value)
    if kind.startswith("tuple["):
        inner = kind.removeprefix("tuple[").split(",")[0]
        return isinstance(value, tuple) and all(_fits(inner, each) for each in value)
    if isinstance(value, bool) or kind == "bool":
        return isinstance(value, bool) and kind == "bool"
    if kind in ("int", "float"):
        small = isinstance(value, int) and abs(value) < 2**53
        return small or (kind == "float" and isinstance(value, float))
    return isinstance(value, str)  # names and literals, which Options looks at itself


def options_from(kept: Mapping[str, Any], model: Path, board: str) -> Options:
    """The options that ``graph_options`` kept, after a trip through JSON.

    Raises TypeError for what it did not keep: the file may have been changed since.
    """
    if not isinstance(kept, Mapping):
        raise TypeError(f"options: {kept!r}")
    given: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in kept.items()
    }
    kinds = {field.name: str(field.type) for field in fields(Options)}
    for name, value in given.items():
        if name not in _graph_names():
            raise TypeError(f"{name}: no option of a build")
        if not _fits(kinds[name], value):
            raise TypeError(f"{name}: {kinds[name]} expected, got {value!r:.60}")
    return Options(model, board, **given)


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(_word(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
