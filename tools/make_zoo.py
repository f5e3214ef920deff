"""Networks that people put on microcontrollers, written by PyTorch as ONNX: the zoo of the tests.

    python tools/make_zoo.py [NAME ...] [--width 0.25] [--out out/zoo]

Topologies of MLPerf Tiny (ResNet-8, DS-CNN, MobileNetV1 x0.25, the dense autoencoder) and LeNet-5,
with random weights of a fixed seed. Each is written twice: with its batch normalizations as nodes,
and folded into the layer before them. The files are for trying things out and are not committed.
"""

from __future__ import annotations

import argparse
import copy
import io
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

SEED = 7


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


class Residual(nn.Module):
    """ResNet-8's block: two convolutions beside a shortcut, 1 x 1 where the size changes."""

    def __init__(self, c: int, m: int, stride: int) -> None:
        super().__init__()
        self.first = conv(c, m, 3, stride)
        self.second = conv(m, m, 3)
        self.shortcut = nn.Conv2d(c, m, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(torch.relu(self.first(x)))
        return torch.relu(y + self.shortcut(x))


def _wide(channels: int, width: float) -> int:
    return max(1, round(channels * width))


def resnet8(width: float) -> nn.Module:
    """MLPerf Tiny image classification: 3 x 32 x 32, 10 classes."""
    a, b, c = (_wide(m, width) for m in (16, 32, 64))
    blocks = (Residual(a, a, 1), Residual(a, b, 2), Residual(b, c, 2))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 10))
    return nn.Sequential(conv(3, a, 3), nn.ReLU(), *blocks, *head)


def _separable(c: int, m: int, stride: int = 1) -> list[nn.Module]:
    return [conv(c, c, 3, stride, c), nn.ReLU(), conv(c, m, 1), nn.ReLU()]


def ds_cnn(width: float) -> nn.Module:
    """MLPerf Tiny keyword spotting: 49 x 10 features, 12 words; its first padding is uneven."""
    m = _wide(64, width)
    first = (nn.ZeroPad2d((1, 1, 4, 5)), conv(1, m, (10, 4), 2), nn.ReLU())
    body = [layer for _ in range(4) for layer in _separable(m, m)]
    return nn.Sequential(*first, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(m, 12))


def mobilenet(width: float) -> nn.Module:
    """MLPerf Tiny visual wake words: MobileNetV1 x0.25 (at width 1) on 3 x 96 x 96, 2 classes."""
    sizes = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)]
    sizes += [(128, 1)] * 5 + [(256, 2), (256, 1)]
    c = _wide(8, width)
    layers: list[nn.Module] = [conv(3, c, 3, 2), nn.ReLU()]
    for channels, stride in sizes:
        m = _wide(channels, width)
        layers += _separable(c, m, stride)
        c = m
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 2))


def autoencoder(width: float) -> nn.Module:
    """MLPerf Tiny anomaly detection: 640 - 128 x4 - 8 - 128 x4 - 640."""
    m = _wide(128, width)
    sizes = [640, m, m, m, m, 8, m, m, m, m]
    layers: list[nn.Module] = []
    for k, n in pairwise(sizes):
        layers += [Normed(nn.Linear(k, n, bias=False), n), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(m, 640))


def lenet5(width: float) -> nn.Module:
    """LeNet-5 with Relu and max pooling on 1 x 28 x 28, 10 classes."""
    a, b, c, d = (_wide(m, width) for m in (6, 16, 120, 84))
    return nn.Sequential(
        conv(1, a, 5), nn.ReLU(), nn.MaxPool2d(2),
        conv(a, b, (5, 5)), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(b * 25, c), nn.ReLU(), nn.Linear(c, d), nn.ReLU(), nn.Linear(d, 10),
    )  # fmt: skip


@dataclass(frozen=True)
class Network:
    """How to make it, the shape of one sample, the loss it is trained with."""

    make: Callable[[float], nn.Module]
    sample: tuple[int, ...]
    loss: str = "cross-entropy"


ZOO = {
    "resnet8": Network(resnet8, (3, 32, 32)),
    "ds_cnn": Network(ds_cnn, (1, 49, 10)),
    "mobilenet": Network(mobilenet, (3, 96, 96)),
    "autoencoder": Network(autoencoder, (640,), "mse"),
    "lenet5": Network(lenet5, (1, 28, 28)),
}


def make_module(name: str, width: float = 1.0) -> nn.Module:
    """The network in evaluation mode; its running statistics are not those of a new module."""
    torch.manual_seed(SEED)
    module = ZOO[name].make(width)
    for layer in module.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):  # so that gradients reach the first layer
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.normal_(layer.bias, 0, 0.1)
            nn.init.normal_(layer.running_mean, 0, 0.1)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
    return module.eval()


def folded(module: nn.Module) -> nn.Module:
    """A copy with every batch normalization merged into the layer before it."""
    merged = copy.deepcopy(module).eval()
    for pair in merged.modules():
        if isinstance(pair, Normed):
            fuse = fuse_conv_bn_eval if isinstance(pair.layer, nn.Conv2d) else fuse_linear_bn_eval
            pair.layer = fuse(pair.layer, pair.bn)
            del pair.bn
    for parameter in merged.parameters():
        parameter.requires_grad_(True)  # a bias that came from the folding is trained too
    return merged


def export(module: nn.Module, name: str) -> bytes:
    """The bytes of the ONNX file, with PyTorch's names and a symbolic batch."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (torch.zeros(2, *ZOO[name].sample),),
            buffer,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": {0: "N"}, "y": {0: "N"}},
            dynamo=False,
            opset_version=17,
            # In evaluation mode the exporter would fold batch normalizations by itself.
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
        )
    return buffer.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ZOO)}")
    parser.add_argument("--width", type=float, default=1.0, help="factor of all channel counts")
    parser.add_argument("--out", type=Path, default=Path("out/zoo"))
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - ZOO.keys())
    if unknown:
        parser.error(f"expected names of {', '.join(ZOO)}, got {', '.join(unknown)}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.names or ZOO:
        module = make_module(name, chosen.width)
        for suffix, made in (("", module), ("_folded", folded(module))):
            path = chosen.out / f"{name}{suffix}.onnx"
            path.write_bytes(export(made, name))
            print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
