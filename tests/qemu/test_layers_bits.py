"""A network of the newer operators: one answer from every plan, on emulated cores and the host."""

from __future__ import annotations

from pathlib import Path

import emulated
import models
import numpy as np
import onnx
import pytest
import training
from models import node, weights

from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.dataset import load_dataset
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import connect, open_folder
from poet_mcu.pipeline.train import TrainOptions, train
from poet_mcu.pipeline.validate import batches

pytestmark = pytest.mark.qemu

STEPS = 3
PLANS = ("keep-all", "recompute-all", "page-all")


def tensors() -> dict[str, np.ndarray]:
    return {
        "conv.weight": weights(4, 2, 3, 3, seed=1),
        "bn.weight": weights(4, seed=2) + np.float32(1),
        "bn.bias": weights(4, seed=3),
        "bn.mean": weights(4, seed=4),
        "bn.var": np.abs(weights(4, seed=5)) + np.float32(0.5),
        "up.weight": weights(4, 4, 2, 2, seed=6),
        "up.bias": weights(4, seed=7),
        "in.weight": weights(8, seed=8),
        "in.bias": weights(8, seed=9),
        "ln.weight": weights(8, seed=10),
        "ln.bias": weights(8, seed=11),
        "fc.weight": weights(8, 3, seed=12),
        "scales": np.float32([1, 1, 2, 2]),
        "flat": np.asarray([0, 8, 16], np.int64),
        "pads": np.asarray([0, 0, 1, 0, 0, 0, 0, 1], np.int64),
    }


def network() -> onnx.ModelProto:
    """Batch, group and layer normalization, pooling, layout, transposed convolution, products."""
    nodes = [
        node("Pad", "x pads", "p"),
        node("Conv", "p conv.weight", "c", pads=[0, 1, 1, 0]),
        node("BatchNormalization", "c bn.weight bn.bias bn.mean bn.var", "n", "bn"),
        node("Relu", "n", "r"),
        node("AveragePool", "r", "a", kernel_shape=[2, 2], strides=[2, 2]),
        node("ConvTranspose", "a up.weight up.bias", "u", strides=[2, 2]),
        node("Resize", "a - scales", "z"),
        node("Concat", "u z", "t", axis=1),
        node("InstanceNormalization", "t in.weight in.bias", "i"),
        node("MaxPool", "i", "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", "m flat", "f"),
        node("Transpose", "f", "q", perm=[0, 2, 1]),
        node("MatMul", "q f", "s"),
        node("MatMul", "s q", "v"),
        node("LayerNormalization", "v ln.weight ln.bias", "l"),
        node("Transpose", "l", "w", perm=[0, 2, 1]),
        node("GlobalAveragePool", "w", "g"),
        node("Flatten", "g", "h"),
        node("MatMul", "h fc.weight", "y"),
    ]
    return models.model(nodes, ["N", 2, 8, 8], tensors(), y=["N", 3])


def built(folder: Path, board: str, plan: str) -> Path:
    path = models.save(network(), folder / "net.onnx")
    out = folder / plan
    build(Options(path, board, batch=2, lr=0.05, strategy=plan), out)
    return out


@pytest.mark.parametrize("board", ["qemu-lm3s6965evb", "qemu-m7-sd", "qemu-m55-sd"])
def test_one_answer(board: str, tmp_path: Path) -> None:
    folders = {plan: built(tmp_path, board, plan) for plan in PLANS}
    runs = {plan: emulated.run_folder(out, STEPS, twin=False) for plan, out in folders.items()}
    assert emulated.same(
        runs["keep-all"], emulated.run_folder(folders["keep-all"], STEPS, twin=True)
    )
    for plan in PLANS:
        assert emulated.same(runs[plan], runs["keep-all"]), plan
    assert len(runs["keep-all"].weights) >= 12
    assert runs["page-all"].facts["page_ins"] > 0


def test_an_evaluation_on_the_board_is_that_of_the_saved_model(tmp_path: Path) -> None:
    """Running statistics included: the board's own, and those written back into the file."""
    out = built(tmp_path, "qemu-m7-sd", "keep-all")
    rng = np.random.default_rng(0)
    x, y = rng.random((6, 2, 8, 8), np.float32), np.arange(6) % 3
    np.savez(tmp_path / "d.npz", x=x, y=y)
    saved = tmp_path / "trained.onnx"
    facts = train(out, TrainOptions(tmp_path / "d.npz", epochs=2, save=saved))
    assert facts["steps"] == 6
    before = {t.name: onnx.numpy_helper.to_array(t) for t in network().graph.initializer}
    after = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(saved).graph.initializer}
    for name in ("bn.mean", "bn.var", "up.weight", "ln.bias"):
        assert not np.array_equal(before[name], after[name]), name
    opened = open_folder(out)
    made = opened.prepared()
    kinds = [v.type for v in made.train.values if v.role.value in ("input", "label")]
    data = load_dataset(tmp_path / "d.npz", kinds[0], kinds[1])
    with connect(opened, None) as device:
        session = Session(device)
        device.reset_model()
        for array, label in batches(made, tmp_path / "d.npz", 3):
            session.train_step(array, label)
        outputs = np.concatenate([rows for rows, _ in session.outputs(data)])
        here = session.parameters()
    tracked = {n: here[n].reshape(before[n].shape) for n in here}
    proto = network()
    for tensor in proto.graph.initializer:
        if tensor.name in tracked:
            tensor.CopyFrom(onnx.numpy_helper.from_array(tracked[tensor.name], tensor.name))
    assert training.relative(outputs, models.run_onnx(proto, x)) <= 1e-4
