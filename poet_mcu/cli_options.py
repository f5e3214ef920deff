"""The options that plan and build share: declared once, put in front of each command's own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from poet_mcu.errors import InputError
from poet_mcu.pipeline.options import Options
from poet_mcu.units import parse_bytes, parse_seconds

ModelArg = Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file.")]
BoardOpt = Annotated[str, typer.Option("--board", help="A board's name, or a board file.")]
RamOpt = Annotated[
    str | None,
    typer.Option("--ram", help="Budget for everything in RAM, e.g. 48K. Default: all of it."),
]
DeadlineOpt = Annotated[
    str | None, typer.Option("--deadline", help="Longest training step, e.g. 500ms.")
]
LossOpt = Annotated[
    str, typer.Option("--loss", help="cross-entropy, bce, mse, l1, huber, or none.")
]
ClassWeightsOpt = Annotated[
    str | None, typer.Option("--class-weights", help="One number a class, e.g. 1,2.5,1.")
]
SmoothingOpt = Annotated[float, typer.Option("--label-smoothing", help="Of cross-entropy.")]
DeltaOpt = Annotated[float, typer.Option("--huber-delta", help="Where Huber's loss turns linear.")]
OptimizerOpt = Annotated[
    str,
    typer.Option("--optimizer", help="sgd, momentum, nesterov, adam, adamw, or rmsprop."),
]
MomentumOpt = Annotated[float, typer.Option("--momentum", help="Of momentum and nesterov.")]
Beta1Opt = Annotated[float, typer.Option("--beta1", help="Of adam and adamw.")]
Beta2Opt = Annotated[float, typer.Option("--beta2", help="Of adam and adamw.")]
AlphaOpt = Annotated[float, typer.Option("--alpha", help="Of rmsprop.")]
EpsOpt = Annotated[float, typer.Option("--eps", help="Of adam, adamw and rmsprop.")]
DecayOpt = Annotated[
    float | None,
    typer.Option("--weight-decay", help="Default: 0, of adamw 0.01 (decoupled there)."),
]
ClipOpt = Annotated[
    float | None, typer.Option("--clip-norm", help="Largest norm of all gradients together.")
]
LrOpt = Annotated[float, typer.Option("--lr", help="Learning rate.")]
ScheduleOpt = Annotated[str, typer.Option("--lr-schedule", help="constant, step, or cosine.")]
WarmupOpt = Annotated[int, typer.Option("--warmup", help="Updates of linear rise first.")]
TotalOpt = Annotated[
    int | None, typer.Option("--total-steps", help="Updates until the cosine's end.")
]
LrStepOpt = Annotated[
    int | None, typer.Option("--lr-step", help="Updates between two falls of the step schedule.")
]
LrGammaOpt = Annotated[float, typer.Option("--lr-gamma", help="Factor of each such fall.")]
LrFloorOpt = Annotated[float, typer.Option("--lr-floor", help="Share of --lr at the cosine's end.")]
BatchOpt = Annotated[int | None, typer.Option("--batch", help="Samples in a step.")]
AccumulateOpt = Annotated[int, typer.Option("--accumulate", help="Steps for one update.")]
TrainOpt = Annotated[
    list[str] | None, typer.Option("--train", help="Train only weights that match this glob.")
]
FreezeOpt = Annotated[
    list[str] | None, typer.Option("--freeze", help="Do not train weights that match this glob.")
]
TrainLastOpt = Annotated[
    int | None, typer.Option("--train-last", help="Train only the last K operators with weights.")
]
BatchnormOpt = Annotated[
    str,
    typer.Option(
        "--batchnorm",
        help="auto, train (statistics of the batch) or frozen (the stored ones).",
    ),
]
PagingOpt = Annotated[bool, typer.Option("--paging/--no-paging", help="Allow the SD card.")]
RematOpt = Annotated[bool, typer.Option("--remat/--no-remat", help="Allow recomputation.")]
FuseOpt = Annotated[
    bool, typer.Option("--fuse/--no-fuse", help="Join nodes whose kernels can run as one.")
]
DropoutOpt = Annotated[
    str, typer.Option("--dropout", help="Dropout in training: model (as it says), on, or off.")
]
SeedOpt = Annotated[int, typer.Option("--seed", help="Of the masks of Dropout.")]
SolverOpt = Annotated[str, typer.Option("--solver", help="highs or cbc.")]
LimitOpt = Annotated[str, typer.Option("--time-limit", help="Limit of each solve, e.g. 60s.")]
StrategyOpt = Annotated[
    str,
    typer.Option(
        "--strategy",
        help="optimal, or a baseline to measure: keep-all, page-all, recompute-all, ...",
    ),
]


def declared(
    model: ModelArg,
    board: BoardOpt,
    ram: RamOpt = None,
    deadline: DeadlineOpt = None,
    loss: LossOpt = "cross-entropy",
    class_weights: ClassWeightsOpt = None,
    label_smoothing: SmoothingOpt = 0.0,
    huber_delta: DeltaOpt = 1.0,
    optimizer: OptimizerOpt = "sgd",
    momentum: MomentumOpt = 0.9,
    beta1: Beta1Opt = 0.9,
    beta2: Beta2Opt = 0.999,
    alpha: AlphaOpt = 0.99,
    eps: EpsOpt = 1e-8,
    weight_decay: DecayOpt = None,
    clip_norm: ClipOpt = None,
    lr: LrOpt = 0.01,
    lr_schedule: ScheduleOpt = "constant",
    warmup: WarmupOpt = 0,
    total_steps: TotalOpt = None,
    lr_step: LrStepOpt = None,
    lr_gamma: LrGammaOpt = 0.1,
    lr_floor: LrFloorOpt = 0.0,
    batch: BatchOpt = None,
    accumulate: AccumulateOpt = 1,
    train: TrainOpt = None,
    freeze: FreezeOpt = None,
    train_last: TrainLastOpt = None,
    batchnorm: BatchnormOpt = "auto",
    paging: PagingOpt = True,
    remat: RematOpt = True,
    fuse: FuseOpt = True,
    dropout: DropoutOpt = "model",
    seed: SeedOpt = 0,
    solver: SolverOpt = "highs",
    time_limit: LimitOpt = "60s",
    strategy: StrategyOpt = "optimal",
) -> None:
    """The names, types, defaults and help of the options; never called."""


_DECLARED = inspect.signature(declared)


@dataclass(frozen=True, slots=True)
class Given:
    """The words of a command line, by the names of the declared options."""

    words: Mapping[str, Any]

    def options(self, **more: Any) -> Options:
        """The options, with ``more`` of them. Raises InputError for words that mean nothing."""
        given = {**self.words, **more}
        ram, deadline = given.pop("ram"), given.pop("deadline")
        weights, limit = given.pop("class_weights"), given.pop("time_limit")
        for name in ("train", "freeze"):
            given[name] = tuple(given[name] or ())
        return Options(
            ram_bytes=None if ram is None else parse_bytes(ram, "--ram"),
            deadline_s=None if deadline is None else parse_seconds(deadline, "--deadline"),
            class_weights=() if weights is None else _numbers("--class-weights", weights),
            time_limit_s=parse_seconds(limit, "--time-limit"),
            **given,
        )


Command = Callable[..., None]


def takes_options(*, without: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """A decorator: the declared options in place of a command's first parameter, a ``Given``.

    Those named in ``without`` are left at their defaults, where they have one, and the command may
    have parameters of the same names.
    """
    shared = [p for p in _DECLARED.parameters.values() if p.name not in without]
    left_out = (_DECLARED.parameters[name] for name in without)
    defaults = {p.name: p.default for p in left_out if p.default is not p.empty}

    def decorate(command: Command) -> Command:
        own = list(inspect.signature(command).parameters.values())[1:]
        hints = get_type_hints(declared, include_extras=True)
        hints |= get_type_hints(command, include_extras=True)
        # What has no default comes first in a signature; to the command line it is the same.
        parameters = sorted([*shared, *own], key=lambda p: p.default is not p.empty)

        @functools.wraps(command)
        def called(**words: Any) -> None:
            given = {p.name: words.pop(p.name) for p in shared}
            command(Given({**defaults, **given}), **words)

        typed = [p.replace(annotation=hints[p.name]) for p in parameters]
        called.__signature__ = inspect.Signature(typed)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in typed}
        return called

    return decorate


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError as error:
        raise InputError(
            f"{option}: expected numbers with commas between them, got '{text}'"
        ) from error
