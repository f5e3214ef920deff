"""The zoo's networks for pictures, sounds as pictures, and inertial data.

``width`` is a factor of all channel counts; 1 is the network of the literature.
"""

from __future__ import annotations

from itertools import pairwise

from torch import nn
from zoo_parts import Normed, Residual, conv, wide


def resnet8(width: float) -> nn.Module:
    """MLPerf Tiny image classification: 3 x 32 x 32, 10 classes."""
    a, b, c = (wide(m, width) for m in (16, 32, 64))
    blocks = (Residual(a, a, 1), Residual(a, b, 2), Residual(b, c, 2))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 10))
    return nn.Sequential(conv(3, a, 3), nn.ReLU(), *blocks, *head)


def _separable(c: int, m: int, stride: int = 1) -> list[nn.Module]:
    return [conv(c, c, 3, stride, c), nn.ReLU(), conv(c, m, 1), nn.ReLU()]


def ds_cnn(width: float) -> nn.Module:
    """MLPerf Tiny keyword spotting: 49 x 10 features, 12 words; its first padding is uneven."""
    m = wide(64, width)
    first = (nn.ZeroPad2d((1, 1, 4, 5)), conv(1, m, (10, 4), 2), nn.ReLU())
    body = [layer for _ in range(4) for layer in _separable(m, m)]
    return nn.Sequential(*first, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(m, 12))


def mobilenet(width: float) -> nn.Module:
    """MLPerf Tiny visual wake words: MobileNetV1 x0.25 (at width 1) on 3 x 96 x 96, 2 classes."""
    sizes = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)]
    sizes += [(128, 1)] * 5 + [(256, 2), (256, 1)]
    c = wide(8, width)
    layers: list[nn.Module] = [conv(3, c, 3, 2), nn.ReLU()]
    for channels, stride in sizes:
        m = wide(channels, width)
        layers += _separable(c, m, stride)
        c = m
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 2))


def autoencoder(width: float) -> nn.Module:
    """MLPerf Tiny anomaly detection: 640 - 128 x4 - 8 - 128 x4 - 640."""
    m = wide(128, width)
    sizes = [640, m, m, m, m, 8, m, m, m, m]
    layers: list[nn.Module] = []
    for k, n in pairwise(sizes):
        layers += [Normed(nn.Linear(k, n, bias=False), n), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(m, 640))


def lenet5(width: float) -> nn.Module:
    """LeNet-5 with Relu and max pooling on 1 x 28 x 28, 10 classes."""
    a, b, c, d = (wide(m, width) for m in (6, 16, 120, 84))
    return nn.Sequential(
        conv(1, a, 5), nn.ReLU(), nn.MaxPool2d(2),
        conv(a, b, (5, 5)), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(b * 25, c), nn.ReLU(), nn.Linear(c, d), nn.ReLU(), nn.Linear(d, 10),
    )  # fmt: skip


def lenet_like(width: float) -> nn.Module:
    """Two 3 x 3 convolutions of 8 and 16 filters, pooled, and one dense layer; no normalization."""
    a, b = (wide(m, width) for m in (8, 16))
    return nn.Sequential(
        nn.Conv2d(1, a, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(b * 49, 10),
    )  # fmt: skip


def resnet18(width: float) -> nn.Module:
    """ResNet-18 as it is trained on CIFAR-10: 3 x 32 x 32, a 3 x 3 stem, no pooling behind it."""
    sizes = [wide(m, width) for m in (64, 64, 128, 256, 512)]
    layers: list[nn.Module] = [conv(3, sizes[0], 3), nn.ReLU()]
    for stage, (c, m) in enumerate(pairwise(sizes)):
        stride = 1 if stage == 0 else 2
        layers += [Residual(c, m, stride, normed=True), Residual(m, m, 1, normed=True)]
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(sizes[-1], 10))
    return nn.Sequential(*layers, *head)


def vgg16(width: float) -> nn.Module:
    """VGG-16 as it is trained on CIFAR-10: 13 normed convolutions, one dense layer."""
    stages = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
    layers: list[nn.Module] = []
    c = 3
    for channels, count in stages:
        m = wide(channels, width)
        for _ in range(count):
            layers += [conv(c, m, 3), nn.ReLU()]
            c = m
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(c, 10))


def imu_cnn(width: float) -> nn.Module:
    """1-D convolutions over 128 readings of 9 inertial channels, 6 activities."""
    a, b = (wide(m, width) for m in (32, 64))
    return nn.Sequential(
        Normed(nn.Conv1d(9, a, 5, padding=2, bias=False), a), nn.ReLU(), nn.MaxPool1d(2),
        Normed(nn.Conv1d(a, b, 5, padding=2, bias=False), b), nn.ReLU(), nn.MaxPool1d(2),
        Normed(nn.Conv1d(b, b, 3, padding=1, bias=False), b), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(b, 6),
    )  # fmt: skip
