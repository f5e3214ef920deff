"""What the user may choose, as plain data; the command line fills it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from poet_mcu.training.recipe import Recipe, one_of, positive

STRATEGIES = ("optimal", "keep-all", "free-early", "page-all", "recompute-all")


@dataclass(frozen=True, slots=True)
class Options(Recipe):
    """Options of plan and build.

    ``ram_bytes`` None means all the RAM of the board; ``deadline_s`` None means no deadline.
    ``strategy`` 'optimal' solves the integer program; the others are the baselines, made without
    a solver, for measuring against. ``train`` and ``freeze`` are globs over initializer names;
    ``train_last`` keeps to the weights of so many last operators that have any.
    """

    model: Path
    board: str
    ram_bytes: int | None = None
    deadline_s: float | None = None
    lr: float = 0.01
    batch: int | None = None
    train: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    train_last: int | None = None
    paging: bool = True
    remat: bool = True
    solver: Literal["highs", "cbc"] = "highs"
    time_limit_s: float = 60.0
    strategy: str = "optimal"

    def __post_init__(self) -> None:
        self.check()
        one_of("--solver", self.solver, ("highs", "cbc"))
        one_of("--strategy", self.strategy, STRATEGIES)
        positive("--lr", self.lr)
        positive("--time-limit", self.time_limit_s)
        for option, value in (
            ("--batch", self.batch),
            ("--ram", self.ram_bytes),
            ("--deadline", self.deadline_s),
            ("--train-last", self.train_last),
        ):
            if value is not None:
                positive(option, value)

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
        if self.deadline_s is not None:
            words.append(f"deadline={self.deadline_s:g}s")
        words += [f"train={glob}" for glob in self.train]
        words += [f"freeze={glob}" for glob in self.freeze]
        words += [] if self.train_last is None else [f"train-last={self.train_last}"]
        words += [] if self.paging else ["no-paging"]
        words += [] if self.remat else ["no-remat"]
        words.append(f"strategy={self.strategy}")
        return " ".join(words)


#: the options beside the recipe that shape the graphs
_GRAPH = ("lr", "batch", "train", "freeze", "train_last")


def graph_options(options: Options) -> dict[str, Any]:
    """Every option that shapes the graphs, for a file from which they can be made again."""
    names = [field.name for field in fields(Recipe)] + list(_GRAPH)
    return {name: getattr(options, name) for name in names}


def options_from(kept: Mapping[str, Any], model: Path, board: str) -> Options:
    """The options that ``graph_options`` kept, after a trip through JSON."""
    given: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in kept.items()
    }
    return Options(model, board, **given)


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(_word(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
