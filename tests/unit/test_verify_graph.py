"""One sabotage per rule of verify_graph: a good graph broken in exactly one way."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from test_memory_plans import GW, LOSS, A, C, M, P, R, V, W, X, tiny_graph

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import DType, Graph, Node, Phase, Role, TensorType, Value
from poet_mcu.ir.verify_graph import verify_graph


def with_value(graph: Graph, value_id: int, **changes: object) -> Graph:
    values = list(graph.values)
    values[value_id] = dataclasses.replace(values[value_id], **changes)
    return dataclasses.replace(graph, values=tuple(values))


def with_node(graph: Graph, node_id: int, **changes: object) -> Graph:
    nodes = list(graph.nodes)
    nodes[node_id] = dataclasses.replace(nodes[node_id], **changes)
    return dataclasses.replace(graph, nodes=tuple(nodes))


def with_initial(graph: Graph, **changes: object) -> Graph:
    initial = {**graph.initial, **{int(key[1:]): data for key, data in changes.items()}}
    return dataclasses.replace(graph, initial={k: d for k, d in initial.items() if d is not None})


def swapped(graph: Graph, one: int, two: int) -> Graph:
    nodes = list(graph.nodes)
    nodes[one], nodes[two] = nodes[two], nodes[one]
    nodes = [dataclasses.replace(node, id=i) for i, node in enumerate(nodes)]
    return dataclasses.replace(graph, nodes=tuple(nodes))


def appended(graph: Graph, *inputs: int, phase: Phase, mutates: tuple[int, ...] = ()) -> Graph:
    node = Node(len(graph.nodes), "extra", inputs, (), {}, phase, mutates=mutates)
    return dataclasses.replace(graph, nodes=(*graph.nodes, node))


def with_extra_value(graph: Graph, role: Role) -> Graph:
    value = Value(len(graph.values), "extra", TensorType(()), role)
    node = Node(len(graph.nodes), "extra", (GW,), (value.id,), {}, Phase.UPDATE)
    return dataclasses.replace(graph, values=(*graph.values, value), nodes=(*graph.nodes, node))


G = tiny_graph()
F32 = np.float32
SABOTAGES = {
    "value id": (with_value(G, X, id=7), "value 'x': expected id 0 (its position), got 7"),
    "node id": (with_node(G, 1, id=4), "node (relu): expected id 1 (its position), got 4"),
    "missing base": (
        with_value(G, V, base=99),
        "value 7 'v': expected a base that exists, got 99",
    ),
    "missing input": (
        with_node(G, 1, inputs=(99,)),
        "node 1 (relu): inputs: expected values that exist, got 99",
    ),
    "negative output": (
        with_node(G, 1, outputs=(-1,)),
        "node 1 (relu): outputs: expected values that exist, got -1",
    ),
    "missing mutated": (
        with_node(G, 6, mutates=(W, M, 99)),
        "node 6 (momentum): mutates: expected values that exist, got 99",
    ),
    "missing graph output": (
        dataclasses.replace(G, outputs=(LOSS, 12)),
        "graph 'tiny': outputs: expected values that exist, got 12",
    ),
    "missing initial": (
        with_initial(G, _40=np.zeros(1, F32)),
        "graph 'tiny': initial: expected values that exist, got 40",
    ),
    "view of a view": (
        with_value(G, P, base=V),
        "value 8 'p': expected a base that is no view, got value 7 'v'",
    ),
    "view of other bytes": (
        with_value(G, V, type=TensorType((4, 3))),
        "value 7 'v': expected the 64 bytes of its base, got 48",
    ),
    "view of other type": (
        with_value(G, V, type=TensorType((4, 4), DType.I32)),
        "value 7 'v': expected the type F32 of its base, got I32",
    ),
    "double name": (with_value(G, A, name="x"), "name 'x': expected one value of this name, got 2"),
    "no producer": (
        with_node(G, 5, outputs=()),
        "value 11 'gw': expected exactly one producer, got nodes []",
    ),
    "two producers": (
        with_node(G, 1, outputs=(R, A)),
        "value 5 'a': expected exactly one producer, got nodes [0, 1]",
    ),
    "produced source": (
        with_node(G, 1, outputs=(R, C)),
        "value 3 'c': expected no producer of role constant, got nodes [1]",
    ),
    "produced view": (
        with_node(G, 1, outputs=(R, V)),
        "value 7 'v': expected no producer of a view, got nodes [1]",
    ),
    "used before made": (
        swapped(G, 0, 1),
        "node 0 (relu): expected inputs that are defined before it, got value 5 'a'",
    ),
    "view used before its base": (
        swapped(G, 1, 2),
        "node 1 (dense): expected inputs that are defined before it, got value 7 'v'",
    ),
    "no initial data": (
        with_initial(G, _3=None),
        "value 3 'c': expected initial data, got none",
    ),
    "initial shape": (
        with_initial(G, _2=np.zeros(16, F32)),
        "value 2 'w': expected initial data of shape (4, 4), got (16,)",
    ),
    "initial type": (
        with_initial(G, _3=np.ones(4)),
        "value 3 'c': expected initial data of type F32, got float64",
    ),
    "mutates an activation": (
        with_node(G, 6, mutates=(W, M, GW)),
        (
            "node 6 (momentum): expected to mutate a parameter or state, "
            "got value 11 'gw' of role gradient"
        ),
    ),
    "mutates a constant": (
        with_node(G, 0, mutates=(C,)),
        "node 0 (bias): expected to mutate a parameter or state, got value 3 'c' of role constant",
    ),
    "mutates a view": (
        with_value(with_node(G, 6, mutates=(W, M, V)), V, role=Role.STATE),
        "node 6 (momentum): expected to mutate no view, got value 7 'v'",
    ),
    "mutates what it does not read": (
        with_node(G, 6, inputs=(W, GW)),
        "node 6 (momentum): expected to mutate one of its inputs, got value 4 'm'",
    ),
    "no update": (
        with_node(G, 6, mutates=(M,)),
        "value 2 'w': expected exactly one update node, got nodes []",
    ),
    "two updates": (
        appended(G, W, phase=Phase.UPDATE, mutates=(W,)),
        "value 2 'w': expected exactly one update node, got nodes ['6 (update)', '7 (update)']",
    ),
    "update in the backward phase": (
        with_node(G, 6, phase=Phase.BACKWARD),
        "value 2 'w': expected exactly one update node, got nodes ['6 (backward)']",
    ),
    "read after update": (
        appended(G, W, phase=Phase.UPDATE),
        "value 2 'w': expected no reader after its update in node 6 (momentum), got nodes [7]",
    ),
    "backward reads what an update makes": (
        appended(with_extra_value(G, Role.GRADIENT), len(G.values), phase=Phase.BACKWARD),
        f"node 8 (extra): expected no operand that an update makes, got value {len(G.values)}",
    ),
    "an update makes an output": (
        dataclasses.replace(with_extra_value(G, Role.GRADIENT), outputs=(LOSS, len(G.values))),
        f"outputs: expected none that an update makes, got value {len(G.values)} 'extra'",
    ),
    "phase goes back": (
        with_node(G, 5, phase=Phase.FORWARD),
        (
            "node 5 (dense_bwd_w): expected phases in the order forward, loss, backward/update, "
            "got forward after backward"
        ),
    ),
    "loss after backward": (
        with_node(G, 5, phase=Phase.LOSS),
        (
            "node 5 (dense_bwd_w): expected phases in the order forward, loss, backward/update, "
            "got loss after backward"
        ),
    ),
    "no loss": (
        with_value(G, LOSS, role=Role.ACTIVATION),
        "loss: expected exactly one value, got []",
    ),
    "two losses": (
        with_extra_value(G, Role.LOSS),
        "loss: expected exactly one value, got [\"value 9 'loss'\", \"value 12 'extra'\"]",
    ),
    "loss is no scalar": (
        with_value(G, LOSS, type=TensorType((2,))),
        "value 9 'loss': expected a scalar loss, got shape (2,)",
    ),
}


@pytest.mark.parametrize("name", SABOTAGES)
def test_sabotage(name):
    graph, message = SABOTAGES[name]
    with pytest.raises(InternalError, match=re.escape(message)) as caught:
        verify_graph(graph, training=True)
    assert str(caught.value).endswith("; this is a bug in the pass that made the graph")


def test_one_break_is_one_line():
    with pytest.raises(InternalError) as caught:
        verify_graph(with_value(G, A, name="x"), training=True)
    assert str(caught.value) == (
        "graph 'tiny': name 'x': expected one value of this name, got 2; "
        "this is a bug in the pass that made the graph"
    )


def test_all_problems_are_listed_at_once():
    graph = with_initial(
        with_value(with_value(G, A, name="x"), LOSS, type=TensorType((2,))), _3=None
    )
    with pytest.raises(InternalError) as caught:
        verify_graph(graph, training=True)
    assert len(str(caught.value).splitlines()) == 3


def test_training_rules_are_for_training_only():
    nodes = G.nodes[:3]
    values = G.values[: P + 1]
    forward = Graph("forward", values, nodes, (P,), G.initial)
    verify_graph(forward, training=False)
    with pytest.raises(InternalError, match="expected exactly one update node"):
        verify_graph(forward, training=True)


def test_update_and_backward_may_interleave():
    graph = with_extra_value(G, Role.GRADIENT)
    graph = with_node(graph, 7, phase=Phase.BACKWARD)
    verify_graph(graph, training=True)


def test_state_may_be_mutated_in_the_forward_phase():
    verify_graph(with_node(G, 0, inputs=(X, C, M), mutates=(M,)), training=True)


def test_state_with_start_data_must_agree():
    verify_graph(with_initial(G, _4=np.ones((4, 4), F32)), training=True)
    with pytest.raises(InternalError, match=r"value 4 'm': expected initial data of shape"):
        verify_graph(with_initial(G, _4=np.ones(4, F32)), training=True)
