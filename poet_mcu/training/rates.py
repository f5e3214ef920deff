"""The learning rate of an update; the board computes the same in firmware/train/rates.c."""

from __future__ import annotations

import math

from poet_mcu.training.recipe import Recipe


def lr_factor(recipe: Recipe, update: int) -> float:
    """What the learning rate is multiplied by at ``update``, counted from 0.

    PyTorch's SequentialLR of LinearLR(start_factor=1/(warmup+1), total_iters=warmup) and StepLR
    or CosineAnnealingLR(T_max=total_steps-warmup); after ``total_steps`` the floor.
    """
    if update < recipe.warmup:
        return (update + 1) / (recipe.warmup + 1)
    after = update - recipe.warmup
    if recipe.lr_schedule == "step" and recipe.lr_step is not None:
        return float(recipe.lr_gamma ** (after // recipe.lr_step))
    if recipe.lr_schedule == "cosine" and recipe.total_steps is not None:
        length = recipe.total_steps - recipe.warmup
        height = (1 + math.cos(math.pi * min(after, length) / length)) / 2
        return recipe.lr_floor + (1 - recipe.lr_floor) * height
    return 1.0
