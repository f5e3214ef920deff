"""Element-wise operators, reductions and softmax: the same bits on every core and on the host.

One network with a trained slope and scale per channel, Gelu, Tanh, Softmax over channels, a layer
norm written out in arithmetic, a mask and an embedding; against PyTorch's weights as well.
"""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import pytest
import torch
import training
from models import node, weights
from torch.nn import functional

from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import connect, connect_twin, open_folder
from poet_mcu.pipeline.validate import batches, run_steps

pytestmark = pytest.mark.qemu

STEPS = 5
LR = 0.05
EPSILON = 1e-3
BOARDS = ("qemu-lm3s6965evb", "qemu-m4-sd", "qemu-m7-sd", "qemu-m55-sd")
MASK = np.arange(16).reshape(1, 1, 4, 4) % 3 > 0
ROWS = np.asarray([2, 0, 2, 1], np.int64)


def network():
    tensors = {
        "conv.weight": weights(4, 2, 3, 3),
        "conv.bias": weights(4),
        "slope": weights(4, 1, 1, seed=1),
        "scale": weights(1, 4, 1, 1, seed=2) + 1,
        "table": weights(3, 4, seed=3),
        "fc.weight": weights(3, 4, seed=4),
        "mask": MASK,
        "rows": ROWS,
        "none": np.asarray(0, np.float32),
        "epsilon": np.asarray(EPSILON, np.float32),
    }
    nodes = [
        node("Conv", "x conv.weight conv.bias", "c"),
        node("PRelu", "c slope", "p"),
        node("Mul", "p scale", "m"),
        node("Where", "mask m none", "w"),
        node("Gelu", "w", "g"),
        node("Softmax", "g", "s", axis=1),
        node("Tanh", "m", "t"),
        node("Add", "s t", "a"),
        node("Gather", "table rows", "e"),
        node("Mul", "a e", "ae"),
        node("ReduceSum", "ae axes", "r", keepdims=0),
        node("ReduceMean", "r last", "mean"),
        node("Sub", "r mean", "d"),
        node("Mul", "d d", "q"),
        node("ReduceMean", "q last", "v"),
        node("Add", "v epsilon", "ve"),
        node("Sqrt", "ve", "sd"),
        node("Div", "d sd", "n"),
        node("Gemm", "n fc.weight", "y", transB=1),
    ]  # fmt: skip
    tensors |= {"axes": np.asarray([2, 3]), "last": np.asarray([-1])}
    return models.model(nodes, ["N", 2, 6, 6], tensors, y=["N", 3], opset=20)


def forward(x, w):
    c = functional.conv2d(x, w["conv.weight"], w["conv.bias"])
    m = torch.where(c > 0, c, w["slope"] * c) * w["scale"]
    g = functional.gelu(torch.where(torch.tensor(MASK), m, torch.zeros(())))
    a = torch.softmax(g, 1) + torch.tanh(m)
    r = (a * w["table"][torch.tensor(ROWS)]).sum((2, 3))
    d = r - r.mean(-1, keepdim=True)
    n = d / torch.sqrt((d * d).mean(-1, keepdim=True) + EPSILON)
    return functional.linear(n, w["fc.weight"])


@pytest.mark.parametrize("board", BOARDS)
def test_one_answer(board: str, tmp_path: Path) -> None:
    path = models.save(network(), tmp_path / "ops.onnx")
    out = tmp_path / "out"
    build(Options(path, board, batch=2, lr=LR, strategy="free-early"), out)
    opened = open_folder(out)
    work = batches(opened.prepared(), None, STEPS)
    with connect(opened, None) as device:
        on_board = run_steps(Session(device), work)
    with connect_twin(opened) as device:
        on_host = run_steps(Session(device), work)
    assert on_board.losses.tobytes() == on_host.losses.tobytes()
    for name, array in on_board.weights.items():
        assert array.tobytes() == on_host.weights[name].tobytes(), name
    start = {
        name: array
        for name, array in training.initializers(path).items()
        if array.dtype == np.float32 and array.ndim
    }
    losses, expected = training.train_torch(forward, start, work, LR)
    assert training.relative(on_board.losses, losses) <= training.TWENTY_STEPS
    for name, before in start.items():
        got = on_board.weights[name]
        assert training.relative(got, expected[name]) <= training.TWENTY_STEPS, name
        assert not np.array_equal(got, before.ravel()), name
