"""How a model is trained: everything that shapes the loss and the updates, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from poet_mcu.errors import InputError, nearest

LOSSES = ("cross-entropy", "bce", "mse", "l1", "huber", "none")
OPTIMIZERS = ("sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop")
LR_SCHEDULES = ("constant", "step", "cosine")
#: PyTorch's default of AdamW; all other optimizers have none
_ADAMW_DECAY = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Names, meanings and defaults are PyTorch's.

    ``class_weights`` empty: all 1. ``weight_decay`` None: the optimizer's default. ``clip_norm``
    None: no clipping. ``accumulate`` batches make one update. All counts of the learning rate's
    schedule are updates: ``warmup`` of them rise linearly, after that the rate stays, or falls by
    ``lr_gamma`` every ``lr_step`` updates, or along a half cosine to ``lr_floor`` (a share of the
    rate) at update ``total_steps``, and stays there.
    """

    loss: str = "cross-entropy"
    class_weights: tuple[float, ...] = ()
    label_smoothing: float = 0.0
    huber_delta: float = 1.0
    optimizer: str = "sgd"
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.999
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float | None = None
    clip_norm: float | None = None
    accumulate: int = 1
    lr_schedule: str = "constant"
    warmup: int = 0
    total_steps: int | None = None
    lr_step: int | None = None
    lr_gamma: float = 0.1
    lr_floor: float = 0.0

    @property
    def decay(self) -> float:
        """The weight decay that is used."""
        if self.weight_decay is not None:
            return self.weight_decay
        return _ADAMW_DECAY if self.optimizer == "adamw" else 0.0

    def check(self) -> None:
        """Raise InputError for values out of range and options that would be ignored."""
        one_of("--loss", self.loss, LOSSES)
        one_of("--optimizer", self.optimizer, OPTIMIZERS)
        one_of("--lr-schedule", self.lr_schedule, LR_SCHEDULES)
        _check_loss(self)
        _check_optimizer(self)
        _check_schedule(self)
        _at_least("--accumulate", self.accumulate, 1)

    def changed(self) -> dict[str, Any]:
        """The fields that are not at their default, in order of definition."""
        values = {f.name: getattr(self, f.name) for f in fields(Recipe)}
        return {f.name: values[f.name] for f in fields(Recipe) if values[f.name] != f.default}


def one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    """Raise InputError unless ``value`` is known."""
    if value not in known:
        names = ", ".join(known)
        raise InputError(f"{option}: expected one of {names}, got '{value}'{nearest(value, known)}")


def positive(option: str, value: float) -> None:
    """Raise InputError unless ``value`` is finite and above 0."""
    if not value > 0 or value == float("inf"):
        raise InputError(f"{option}: expected a number above 0, got {value:g}")


def _at_least(option: str, value: float, least: float) -> None:
    if not (value >= least and math.isfinite(value)):
        raise InputError(f"{option}: expected a number from {least:g} on, got {value:g}")


def _share(option: str, value: float, *, closed: bool = False) -> None:
    if not (0 <= value < 1 or (closed and value == 1)):
        end = "]" if closed else ")"
        raise InputError(f"{option}: expected a number in [0, 1{end}, got {value:g}")


def _only_with(option: str, given: bool, wanted: str, got: str) -> None:
    if given:
        raise InputError(
            f"{option}: expected {wanted} beside it, got {got}; leave {option} out or change that"
        )


def _check_loss(recipe: Recipe) -> None:
    loss = recipe.loss
    if loss != "cross-entropy":
        for option, given in (
            ("--class-weights", bool(recipe.class_weights)),
            ("--label-smoothing", recipe.label_smoothing != 0),
        ):
            _only_with(option, given, "--loss cross-entropy", loss)
    _only_with("--huber-delta", loss != "huber" and recipe.huber_delta != 1, "--loss huber", loss)
    _share("--label-smoothing", recipe.label_smoothing, closed=True)
    positive("--huber-delta", recipe.huber_delta)
    for weight in recipe.class_weights:
        _at_least("--class-weights", weight, 0)


#: option's field -> optimizers that use it
_USED_BY = {
    "momentum": ("momentum", "nesterov"),
    "beta1": ("adam", "adamw"),
    "beta2": ("adam", "adamw"),
    "alpha": ("rmsprop",),
    "eps": ("adam", "adamw", "rmsprop"),
}


def _check_optimizer(recipe: Recipe) -> None:
    changed = recipe.changed()
    for name, users in _USED_BY.items():
        unused = name in changed and recipe.optimizer not in users
        _only_with(f"--{name}", unused, f"--optimizer {' or '.join(users)}", recipe.optimizer)
    for name in ("momentum", "beta1", "beta2", "alpha"):
        _share(f"--{name}", getattr(recipe, name))
    positive("--eps", recipe.eps)
    _at_least("--weight-decay", recipe.decay, 0)
    if recipe.clip_norm is not None:
        positive("--clip-norm", recipe.clip_norm)


def _check_schedule(recipe: Recipe) -> None:
    kind = recipe.lr_schedule
    _at_least("--warmup", recipe.warmup, 0)
    _share("--lr-floor", recipe.lr_floor, closed=True)
    positive("--lr-gamma", recipe.lr_gamma)
    for option, given, wanted in (
        ("--lr-step", recipe.lr_step is not None, "step"),
        ("--lr-gamma", recipe.lr_gamma != 0.1, "step"),
        ("--total-steps", recipe.total_steps is not None, "cosine"),
        ("--lr-floor", recipe.lr_floor != 0, "cosine"),
    ):
        _only_with(option, given and kind != wanted, f"--lr-schedule {wanted}", kind)
    if kind == "step":
        if recipe.lr_step is None:
            raise InputError("--lr-step: expected the updates between two falls, got none; give it")
        _at_least("--lr-step", recipe.lr_step, 1)
    if kind == "cosine":
        if recipe.total_steps is None:
            raise InputError("--total-steps: expected the number of updates, got none; give it")
        if recipe.total_steps <= recipe.warmup:
            raise InputError(
                f"--total-steps: expected more than the {recipe.warmup} updates of --warmup, "
                f"got {recipe.total_steps}; raise it"
            )
