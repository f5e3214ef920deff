"""The networks of tools/make_zoo.py, built and trained, and PyTorch beside them, for tests."""

from __future__ import annotations

import copy
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from poet_mcu.ir.graph import Role
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import prepare
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import connect_twin, open_folder
from poet_mcu.pipeline.validate import Run, batches, run_steps

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import make_zoo

Arrays = dict[str, npt.NDArray[Any]]
Work = list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]
STEPS = 5
#: several rounding errors of a sum of 4,608 products, in units of what such sums are on average
CLEAR = 3e-6


@dataclass(frozen=True)
class Setting:
    """A width and a way of training at which PyTorch's own float32 and float64 agree.

    Where they do not there is nothing to compare with. Normalization by a batch's statistics
    divides by the deviation of few values: the autoencoder, whose narrowest layer has eight units,
    and VGG-16, whose last maps are 2 x 2, need 16 samples, and VGG-16 a smaller rate beside. The 27
    normalizations of MobileNet part by 10 % whatever the batch, so its statistics are frozen.
    ``adam`` is the batch normalization with Adam: behind a batch's statistics some gradients are 0
    but for rounding, their weights walk a rate a step to a side that is chance, and the autoencoder
    and VGG-16 feel it in the others' gradients. ``clear``: on samples of ``clear_work``.
    """

    width: float
    batch: int = 4
    lr: float = 0.01
    batchnorm: str = "auto"
    adam: str = "auto"
    clear: bool = False


SETTINGS = {
    "resnet8": Setting(0.25),
    "ds_cnn": Setting(0.25),
    "mobilenet": Setting(0.25, batchnorm="frozen", adam="frozen"),
    "autoencoder": Setting(0.25, batch=16, adam="frozen"),
    "lenet5": Setting(0.5),
    "lenet_like": Setting(1.0),
    "resnet18": Setting(0.0625),
    "vgg16": Setting(0.0625, batch=16, lr=0.001, adam="frozen"),
    "imu_cnn": Setting(0.25),
    "transformer": Setting(0.5),
    "bert_tiny": Setting(0.25),
    "lstm": Setting(0.5),
    "gru": Setting(0.5),
}


#: At full width a batch of these has an input of Relu so near 0 that its sign is a matter of
#: rounding (docs/zoo.md): PyTorch's own two convolutions part by 1.8e-2. They are compared with one
#: sample a step, VGG-16 with frozen statistics, where the loss has a gradient: ``clear_work``.
FULL_WIDTH = {
    "resnet18": Setting(1.0, batch=1, clear=True),
    "vgg16": Setting(1.0, batch=1, batchnorm="frozen", clear=True),
}


@dataclass(frozen=True)
class Truth:
    """What PyTorch computed: losses, tensors by name, the optimizer's state by ``name:field``."""

    losses: list[float]
    tensors: Arrays
    state: Arrays
    gradients: dict[str, list[npt.NDArray[Any]]]


def write(name: str, module: nn.Module, folder: Path, exporter: str = "script") -> Path:
    """The network's ONNX file in ``folder``."""
    path = folder / f"{name}.onnx"
    path.write_bytes(make_zoo.export(module, name, exporter))
    return path


def options_for(name: str, path: Path, board: str, **more: Any) -> Options:
    """Options with the network's loss."""
    given: dict[str, Any] = {"loss": make_zoo.ZOO[name].loss, "time_limit_s": 2.0, **more}
    return Options(path, board, **given)


def on_host(folder: Path, steps: int, work: Work | None = None) -> tuple[Run, Work, Arrays]:
    """The build in ``folder`` run by its twin: the run, its batches, tensors with the states."""
    opened = open_folder(folder)
    prepared = opened.prepared()
    work = work or batches(prepared, None, steps * prepared.options.accumulate)
    with connect_twin(opened) as board:
        run = run_steps(Session(board), work)
        states = {v.name for v in prepared.train.with_role(Role.STATE)}
        read = {t.name: board.read_tensor(t.name) for t in board.tensors() if t.name in states}
    return run, work, read


#: PyTorch's gates in ONNX's order (ONNX Operators, LSTM: i, o, f, c; GRU: z, r, h)
GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}


