"""Batch normalization: batch statistics and frozen ones, running statistics, exporters' forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import kernels_run
import models
import numpy as np
import onnx
import plans
import pytest
import torch
import training
from models import node, weights
from torch.nn import functional

from poet_mcu.errors import InputError, ModelError
from poet_mcu.frontend.export import save_with_weights
from poet_mcu.ir.graph import Graph, Role
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.selfcheck import check_program, sample_feeds
from poet_mcu.sim.interpreter import Interpreter
from poet_mcu.sim.plain import run_plain

STEPS = 4
EPS = 0.01


def tensors(channels: int = 4) -> dict[str, np.ndarray]:
    return {
        "conv.weight": weights(channels, 2, 3, 3, seed=1),
        "bn.weight": weights(channels, seed=2) + np.float32(1),
        "bn.bias": weights(channels, seed=3),
        "bn.mean": weights(channels, seed=4),
        "bn.var": np.abs(weights(channels, seed=5)) + np.float32(0.5),
        "fc.weight": weights(channels, 3, seed=6),
    }


def network(batch: int = 3, *, opset: int = 17, outputs: str = "n", size: int = 5, **attrs: Any):
    """Conv, BatchNormalization, Relu, GlobalAveragePool, MatMul."""
    names = "c bn.weight bn.bias bn.mean bn.var"
    nodes = [
        node("Conv", "x conv.weight", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", names, outputs, "bn", epsilon=EPS, momentum=0.8, **attrs),
        node("Relu", "n", "r"),
        node("GlobalAveragePool", "r", "g"),
        node("Flatten", "g", "f"),
        node("MatMul", "f fc.weight", "y"),
    ]
    return models.model(nodes, [batch, 2, size, size], tensors(), y=[batch, 3], opset=opset)


def made(proto: onnx.ModelProto, folder: Path, **options: Any) -> Prepared:
    return prepare(Options(models.save(proto, folder / "m.onnx"), "host", **options))


def in_torch(x, w, *, train: bool):
    c = functional.conv2d(x, w["conv.weight"], padding=1)
    mean, var = w["bn.mean"], w["bn.var"]
    n = functional.batch_norm(c, mean, var, w["bn.weight"], w["bn.bias"], train, 0.2, EPS)
    return n.relu().mean((2, 3)) @ w["fc.weight"]


def names_of(graph: Graph) -> dict[str, int]:
    return {v.origin: v.id for v in graph.with_role(Role.PARAMETER, Role.STATISTIC)}


def train_both(
    prepared: Prepared, run: Any, *, train: bool, lr: float = 0.1, fixed: Sequence[str] = ()
):
    """Losses and weights of ours and PyTorch's after STEPS steps."""
    graph = prepared.train
    (x,), (y,) = graph.with_role(Role.INPUT), graph.with_role(Role.LABEL)
    state = dict(graph.initial)
    start = tensors()
    theirs = {
        n: torch.tensor(a, requires_grad=n not in ("bn.mean", "bn.var", *fixed))
        for n, a in start.items()
    }
    optimizer = torch.optim.SGD([w for w in theirs.values() if w.requires_grad], lr)
    losses: list[tuple[float, float]] = []
    for step in range(STEPS):
        feeds = sample_feeds(graph, step)
        values = run(graph, state, feeds, lr)
        state = {i: values[i] for i in state}
        optimizer.zero_grad()
        out = in_torch(torch.tensor(feeds[x.id]), theirs, train=train)
        loss = functional.cross_entropy(out, torch.tensor(feeds[y.id]).long())
        loss.backward()
        optimizer.step()
        losses.append((float(values[graph.outputs[0]]), loss.item()))
    ours = {name: state[i] for name, i in names_of(graph).items()}
    return losses, ours, {n: w.detach().numpy() for n, w in theirs.items()}


@pytest.mark.parametrize("run", [run_plain, kernels_run.run_kernels], ids=["numpy", "C"])
def test_batch_statistics_train_as_in_pytorch(run: Any, tmp_path: Path) -> None:
    prepared = made(network(), tmp_path)
    losses, ours, theirs = train_both(prepared, run, train=True)
    assert ours.keys() == theirs.keys()
    assert training.relative(*zip(*losses, strict=True)) <= 1e-5
    for name, array in ours.items():
        assert training.relative(array, theirs[name]) <= 5e-5, name
        assert not np.array_equal(array, tensors()[name]), name


@pytest.mark.parametrize("run", [run_plain, kernels_run.run_kernels], ids=["numpy", "C"])
def test_frozen_statistics_train_as_in_pytorch(run: Any, tmp_path: Path) -> None:
    prepared = made(network(), tmp_path, batchnorm="frozen")
    losses, ours, theirs = train_both(prepared, run, train=False)
    assert sorted(ours) == ["bn.bias", "bn.weight", "conv.weight", "fc.weight"]
    assert training.relative(*zip(*losses, strict=True)) <= 1e-5
    for name, array in ours.items():
        assert training.relative(array, theirs[name]) <= 5e-5, name
    assert not any(n.op in ("batch_stats", "running_stats") for n in prepared.train.nodes)


