"""The training graph in numpy against PyTorch: losses, gradients, updates; what is frozen."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import onnx
import pytest
import training
from onnx import numpy_helper

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Graph, Phase, Role
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.selfcheck import sample_feeds
from poet_mcu.sim.plain import run_plain

STEPS = 20


def prepared(proto: onnx.ModelProto, folder: Path, **options: object) -> Prepared:
    path = models.save(proto, folder / "m.onnx")
    return prepare(Options(path, "host", **options))


def run_steps(made: Prepared, steps: int, lr: float) -> tuple[list, list, training.Arrays]:
    """Batches, losses and weights of ``steps`` steps of the numpy graph."""
    graph = made.train
    (x,), (y,) = graph.with_role(Role.INPUT), graph.with_role(Role.LABEL)
    state = dict(graph.initial)
    batches, losses = [], []
    for step in range(steps):
        feeds = sample_feeds(graph, step)
        values = run_plain(graph, state, feeds, lr)
        state = {i: values[i] for i in state}
        batches.append((feeds[x.id], feeds[y.id]))
        losses.append(float(values[graph.outputs[0]]))
    return batches, losses, {n: state[i] for n, i in training.names_of(graph).items()}


CASES = {
    "digits": (lambda: models.cnn(4), training.digits, {}),
    "one sample": (lambda: models.cnn(1), training.digits, {}),
    "final softmax": (lambda: models.cnn(3, softmax=True), training.digits, {}),
    "residual": (lambda: models.residual(3), training.residual, {}),
    "mlp": (lambda: models.mlp(5), training.mlp, {}),
    "mse": (lambda: models.mlp(5), training.mlp, {"loss": "mse"}),
    "first layer frozen": (lambda: models.cnn(2), training.digits, {"freeze": ("conv1.*",)}),
    "middle frozen": (lambda: models.residual(2), training.residual, {"freeze": ("conv2.*",)}),
    "last frozen": (lambda: models.cnn(2), training.digits, {"freeze": ("fc.*",)}),
    "bias only": (lambda: models.cnn(2), training.digits, {"train": ("*.bias",)}),
}


@pytest.mark.parametrize("steps", [1, STEPS])
@pytest.mark.parametrize("case", CASES)
def test_equals_pytorch(case: str, steps: int, tmp_path: Path) -> None:
    make, forward, options = CASES[case]
    made = prepared(make(), tmp_path, **options)
    start = training.initializers(tmp_path / "m.onnx")
    batches, losses, weights = run_steps(made, steps, lr=0.05)
    frozen = frozenset(start) - frozenset(weights)
    expected_losses, expected = training.train_torch(
        forward, start, batches, 0.05, made.options.loss, frozen
    )
    limit = training.ONE_STEP if steps == 1 else training.TWENTY_STEPS
    assert training.relative(losses, expected_losses) <= limit
    assert weights
    for name, array in weights.items():
        assert training.relative(array, expected[name]) <= limit, name
        assert not np.array_equal(array, start[name]), f"{name} did not move"


def test_a_large_rate_uses_the_old_weight_for_the_input_gradient(tmp_path: Path) -> None:
    made = prepared(models.mlp(4), tmp_path)
    start = training.initializers(tmp_path / "m.onnx")
    batches, _, weights = run_steps(made, 1, lr=10.0)
    _, expected = training.train_torch(training.mlp, start, batches, 10.0)
    assert training.relative(weights["fc1.weight"], expected["fc1.weight"]) <= training.ONE_STEP


def test_a_tied_weight_adds_its_gradients(tmp_path: Path) -> None:
    shared = models.weights(4, 4)
    proto = models.model(
        [
            models.node("Gemm", "x w -", "h", transB=1),
            models.node("Relu", "h", "r"),
            models.node("Gemm", "r w -", "y", transB=1),
        ],
        [3, 4],
        {"w": shared},
        y=[3, 4],
    )
    made = prepared(proto, tmp_path)
    batches, _, weights = run_steps(made, 1, 0.1)

    def forward(x, w):
        h = training.functional.relu(x @ w["w"].T)
        return h @ w["w"].T

    _, expected = training.train_torch(forward, {"w": shared}, batches, 0.1)
    assert training.relative(weights["w"], expected["w"]) <= training.ONE_STEP


#: nodes behind h = a x, with what they compute in PyTorch
DIAMONDS = {
    "x + x": ([models.node("Add", "h h", "y")], lambda h, _: h + h),
    "x * x": ([models.node("Mul", "h h", "y")], lambda h, _: h * h),
    "x * x + x": (
        [models.node("Mul", "h h", "q"), models.node("Add", "q h", "y")],
        lambda h, _: h * h + h,
    ),
    "x * x used twice": (
        [models.node("Mul", "h h", "q"), models.node("Mul", "q q", "y")],
        lambda h, _: h**4,
    ),
    "x x^T": (
        [models.node("Gemm", "h h -", "y", transB=1)],
        lambda h, _: h @ h.T,
    ),
    "f(x) + g(x)": (
        [
            models.node("Gemm", "h b -", "p", transB=1),
            models.node("Gemm", "h c -", "q", transB=1),
            models.node("Add", "p q", "y"),
        ],
        lambda h, w: h @ w["b"].T + h @ w["c"].T,
    ),
}


@pytest.mark.parametrize("shape", DIAMONDS)
def test_a_diamond_adds_its_gradients(shape: str, tmp_path: Path) -> None:
    """Row B3: where paths meet, gradients add."""
    behind, function = DIAMONDS[shape]
    used = {name for node in behind for name in node.input} | {"a"}
    tensors = {n: models.weights(4, 4, seed=i) for i, n in enumerate("abc", 1) if n in used}
    nodes = [models.node("Gemm", "x a -", "h", transB=1), *behind]
    columns = 3 if shape == "x x^T" else 4
    made = prepared(models.model(nodes, [3, 4], tensors, y=[3, columns]), tmp_path)
    batches, _, weights = run_steps(made, 1, 0.1)
    _, expected = training.train_torch(
        lambda x, w: function(x @ w["a"].T, w), tensors, batches, 0.1
    )
    for name, array in weights.items():
        assert training.relative(array, expected[name]) <= training.ONE_STEP, name


def ops(graph: Graph, phase: Phase) -> list[str]:
    return [node.op for node in graph.nodes if node.phase is phase]


def test_no_gradient_below_the_deepest_trainable_layer(tmp_path: Path) -> None:
    made = prepared(models.cnn(2), tmp_path, train=("fc.*",), fuse=False)
    backward = ops(made.train, Phase.BACKWARD)
    assert backward == ["dense_bwd_w", "channel_sum"]
    whole = prepared(models.cnn(2), tmp_path, fuse=False)
    assert ops(whole.train, Phase.BACKWARD).count("conv2d_bwd_x") == 1  # not for the input


def test_every_trainable_parameter_is_updated_once_and_frozen_ones_never(tmp_path: Path) -> None:
    made = prepared(models.cnn(2), tmp_path, freeze=("conv2.weight",))
    updated = [v for node in made.train.nodes for v in node.mutates]
    names = sorted(made.train.values[v].origin for v in updated)
    assert names == ["conv1.bias", "conv1.weight", "conv2.bias", "fc.bias", "fc.weight"]


def test_updates_come_as_early_as_the_old_value_is_free(tmp_path: Path) -> None:
    graph = prepared(models.cnn(2), tmp_path, fuse=False).train
    for node in graph.nodes:
        for value in node.mutates:
            readers = [n.id for n in graph.nodes if value in n.inputs and n.id != node.id]
            gradient = [n.id for n in graph.nodes if node.inputs[1] in n.outputs]
            ready = max(readers + gradient)
            between = graph.nodes[ready + 1 : node.id]
            assert all(n.op in ("sgd", "channel_sum") for n in between)


def test_nothing_trainable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"m\.onnx: expected at least one trainable parameter"):
        prepared(models.mlp(2), tmp_path, freeze=("*",))


def test_mse_after_a_softmax_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="loss: expected cross-entropy after a final Softmax"):
        prepared(models.cnn(2, softmax=True), tmp_path, loss="mse")


def test_cross_entropy_wants_rows_of_classes(tmp_path: Path) -> None:
    proto = models.model(
        [models.node("Conv", "x w", "y", pads=[1, 1, 1, 1])],
        [1, 1, 4, 4],
        {"w": models.weights(2, 1, 3, 3)},
        y=[1, 2, 4, 4],
    )
    with pytest.raises(ModelError, match=r"cross-entropy: expected logits \[batch, classes\]"):
        prepared(proto, tmp_path)


def test_a_wrong_label_gives_nan_not_another_memory(tmp_path: Path) -> None:
    made = prepared(models.mlp(2), tmp_path)
    (label,) = made.train.with_role(Role.LABEL)
    feeds = sample_feeds(made.train)
    feeds[label.id] = np.array([0, 99], np.int32)
    values = run_plain(made.train, made.train.initial, feeds, 0.1)
    assert np.isnan(values[made.train.outputs[0]])


def test_the_evaluation_graph_has_no_argmax_and_equals_the_forward(tmp_path: Path) -> None:
    made = prepared(models.cnn(2), tmp_path)
    pools = [n for n in made.evaluation.nodes if n.op == "maxpool2d"]
    assert [len(n.outputs) for n in pools] == [1, 1]
    x = np.random.default_rng(0).random((2, 2, 8, 8), np.float32)
    ours = models.run_graph(made.evaluation, x)[0]
    assert training.relative(ours, models.run_onnx(tmp_path / "m.onnx", x)) <= 1e-5


def test_identity_copies_train_apart(tmp_path: Path) -> None:
    proto = models.model(
        [
            models.node("Identity", "w1", "w2"),
            models.node("Gemm", "x w1 -", "h", transB=1),
            models.node("Gemm", "h w2 -", "y", transB=1),
        ],
        [2, 3],
        {"w1": models.weights(3, 3)},
        y=[2, 3],
    )
    made = prepared(proto, tmp_path)
    _, _, weights = run_steps(made, 1, 0.1)
    assert sorted(weights) == ["w1", "w2"]
    stored = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    assert not np.array_equal(weights["w1"], weights["w2"])
    assert "w2" not in stored
