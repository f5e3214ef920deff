"""Where, comparisons, Gather and Expand: loss and gradients equal PyTorch's."""

from __future__ import annotations

import node_run
import numpy as np
import pytest
import torch
from models import node
from test_ops_torch import normal


@pytest.mark.parametrize("mask", [(3, 4), (4,), (3, 1), (2, 1, 1)])
def test_where(mask, tmp_path):
    chosen = np.random.default_rng(4).integers(0, 2, mask).astype(bool)
    tensors = {"other": normal((4,), 2), "mask": chosen}
    node_run.compare(
        [node("Where", "mask h other", "y")],
        lambda x, other: torch.where(torch.tensor(chosen), x, other),
        normal((3, 4)),
        tensors,
        tmp_path,
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_of_an_activation(axis, tmp_path):
    indices = np.asarray([[0, -1, 2], [2, 2, 1]], np.int64)
    node_run.compare(
        [node("Gather", "h i", "y", axis=axis)],
        lambda x: torch.stack(
            [torch.index_select(x, axis, torch.tensor(row) % x.shape[axis]) for row in indices],
            axis % x.ndim,
        ),
        normal((4, 3, 5)),
        {"i": indices},
        tmp_path,
    )


def test_a_trained_table(tmp_path):
    indices = np.asarray([1, 3, 1, 0], np.int64)
    node_run.compare(
        [node("Gather", "table i", "rows"), node("Mul", "h rows", "y")],
        lambda x, table: x * table[torch.tensor(indices)],
        normal((4, 3)),
        {"table": normal((6, 3), 1), "i": indices},
        tmp_path,
    )


def test_expand(tmp_path):
    node_run.compare(
        [node("Expand", "h shape", "y")],
        lambda x: x.expand(2, 3, 4, 5),
        normal((3, 1, 5)),
        {"shape": np.asarray([2, 1, 4, 1], np.int64)},
        tmp_path,
    )


@pytest.mark.parametrize("op", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"])
def test_a_choice_by_comparison(op, tmp_path):
    compare = {
        "Greater": torch.gt,
        "GreaterOrEqual": torch.ge,
        "Less": torch.lt,
        "LessOrEqual": torch.le,
        "Equal": torch.eq,
    }[op]
    x = np.asarray([[1, 2, 3], [3, 2, 1]], np.float32)
    tensors = {"w": np.asarray([2, 2, 3], np.float32)}
    node_run.compare(
        [node(op, "h w", "m"), node("Mul", "h h", "q"), node("Where", "m q w", "y")],
        lambda h, w: torch.where(compare(h, w), h * h, w),
        x,
        tensors,
        tmp_path,
    )