def test_auto_freezes_where_the_scale_is_frozen(tmp_path: Path) -> None:
    prepared = made(network(), tmp_path, freeze=("bn.weight",))
    _, ours, theirs = train_both(prepared, run_plain, train=False, fixed=["bn.weight"])
    assert sorted(ours) == ["bn.bias", "conv.weight", "fc.weight"]
    for name, array in ours.items():
        assert training.relative(array, theirs[name]) <= 5e-5, name


def test_train_with_frozen_scale_uses_the_batch(tmp_path: Path) -> None:
    fixed = ("bn.weight", "bn.bias")
    prepared = made(network(), tmp_path, freeze=fixed, batchnorm="train")
    _, ours, theirs = train_both(prepared, run_plain, train=True, fixed=fixed)
    assert sorted(ours) == ["bn.mean", "bn.var", "conv.weight", "fc.weight"]
    for name, array in ours.items():
        assert training.relative(array, theirs[name]) <= 5e-5, name


def test_an_evaluation_reads_the_running_statistics(tmp_path: Path) -> None:
    prepared = made(network(), tmp_path)
    graph = prepared.evaluation
    assert [n.op for n in graph.nodes if "stats" in n.op] == []
    x = weights(3, 2, 5, 5, seed=9)
    expected = models.run_onnx(tmp_path / "m.onnx", x)
    assert training.relative(models.run_graph(graph, x)[0], expected) <= 1e-5


def homes(graph: Graph) -> list[tuple[str, tuple[int, ...]]]:
    return [(v.origin, v.shape) for v in graph.with_role(Role.PARAMETER, Role.STATISTIC)]


def test_evaluation_and_step_keep_weights_in_one_order(tmp_path: Path) -> None:
    """Both place what lives in RAM first and in order of ids, so both find it at one address."""
    prepared = made(network(), tmp_path)
    assert homes(prepared.evaluation) == homes(prepared.train)


@pytest.mark.parametrize("strategy", plans.STRATEGIES)
def test_no_plan_updates_the_running_statistics_twice(strategy: str, tmp_path: Path) -> None:
    """C3: recompute runs the normalization again, never the node that tracks."""
    prepared = plans.prepared(network(), tmp_path)
    plan = plans.step_plan(prepared, strategy)
    check_program(plan)
    graph = plan.graph
    tracking = [n.id for n in graph.nodes if n.op == "running_stats"]
    calls = [i.call.node for i in plan.program.instructions if i.call]
    assert [calls.count(i) for i in tracking] == [1]
    if strategy == "recompute-all":
        again = {graph.nodes[i].op for i in calls if calls.count(i) > 1}
        assert "batchnorm" in again or "batch_stats" in again
    machine = Interpreter(graph, plan.program)
    state = dict(graph.initial)
    for step in range(3):
        feeds = sample_feeds(graph, step)
        machine.run(feeds, 0.1)
        values = run_plain(graph, state, feeds, 0.1)
        state = {i: values[i] for i in state}
    for value in graph.with_role(Role.STATISTIC, Role.PARAMETER):
        assert machine.home_value(value.id).tobytes() == state[value.id].tobytes(), value.name
        assert not np.array_equal(state[value.id], graph.initial[value.id]), value.name


# --- B4, A20: forms exporters write -----------------------------------------------------------


def test_training_mode_tracks_the_population_variance(tmp_path: Path) -> None:
    """ONNX says so; PyTorch, which an evaluated model is taken to come from, the unbiased one."""
    prepared = made(network(opset=15, outputs="n m v", training_mode=1), tmp_path)
    (tracking,) = [n for n in prepared.train.nodes if n.op == "running_stats"]
    assert tracking.attrs["correction"] == 1.0
    onnx_step = models.run_onnx(network(opset=15, outputs="n m v", training_mode=1), _x())
    graph = prepared.train
    feeds = sample_feeds(graph)
    feeds[graph.with_role(Role.INPUT)[0].id] = _x()
    values = run_plain(graph, graph.initial, feeds, 0.0)
    logits = next(n for n in graph.nodes if n.op == "softmax_xent").inputs[0]
    assert training.relative(values[logits], onnx_step) <= 1e-5
    evaluated = made(network(), tmp_path)
    (tracking,) = [n for n in evaluated.train.nodes if n.op == "running_stats"]
    assert tracking.attrs["correction"] == 75 / 74


def _x() -> np.ndarray:
    return weights(3, 2, 5, 5, seed=9)