def as_stored(truth: Truth, path: Path) -> Truth:
    """The tensors of a recurrent layer under the names and in the order of the file in ``path``."""
    nodes = [n for n in onnx.load(path).graph.node if n.op_type in GATES]
    if not nodes:
        return truth
    (node,) = nodes
    order = GATES[node.op_type]

    def stored(parts: dict[str, Any]) -> dict[str, Any]:
        """``parts`` by PyTorch's names of one kind (tensors, or one field of the state)."""

        def gates(name: str) -> npt.NDArray[Any]:
            blocks = np.split(parts[f"cell.{name}_l0"], len(order))
            return np.concatenate([blocks[i] for i in order])

        kept = {n: a for n, a in parts.items() if not n.startswith("cell.")}
        w, r = gates("weight_ih"), gates("weight_hh")
        bias = np.concatenate([gates("bias_ih"), gates("bias_hh")])
        return kept | dict(zip(node.input[1:4], (w[None], r[None], bias[None]), strict=True))

    state: Arrays = {}
    for field in {key.split(":")[1] for key in truth.state} - {"step"}:
        suffix = f":{field}"
        of_field = {k.removesuffix(suffix): a for k, a in truth.state.items() if k.endswith(suffix)}
        state |= {k + suffix: a for k, a in stored(of_field).items()}
    names, steps = list(truth.gradients), range(len(truth.losses))
    by_step = [stored({n: truth.gradients[n][i] for n in names}) for i in steps]
    gradients = {n: [found[n] for found in by_step] for n in by_step[0]}
    return Truth(truth.losses, stored(truth.tensors), state, gradients)


class Clearance(TorchFunctionMode):
    """The least distance of what passes from where Relu and max pooling have no derivative.

    In units of the tensor's root mean square: of an input of Relu to 0, of the largest in a window
    (2 x 2, as VGG-16 has them) to the next one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.least = math.inf

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, out = getattr(func, "__name__", ""), func(*args, **(kwargs or {}))
        if name in ("relu", "relu_", "max_pool2d"):
            x = args[0]
            away = x.abs()
            if name == "max_pool2d":
                first, second = (
                    x.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4).topk(2).values.unbind(4)
                )
                away = (first - second)[first > 0]  # a window of zeros passes nothing on
            self.least = min(self.least, (away.min() / x.square().mean().sqrt()).item())
        return out


def clear_work(module: nn.Module, options: Options, candidates: int = 32) -> Work:
    """One sample a step: of some candidates the one furthest from any kink, by PyTorch in float64.

    Between kinks the gradient is continuous and rounding changes it by a rounding error; across one
    it jumps. With 300,000 Relu inputs a sample one of them is some 1.5e-6 off on average.
    """
    module, work = copy.deepcopy(module).double(), []
    module.train(options.batchnorm != "frozen")
    offered = batches(prepare(options), None, candidates * STEPS)
    for step in range(STEPS):
        least = -1.0
        for x, y in offered[step::STEPS]:
            with Clearance() as seen, torch.no_grad():
                module(torch.tensor(x).double())
            if seen.least > least:
                least, best = seen.least, (x, y)
        assert least > CLEAR, f"step {step}: no sample is clear of the kinks"
        work.append(best)
        loss = nn.functional.cross_entropy(
            module(torch.tensor(best[0]).double()), torch.tensor(best[1]).long()
        )
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(module.parameters(), gradients, strict=True):
                parameter.sub_(options.lr * gradient)
    return work


def train_torch(
    module: nn.Module, work: Work, options: Options, dtype: torch.dtype = torch.float32
) -> Truth:
    """The same steps in PyTorch; the module is left as it was."""
    module = copy.deepcopy(module).to(dtype)
    module.train(options.batchnorm != "frozen")
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    optimizer = kinds[options.optimizer](module.parameters(), options.lr)
    losses: list[float] = []
    gradients: dict[str, list[npt.NDArray[Any]]] = {n: [] for n, _ in module.named_parameters()}
    for x, y in work:
        optimizer.zero_grad()
        given = torch.tensor(x)
        out = module(given.long() if x.dtype.kind == "i" else given.to(dtype))
        if options.loss == "mse":
            value = nn.functional.mse_loss(out, torch.tensor(y).to(dtype))
        else:
            value = nn.functional.cross_entropy(out, torch.tensor(y).long())
        value.backward()
        for key, parameter in module.named_parameters():
            gradients[key].append(parameter.grad.numpy().copy())
        optimizer.step()
        losses.append(value.item())
    state: Arrays = {}
    for key, parameter in module.named_parameters():
        for field, array in optimizer.state.get(parameter, {}).items():
            state[f"{key}:{field}"] = array.numpy()
    tensors = {n: t.detach().numpy() for n, t in module.state_dict().items()}
    return Truth(losses, tensors, state, gradients)
