"""A recipe trained in PyTorch and in our numpy graph, side by side, for tests."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import training
from torch.nn import functional

from poet_mcu.ir.graph import Role
from poet_mcu.pipeline.prepare import Prepared
from poet_mcu.pipeline.selfcheck import sample_feeds
from poet_mcu.sim.moment import Moment
from poet_mcu.sim.plain import run_plain
from poet_mcu.training.rates import lr_factor
from poet_mcu.training.recipe import Recipe

Batch = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def torch_loss(recipe: Recipe, out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The loss by torch.nn.functional."""
    weights = torch.tensor(recipe.class_weights) if recipe.class_weights else None
    match recipe.loss:
        case "cross-entropy":
            return functional.cross_entropy(
                out, y.long(), weights, label_smoothing=recipe.label_smoothing
            )
        case "bce":
            return functional.binary_cross_entropy_with_logits(out, y)
        case "mse":
            return functional.mse_loss(out, y)
        case "l1":
            return functional.l1_loss(out, y)
        case "huber":
            return functional.huber_loss(out, y, delta=recipe.huber_delta)
        case _:
            return out.reshape(())


def torch_optimizer(
    recipe: Recipe, weights: Sequence[torch.Tensor], lr: float
) -> torch.optim.Optimizer:
    """The optimizer by torch.optim."""
    decay = {"weight_decay": recipe.decay}
    betas = (recipe.beta1, recipe.beta2)
    match recipe.optimizer:
        case "sgd":
            return torch.optim.SGD(weights, lr, **decay)
        case "momentum" | "nesterov":
            nesterov = recipe.optimizer == "nesterov"
            return torch.optim.SGD(weights, lr, recipe.momentum, nesterov=nesterov, **decay)
        case "adam":
            return torch.optim.Adam(weights, lr, betas, recipe.eps, **decay)
        case "adamw":
            return torch.optim.AdamW(weights, lr, betas, recipe.eps, **decay)
        case _:
            return torch.optim.RMSprop(weights, lr, recipe.alpha, recipe.eps, **decay)


def torch_scheduler(recipe: Recipe, optimizer: torch.optim.Optimizer, lr: float) -> Any:
    """The schedule by torch.optim.lr_scheduler."""
    from torch.optim import lr_scheduler as ls  # noqa: PLC0415 - beside its only use

    match recipe.lr_schedule:
        case "step":
            main: Any = ls.StepLR(optimizer, recipe.lr_step, recipe.lr_gamma)
        case "cosine":
            length = recipe.total_steps - recipe.warmup
            main = ls.CosineAnnealingLR(optimizer, length, lr * recipe.lr_floor)
        case _:
            main = ls.ConstantLR(optimizer, 1.0)
    if not recipe.warmup:
        return main
    rise = ls.LinearLR(optimizer, 1 / (recipe.warmup + 1), total_iters=recipe.warmup)
    return ls.SequentialLR(optimizer, [rise, main], [recipe.warmup])


def torch_rates(recipe: Recipe, lr: float, updates: int) -> list[float]:
    """The learning rate of each update."""
    parameter = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr)
    scheduler = torch_scheduler(recipe, optimizer, lr)
    rates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SequentialLR passes an epoch to its parts
        for _ in range(updates):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
    return rates


def train_torch(
    forward: training.Forward,
    start: training.Arrays,
    batches: Sequence[Batch],
    lr: float,
    recipe: Recipe,
    frozen: frozenset[str] = frozenset(),
) -> tuple[list[float], training.Arrays]:
    """Losses of every batch and weights after the last, as a PyTorch user writes it."""
    weights = {
        name: torch.tensor(array, requires_grad=name not in frozen) for name, array in start.items()
    }
    trained = [w for w in weights.values() if w.requires_grad]
    optimizer = torch_optimizer(recipe, trained, lr)
    rates = torch_rates(recipe, lr, len(batches))
    losses = []
    for step, (x, y) in enumerate(batches):
        optimizer.param_groups[0]["lr"] = rates[step // recipe.accumulate]
        loss = torch_loss(recipe, forward(torch.tensor(x), weights), torch.tensor(y))
        (loss / recipe.accumulate).backward()
        losses.append(loss.item())
        if (step + 1) % recipe.accumulate == 0:
            if recipe.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(trained, recipe.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
    return losses, {name: w.detach().numpy() for name, w in weights.items()}


def train_plain(
    made: Prepared, steps: int, lr: float
) -> tuple[list[Batch], list[float], training.Arrays]:
    """Batches, losses and weights of ``steps`` steps of the numpy graph."""
    graph, recipe = made.train, made.options
    (x,), labels = graph.with_role(Role.INPUT), graph.with_role(Role.LABEL)
    homes = graph.with_role(Role.PARAMETER, Role.CONSTANT, Role.STATE)
    state = dict(graph.initial)
    batches, losses = [], []
    for step in range(steps):
        feeds = sample_feeds(graph, step)
        moment = Moment.of(step, recipe.accumulate)
        rate = lr * lr_factor(recipe, moment.updates)
        values = run_plain(graph, state, feeds, rate, moment)
        state = {v.id: values[v.id] for v in homes}
        batches.append((feeds[x.id], feeds[labels[0].id] if labels else np.zeros(0, np.float32)))
        losses.append(float(values[graph.outputs[0]]))
    return batches, losses, {n: state[i] for n, i in training.names_of(graph).items()}