@pytest.mark.parametrize(
    ("opset", "outputs", "attrs"),
    [
        (7, "n", {}),
        (9, "n", {}),
        (13, "n m v sm sv", {}),
        (14, "n", {"training_mode": 1}),
        (15, "n", {"training_mode": 1}),
        (15, "n m v", {"training_mode": 1}),
        (17, "n", {"training_mode": 0}),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "frozen", "train"])
def test_all_forms_import(opset: int, outputs: str, attrs: dict, mode: str, tmp_path: Path) -> None:
    proto = network(opset=opset, outputs=outputs, **attrs)
    prepared = made(proto, tmp_path, batchnorm=mode)
    assert bool(prepared.train.with_role(Role.STATISTIC)) == (mode != "frozen")
    plain = made(network(), tmp_path, batchnorm=mode)
    x = _x()
    ours = models.run_graph(prepared.evaluation, x)[0]
    assert np.array_equal(ours, models.run_graph(plain.evaluation, x)[0])


def test_a_read_statistics_output_is_refused(tmp_path: Path) -> None:
    proto = network(opset=15, outputs="n m v", training_mode=1)
    proto.graph.node[-1].output[0] = "z"
    proto.graph.node.append(node("Slice", "m s e", "m2"))
    proto.graph.node.append(node("Add", "z m2", "y"))
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray([i], np.int64), n) for i, n in ((0, "s"), (3, "e"))
    )
    message = models.refusal(proto, tmp_path)
    assert "expected BatchNormalization with one output in use, got 'm' read as well" in message


def test_running_statistics_are_no_weights_to_train(tmp_path: Path) -> None:
    """B5: no glob trains them, and naming one is an error with the nearest names."""
    prepared = made(network(), tmp_path, train=("*",))
    assert "bn.mean" not in training.names_of(prepared.train)
    with pytest.raises(InputError, match=r"--train 'bn\.mean': expected a pattern that matches"):
        made(network(), tmp_path, train=("bn.mean",))


def test_one_value_a_channel(tmp_path: Path) -> None:
    single = network(batch=1, size=1)
    with pytest.raises(
        ModelError,
        match=r"'bn' \(BatchNormalization\): expected two or more values a channel for --batchnorm "
        r"train, got one .* whose variance is 0; raise --batch or choose --batchnorm frozen",
    ):
        made(single, tmp_path, batchnorm="train")
    prepared = made(single, tmp_path)
    assert not prepared.train.with_role(Role.STATISTIC)
    assert any("keeps its running statistics" in n for n in prepared.imported.report.notes)


def test_shared_running_statistics_are_refused(tmp_path: Path) -> None:
    proto = network()
    names = "n bn.weight bn.bias bn.mean bn.var"
    proto.graph.node[2].input[0] = "n2"
    proto.graph.node.insert(2, node("BatchNormalization", names, "n2", "second"))
    message = models.refusal(proto, tmp_path)
    assert "'second' (BatchNormalization): expected running statistics stored for this" in message
    assert made(proto, tmp_path, batchnorm="frozen").train.nodes


def test_equal_tensors_merged_behind_identity_stay_apart(tmp_path: Path) -> None:
    """Exporters store one of two equal tensors and copy it; scales that all start at 1 are such."""
    proto = network()
    stored = {t.name: t for t in proto.graph.initializer}
    ones = np.ones(4, np.float32)
    for name in ("bn.weight", "bn.var"):
        stored[name].CopyFrom(onnx.numpy_helper.from_array(ones, name))
    proto.graph.initializer.remove(stored["bn.var"])
    proto.graph.node.insert(0, node("Identity", "bn.weight", "bn.var"))
    prepared = made(proto, tmp_path)
    graph = prepared.train
    ids = names_of(graph)
    assert graph.values[ids["bn.weight"]].role is Role.PARAMETER
    assert graph.values[ids["bn.var"]].role is Role.STATISTIC
    feeds = sample_feeds(graph)
    values = run_plain(graph, graph.initial, feeds, 0.1)
    assert not np.array_equal(values[ids["bn.weight"]], values[ids["bn.var"]])


def test_running_statistics_go_back_into_the_model(tmp_path: Path) -> None:
    prepared = made(network(), tmp_path)
    graph = prepared.train
    values = run_plain(graph, graph.initial, sample_feeds(graph), 0.1)
    tracked = {name: values[i] for name, i in names_of(graph).items()}
    save_with_weights(tmp_path / "m.onnx", tracked, tmp_path / "trained.onnx")
    x = _x()
    ours = models.run_graph(_with(prepared.evaluation, tracked), x)[0]
    theirs = models.run_onnx(tmp_path / "trained.onnx", x)
    assert training.relative(ours, theirs) <= 1e-5


def _with(graph: Graph, arrays: dict[str, np.ndarray]) -> Graph:
    initial = {i: arrays.get(graph.values[i].origin, a) for i, a in graph.initial.items()}
    return replace(graph, initial=initial)


def test_unknown_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--batchnorm: expected one of auto, train, frozen"):
        made(network(), tmp_path, batchnorm="eval")
