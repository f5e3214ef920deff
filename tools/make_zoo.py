"""Networks that people put on microcontrollers, written by PyTorch as ONNX: the zoo of the tests.

    python tools/make_zoo.py [NAME ...] [--width 0.25] [--exporter script|dynamo] [--out out/zoo]

Topologies of MLPerf Tiny (ResNet-8, DS-CNN, MobileNetV1 x0.25, the dense autoencoder), LeNet-5 and
a smaller one like it, ResNet-18 and VGG-16 for CIFAR, a 1-D CNN and an LSTM and a GRU for inertial
data, a transformer encoder and BERT-tiny, with random weights of a fixed seed. Those that have
batch normalizations are written twice: with them as nodes, and folded into the layer before them.
The files are for trying things out and are not committed.
"""

from __future__ import annotations

import argparse
import copy
import io
import logging
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

sys.path.insert(0, str(Path(__file__).resolve().parent))
import zoo_sequence as sequence
import zoo_vision as vision
from zoo_parts import Normed

SEED = 7
EXPORTERS = ("script", "dynamo")
_WEIGHTED = (nn.Conv1d, nn.Conv2d, nn.Linear)


@dataclass(frozen=True)
class Network:
    """How to make it, the shape of one sample, the loss it is trained with.

    ``words`` is the number of rows of the table that integer inputs look up, 0 for inputs that are
    numbers. ``rectified`` networks start with Kaiming's weights, the others with PyTorch's.
    ``folded`` ones are exported with constants folded: PyTorch keeps a recurrent layer's gates in
    another order than ONNX, and without folding a trained tensor would be cut up and put together
    again inside the model.
    """

    make: Callable[[float], nn.Module]
    sample: tuple[int, ...]
    loss: str = "cross-entropy"
    words: int = 0
    rectified: bool = True
    folded: bool = False


_SIGNALS = (sequence.READINGS, sequence.CHANNELS)

ZOO = {
    "resnet8": Network(vision.resnet8, (3, 32, 32)),
    "ds_cnn": Network(vision.ds_cnn, (1, 49, 10)),
    "mobilenet": Network(vision.mobilenet, (3, 96, 96)),
    "autoencoder": Network(vision.autoencoder, (640,), "mse"),
    "lenet5": Network(vision.lenet5, (1, 28, 28)),
    "lenet_like": Network(vision.lenet_like, (1, 28, 28)),
    "resnet18": Network(vision.resnet18, (3, 32, 32)),
    "vgg16": Network(vision.vgg16, (3, 32, 32)),
    "imu_cnn": Network(vision.imu_cnn, (9, 128)),
    "transformer": Network(sequence.Encoder, _SIGNALS, rectified=False),
    "bert_tiny": Network(
        sequence.Bert, (sequence.SENTENCE,), words=sequence.WORDS, rectified=False
    ),
    "lstm": Network(sequence.lstm, _SIGNALS, rectified=False, folded=True),
    "gru": Network(sequence.gru, _SIGNALS, rectified=False, folded=True),
}


def make_module(name: str, width: float = 1.0) -> nn.Module:
    """The network in evaluation mode; its running statistics are not those of a new module."""
    torch.manual_seed(SEED)
    module = ZOO[name].make(width)
    for layer in module.modules():
        if isinstance(layer, _WEIGHTED) and ZOO[name].rectified:
            # so that gradients reach the first layer
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.normal_(layer.bias, 0, 0.1)
            nn.init.normal_(layer.running_mean, 0, 0.1)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
    return module.eval()


def has_norms(module: nn.Module) -> bool:
    """Whether it has batch normalizations to fold."""
    return any(isinstance(part, Normed) for part in module.modules())


def folded(module: nn.Module) -> nn.Module:
    """A copy with every batch normalization merged into the layer before it."""
    merged = copy.deepcopy(module).eval()
    for pair in merged.modules():
        if isinstance(pair, Normed):
            dense = isinstance(pair.layer, nn.Linear)
            fuse = fuse_linear_bn_eval if dense else fuse_conv_bn_eval
            pair.layer = fuse(pair.layer, pair.bn)
            del pair.bn
    for parameter in merged.parameters():
        parameter.requires_grad_(True)  # a bias that came from the folding is trained too
    return merged


def example(name: str, batch: int) -> torch.Tensor:
    """An input of the right shape and type."""
    network = ZOO[name]
    return torch.zeros(batch, *network.sample, dtype=torch.int64 if network.words else None)


def export(module: nn.Module, name: str, exporter: str = "script") -> bytes:
    """The bytes of the ONNX file, with PyTorch's names and a symbolic batch."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    given = (example(name, 2),)
    names: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            shapes = ({0: torch.export.Dim("N")},)
            program = torch.onnx.export(
                module, given, verbose=False, dynamo=True, dynamic_shapes=shapes, **names
            )
            return bytes(program.model_proto.SerializeToString())
        buffer = io.BytesIO()
        torch.onnx.export(
            module,
            given,
            buffer,
            dynamic_axes={"x": {0: "N"}, "y": {0: "N"}},
            dynamo=False,
            opset_version=17,
            # In evaluation mode the exporter would fold batch normalizations by itself.
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=ZOO[name].folded,
            **names,
        )
    return buffer.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ZOO)}")
    parser.add_argument("--width", type=float, default=1.0, help="factor of all channel counts")
    parser.add_argument("--exporter", choices=EXPORTERS, default="script")
    parser.add_argument("--out", type=Path, default=Path("out/zoo"))
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - ZOO.keys())
    if unknown:
        parser.error(f"expected names of {', '.join(ZOO)}, got {', '.join(unknown)}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.names or ZOO:
        module = make_module(name, chosen.width)
        made = {"": module} | ({"_folded": folded(module)} if has_norms(module) else {})
        for suffix, variant in made.items():
            path = chosen.out / f"{name}{suffix}.onnx"
            path.write_bytes(export(variant, name, chosen.exporter))
            print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
