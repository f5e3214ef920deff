"""Joined nodes: which, that nothing changes in the results, and that the verifiers know them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import kernels_run
import models
import numpy as np
import pytest
from plans import prepared

from poet_mcu.board.load import load_board
from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import Graph, Phase, Role
from poet_mcu.ir.schedule import Action, ActionKind, Schedule
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.ir.verify_schedule import verify_schedule
from poet_mcu.pipeline.selfcheck import sample_feeds
from poet_mcu.schedule import free_early, largest_working_set, simulate
from poet_mcu.schedule.pricing import make_problem, not_recomputable
from poet_mcu.sim.plain import run_plain

OPTIMIZERS = {
    "sgd": {},
    "sgd with decay": {"weight_decay": 0.1},
    "nesterov": {"optimizer": "nesterov"},
    "adamw": {"optimizer": "adamw"},
    "rmsprop": {"optimizer": "rmsprop"},
}
MODELS = {"cnn": models.cnn, "residual": models.residual, "mlp": models.mlp}


def both(name: str, folder: Path, **options: object) -> tuple[Graph, Graph]:
    """The training graph joined and not."""
    found = [prepared(MODELS[name](2), folder, fuse=on, **options).train for on in (True, False)]
    for graph in found:
        verify_graph(graph, training=True)
    return found[0], found[1]


def ops(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


def test_what_is_joined(tmp_path: Path) -> None:
    """All gradients whose parameter nothing reads between them and their update."""
    joined, apart = both("cnn", tmp_path)
    assert ops(joined)["dense_bwd_w_sgd"] == 1
    assert ops(joined)["conv2d_bwd_w_sgd"] == 2
    assert ops(joined)["channel_sum_sgd"] == 3
    assert ops(joined)["sgd"] == 0
    assert len(apart.nodes) - len(joined.nodes) == 6
    gone = {v.name for v in apart.values} - {v.name for v in joined.values}
    assert gone == {f"d_{n}.{w}" for n in ("conv1", "conv2", "fc") for w in ("weight", "bias")}


def test_what_is_not_joined(tmp_path: Path) -> None:
    """A small gradient comes before the input gradient, which reads the parameter, to free x."""
    graph = prepared(models.cnn(32), tmp_path).train
    assert ops(graph)["conv2d_bwd_w"] == 1
    assert ops(graph)["conv2d_bwd_w_sgd"] == 1
    assert ops(graph)["sgd"] == 2  # that of the dense layer is small as well


@pytest.mark.parametrize("options", [{"clip_norm": 0.5}, {"accumulate": 2}])
def test_a_gradient_that_is_read_twice_or_kept_is_not_joined(
    options: dict[str, object], tmp_path: Path
) -> None:
    joined, apart = both("cnn", tmp_path, **options)
    updates = {op for op in ops(joined) if "_bwd_w_" in op or op.startswith("channel_sum_")}
    assert updates == set()
    assert [n.op for n in joined.nodes if n.mutates] == [n.op for n in apart.nodes if n.mutates]


def test_a_tied_parameter_is_not_joined(tmp_path: Path) -> None:
    proto = models.model(
        [
            models.node("MatMul", "x w", "h"),
            models.node("Relu", "h", "r"),
            models.node("MatMul", "r w", "y"),
        ],
        [2, 6],
        {"w": models.weights(6, 6)},
    )
    graph = prepared(proto, tmp_path, loss="mse").train
    assert [n.op for n in graph.nodes if n.mutates] == ["sgd"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_of_the_nodes_apart(name: str, optimizer: str, tmp_path: Path) -> None:
    """To the bit, in numpy and in C, two steps."""
    joined, apart = both(name, tmp_path, **OPTIMIZERS[optimizer])
    results = []
    for graph in (joined, apart):
        feeds = sample_feeds(graph)
        kept = (Role.PARAMETER, Role.STATE, Role.CONSTANT, Role.LOSS)
        for run in (run_plain, kernels_run.run_kernels):
            values = dict(graph.initial)
            for _ in range(2):
                values = run(graph, values, feeds, 0.05)
                values = {v.id: values[v.id] for v in graph.with_role(*kept)}
            named = {graph.values[v].name: array.tobytes() for v, array in values.items()}
            results.append(named)
    assert results[0] == results[2]
    assert results[1] == results[3]
    assert results[0] != {graph.values[v].name: a.tobytes() for v, a in graph.initial.items()}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("home", ["ram", "card"])
def test_a_plan_never_needs_more(name: str, optimizer: str, home: str, tmp_path: Path) -> None:
    """Energy, memory with everything freed early, and the largest working set."""
    options = {**OPTIMIZERS[optimizer], "home_parameters": home}
    figures = []
    for graph in both(name, tmp_path, **options):
        problem = make_problem(graph, load_board("qemu-m7-sd"), 10**6)
        figures.append((problem.base_j, largest_working_set(problem)[0]))
        if home == "ram":
            figures[-1] += (simulate(problem, free_early(problem)).peak_bytes,)
    slack = 1 + 1e-9  # the same joules, added in another order
    assert all(a <= b * slack for a, b in zip(*figures, strict=True))


def test_the_whole_gradient_of_a_large_layer_is_gone(tmp_path: Path) -> None:
    proto = models.mlp(1, (40, 100, 10))
    peaks = []
    for on in (True, False):
        graph = prepared(proto, tmp_path, fuse=on).train
        problem = make_problem(graph, load_board("qemu-m7-sd"), 10**6)
        peaks.append(simulate(problem, free_early(problem)).peak_bytes)
    assert peaks[1] - peaks[0] > 40 * 100 * 4 - 2048  # but for a band of rows


def test_homes_on_the_card_are_joined_only_where_the_operands_fit(tmp_path: Path) -> None:
    proto = models.mlp(1, (40, 100, 10))
    graph = prepared(proto, tmp_path, home_parameters="card").train
    # 40 x 100: x, dy and w need less than x, dy and the whole gradient and then w did
    assert ops(graph)["dense_bwd_w_sgd"] == 2
    wide = prepared(models.mlp(64, (40, 100, 10)), tmp_path, home_parameters="card").train
    assert ops(wide)["dense_bwd_w_sgd"] == 0


# --- sabotage -----------------------------------------------------------------------------------


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return prepared(models.cnn(2), tmp_path).train


def first_joined(graph: Graph) -> int:
    return next(n.id for n in graph.nodes if n.op == "dense_bwd_w_sgd")


def test_a_reader_behind_a_joined_update_is_seen(graph: Graph) -> None:
    at = first_joined(graph)
    nodes = list(graph.nodes)
    reader = next(n for n in reversed(nodes[:at]) if n.op == "dense_bwd_x")
    moved = [*nodes[: reader.id], *nodes[reader.id + 1 : at + 1], reader, *nodes[at + 1 :]]
    broken = replace(graph, nodes=tuple(replace(n, id=i) for i, n in enumerate(moved)))
    with pytest.raises(InternalError, match="expected no reader after its update in"):
        verify_graph(broken, training=True)


def test_a_joined_update_in_the_wrong_phase_is_seen(graph: Graph) -> None:
    at = first_joined(graph)
    nodes = list(graph.nodes)
    nodes[at] = replace(nodes[at], phase=Phase.BACKWARD)
    with pytest.raises(InternalError, match="expected exactly one update node"):
        verify_graph(replace(graph, nodes=tuple(nodes)), training=True)


def test_two_updates_of_a_parameter_are_seen(graph: Graph) -> None:
    at = first_joined(graph)
    nodes = [*graph.nodes, replace(graph.nodes[at], id=len(graph.nodes))]
    with pytest.raises(InternalError, match="expected exactly one update node"):
        verify_graph(replace(graph, nodes=tuple(nodes)), training=True)


def test_a_joined_update_that_runs_twice_is_seen(graph: Graph) -> None:
    at = first_joined(graph)
    assert at in not_recomputable(graph)
    problem = make_problem(graph, load_board("qemu-m7-sd"), 10**6)
    actions = list(free_early(problem).actions)
    place = next(
        i for i, a in enumerate(actions) if a.kind is ActionKind.COMPUTE and a.subject == at
    )
    again = Action(ActionKind.COMPUTE, at, recompute=True)
    actions.insert(place + 1, again)
    with pytest.raises(InternalError, match="expected this node to run exactly once"):
        verify_schedule(graph, Schedule(tuple(actions)))


def test_values_are_numbered_again(graph: Graph) -> None:
    assert [v.id for v in graph.values] == list(range(len(graph.values)))
    for value, array in graph.initial.items():
        assert np.shape(array) == graph.values[value].shape


# --- activations --------------------------------------------------------------------------------


def activated(folder: Path, last: str) -> tuple[Graph, Graph]:
    """Convolutions, a residual sum and a dense layer, each before an activation."""
    bounds = {"low": np.asarray(0.0, np.float32), "high": np.asarray(0.5, np.float32)}

    def act(x: str, y: str) -> object:
        return models.node(last, " ".join([x, *([] if last == "Relu" else bounds)]), y)

    proto = models.model(
        [
            models.node("Conv", "x w1 b1", "c1", pads=[1, 1, 1, 1]),
            act("c1", "a1"),
            models.node("Conv", "a1 w2", "c2", pads=[1, 1, 1, 1]),
            models.node("Add", "c2 a1", "s"),
            act("s", "a2"),
            models.node("Flatten", "a2", "f"),
            models.node("MatMul", "f w3", "m"),
            act("m", "a3"),
            models.node("MatMul", "a3 w4", "y"),
        ],
        [2, 3, 6, 6],
        {
            "w1": models.weights(3, 3, 3, 3),
            "b1": models.weights(3),
            "w2": models.weights(3, 3, 3, 3, seed=1),
            "w3": models.weights(108, 9),
            "w4": models.weights(9, 4),
            **({} if last == "Relu" else bounds),
        },
    )
    found = [prepared(proto, folder, fuse=on) for on in (True, False)]
    return found[0].train, found[1].train


@pytest.mark.parametrize("last", ["Relu", "Clip"])
def test_activations_are_joined_and_results_stay(last: str, tmp_path: Path) -> None:
    joined, apart = activated(tmp_path, last)
    endings = [n.op for n in joined.nodes if "ending" in n.attrs]
    assert endings == ["conv2d", "add", "dense"]
    assert ops(joined)[last.lower()] == 0
    assert ops(apart)[last.lower()] == 3
    for run in (run_plain, kernels_run.run_kernels):
        results = []
        for graph in (joined, apart):
            values = run(graph, graph.initial, sample_feeds(graph), 0.05)
            kept = graph.with_role(Role.PARAMETER, Role.LOSS)
            results.append({graph.values[v.id].name: values[v.id].tobytes() for v in kept})
        assert results[0] == results[1]


def test_a_result_that_is_read_twice_keeps_its_activation_apart(tmp_path: Path) -> None:
    proto = models.model(
        [
            models.node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
            models.node("Relu", "c", "r"),
            models.node("Add", "r c", "y"),
        ],
        [1, 2, 5, 5],
        {"w": models.weights(2, 2, 3, 3)},
    )
    graph = prepared(proto, tmp_path, loss="mse").train
    assert ops(graph)["relu"] == 1
    assert not any("ending" in node.attrs for node in graph.nodes)


def test_the_evaluation_is_joined_too(tmp_path: Path) -> None:
    made = [prepared(models.residual(2), tmp_path, fuse=on).evaluation for on in (True, False)]
    assert ops(made[0])["relu"] < ops(made[1])["relu"]
    x = np.random.default_rng(1).standard_normal((2, 1, 6, 6)).astype(np.float32)
    shape = made[0].with_role(Role.INPUT)[0].shape
    outs = [models.run_graph(graph, np.resize(x, shape))[0] for graph in made]
    assert outs[0].tobytes() == outs[1].tobytes()
