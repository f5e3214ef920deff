"""Orders of execution: the same graph, valid, repeatable, and of use."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import plans
import pytest

from poet_mcu.ir.graph import Graph, Node, Phase, Role, TensorType, Value
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.pipeline.selfcheck import check_program, sample_feeds
from poet_mcu.schedule import free_early, simulate
from poet_mcu.schedule.pricing import make_problem
from poet_mcu.sim.plain import run_plain
from poet_mcu.training.order import ORDERS, orders, reordered


@pytest.fixture
def made(tmp_path: Path) -> plans.Prepared:
    return plans.prepared(models.cnn("N"), tmp_path, batch=2)


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_is_the_same_graph(made: plans.Prepared, name: str) -> None:
    graph = made.train
    order = ORDERS[name](graph)
    assert sorted(order) == list(range(len(graph.nodes)))
    assert order == ORDERS[name](graph)
    other = reordered(graph, order)
    verify_graph(other, training=True)
    feeds = sample_feeds(graph)
    one, two = (run_plain(g, g.initial, feeds, 0.1) for g in (graph, other))
    assert set(one) == set(two)
    assert all(one[v].tobytes() == two[v].tobytes() for v in one)


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_is_planned_and_computed(tmp_path: Path, name: str) -> None:
    made = plans.prepared(models.cnn("N"), tmp_path, batch=2, order=name)
    check_program(plans.step_plan(made, squeeze=0.3))


def test_updates_early_stand_right_behind_their_gradients(made: plans.Prepared) -> None:
    graph = made.train
    early = reordered(graph, ORDERS["updates-early"](graph))
    made_at = {v: node.id for node in early.nodes for v in node.outputs}
    updates = [node for node in early.nodes if node.phase is Phase.UPDATE]
    assert updates
    for node in updates:
        ready = max(made_at[v] for v in node.inputs if v in made_at)
        readers = [n.id for n in early.nodes if node.mutates[0] in n.inputs and n is not node]
        # only other updates may stand between
        between = early.nodes[max([ready, *readers]) + 1 : node.id]
        assert all(n.phase is Phase.UPDATE for n in between)


def wide() -> Graph:
    """Four large branches that end small; the given order makes all of them before any ends."""
    big, small = TensorType((1024,)), TensorType((4,))
    values = [Value(0, "x", small, Role.INPUT)]
    nodes = []
    for k in range(4):
        values.append(Value(1 + k, f"big{k}", big, Role.ACTIVATION))
        nodes.append(Node(k, "grow", (0,), (1 + k,), {}, Phase.FORWARD))
    for k in range(4):
        values.append(Value(5 + k, f"small{k}", small, Role.ACTIVATION))
        nodes.append(Node(4 + k, "shrink", (1 + k,), (5 + k,), {}, Phase.FORWARD))
    return Graph("wide", tuple(values), tuple(nodes), (5, 6, 7, 8))


def live_peak(graph: Graph) -> int:
    last = {v: node.id for node in graph.nodes for v in node.inputs}
    live, peak = 0, 0
    for node in graph.nodes:
        live += sum(graph.values[v].type.nbytes for v in node.outputs)
        peak = max(peak, live)
        live -= sum(graph.values[v].type.nbytes for v in node.inputs if v and last[v] == node.id)
    return peak


@pytest.mark.parametrize("name", ["depth-first", "memory-greedy"])
def test_branches_are_finished_one_after_the_other(name: str) -> None:
    graph = wide()
    assert live_peak(graph) == 4 * 4096 + 16
    assert live_peak(reordered(graph, ORDERS[name](graph))) <= 2 * 4096
    assert list(orders(graph))[:2] == ["given", "depth-first"]


def test_greedy_order_never_raises_the_peak_of_this_model(made: plans.Prepared) -> None:
    board = plans.load_board(plans.BOARD)
    peaks = {
        name: simulate(p := make_problem(graph, board, 1 << 20), free_early(p)).peak_bytes
        for name, graph in orders(made.train).items()
    }
    assert min(peaks.values()) <= peaks["given"]
    assert np.isfinite(list(peaks.values())).all()
