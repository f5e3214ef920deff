"""Golden vectors by PyTorch in double precision."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import golden_run
import numpy as np
import recipes
import torch
from golden_cases.case import Array, Case
from torch.nn import functional

from poet_mcu.training.recipe import Recipe

Arrays = dict[str, Array]


def vector(name: str, case: Case) -> Arrays:
    """Everything a file holds for the case, in float32."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return _vector(name, case)
    finally:
        torch.set_default_dtype(before)


def _vector(name: str, case: Case) -> Arrays:
    recipe = Recipe(**{"loss": "mse", **case.recipe})
    rng = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    x = case.input(name)
    steps = max(case.steps, 1)
    noise = [0.0 if i == 0 else rng.standard_normal(x.shape) for i in range(steps)]
    xs = np.stack([(x + n).astype(x.dtype) for n in noise])
    leaves = _leaves(case, x)
    with torch.no_grad():  # also moves running statistics: on a copy
        output = tuple(_forward(case, xs[0], {n: t.clone() for n, t in leaves.items()}).shape)
    labels = np.stack([_labels(recipe, output, rng) for _ in range(steps)])
    made = {"x": xs, "labels": labels}
    trained = {n: t for n, t in leaves.items() if t.requires_grad}
    if case.steps:
        losses = _train(case, recipe, xs, labels, leaves)
        kept = {n: t for n, t in leaves.items() if n in trained or n in case.fixed}
        made |= {f"after/{n}": t.detach().numpy() for n, t in kept.items()}
    else:
        loss = recipes.torch_loss(recipe, _forward(case, xs[0], leaves), _label(recipe, labels[0]))
        loss.backward()
        losses = [loss.item()]
        made |= {f"grad/{n}": t.grad.numpy() for n, t in trained.items() if t.grad is not None}
    made["loss"] = np.asarray(losses)
    small = {n: a.astype(np.float32) if a.dtype == np.float64 else a for n, a in made.items()}
    proto = case.model(name, output).SerializeToString(deterministic=True)
    small["model"] = np.frombuffer(proto, np.uint8)
    small["meta"] = np.frombuffer(case.meta().encode(), np.uint8)
    return small


def _leaves(case: Case, x: Array) -> dict[str, torch.Tensor]:
    arrays = dict(case.tensors)
    if x.dtype == np.float32:
        arrays["shift"] = np.zeros(x.shape, np.float32)
    made = {}
    for name, array in arrays.items():
        is_float = array.dtype == np.float32
        tensor = torch.tensor(array, dtype=torch.float64) if is_float else torch.tensor(array)
        tensor.requires_grad = is_float and array.ndim > 0 and name not in case.fixed
        made[name] = tensor
    return made


def _forward(case: Case, x: Array, leaves: Mapping[str, torch.Tensor]) -> torch.Tensor:
    if x.dtype != np.float32:
        return case.torch(torch, functional, torch.tensor(x), leaves)
    h = torch.tensor(x, dtype=torch.float64) + leaves["shift"]
    return case.torch(torch, functional, h, leaves)


def _labels(recipe: Recipe, output: tuple[int, ...], rng: np.random.Generator) -> Array:
    if recipe.loss == "cross-entropy":
        return rng.integers(0, output[-1], output[0]).astype(np.int32)
    if recipe.loss == "bce":
        return rng.integers(0, 2, output).astype(np.float32)
    return rng.standard_normal(output).astype(np.float32)


def _label(recipe: Recipe, labels: Array) -> torch.Tensor:
    kind = None if recipe.loss == "cross-entropy" else torch.float64
    return torch.tensor(labels, dtype=kind)


def _train(
    case: Case, recipe: Recipe, xs: Array, labels: Array, leaves: Mapping[str, torch.Tensor]
) -> list[float]:
    trained = [t for t in leaves.values() if t.requires_grad]
    optimizer: Any = recipes.torch_optimizer(recipe, trained, golden_run.LR)
    rates = recipes.torch_rates(recipe, golden_run.LR, case.steps)
    losses = []
    for step in range(case.steps):
        optimizer.param_groups[0]["lr"] = rates[step // recipe.accumulate]
        y = _forward(case, xs[step], leaves)
        loss = recipes.torch_loss(recipe, y, _label(recipe, labels[step]))
        (loss / recipe.accumulate).backward()
        losses.append(loss.item())
        if (step + 1) % recipe.accumulate == 0:
            if recipe.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(trained, recipe.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
    return losses
