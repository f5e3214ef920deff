"""Layers that several networks of the zoo are made of."""

from __future__ import annotations

import torch
from torch import nn


class Normed(nn.Sequential):
    """A layer and its batch normalization, named ``layer`` and ``bn``."""

    def __init__(self, layer: nn.Module, channels: int) -> None:
        super().__init__()
        bn = nn.BatchNorm2d if isinstance(layer, nn.Conv2d) else nn.BatchNorm1d
        self.add_module("layer", layer)
        self.add_module("bn", bn(channels))


def conv(c: int, m: int, kernel: int | tuple[int, int], stride: int = 1, groups: int = 1) -> Normed:
    """Convolution that keeps the size at stride 1, and batch normalization."""
    pads = kernel // 2 if isinstance(kernel, int) else 0
    return Normed(nn.Conv2d(c, m, kernel, stride, pads, groups=groups, bias=False), m)


def wide(channels: int, width: float) -> int:
    """``channels`` at a factor of the width, one at least."""
    return max(1, round(channels * width))


class Residual(nn.Module):
    """Two convolutions beside a shortcut; where the size changes that is 1 x 1.

    ``normed`` is ResNet-18's form, whose shortcut has a batch normalization; ResNet-8's has none.
    """

    def __init__(self, c: int, m: int, stride: int, *, normed: bool = False) -> None:
        super().__init__()
        self.first = conv(c, m, 3, stride)
        self.second = conv(m, m, 3)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or c != m:
            self.shortcut = conv(c, m, 1, stride) if normed else nn.Conv2d(c, m, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(torch.relu(self.first(x)))
        return torch.relu(y + self.shortcut(x))
