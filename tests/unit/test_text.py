"""The text dumps, whole, and that they depend on nothing but the object."""

from __future__ import annotations

import dataclasses

import numpy as np
from test_memory_plans import TINY_WORKSPACE, A, padded, tiny_graph, tiny_schedule

from poet_mcu.ir.graph import Graph, Node, Phase, Role, TensorType, Value
from poet_mcu.ir.placement import Page, Placement, Scratch, Slot
from poet_mcu.ir.schedule import Schedule
from poet_mcu.ir.text import graph_text, placement_text, schedule_text
from poet_mcu.memory.pack import place

GRAPH_TEXT = """\
graph 'tiny'
value 0 'x' f32[4,4] input
value 1 't' i32[1] label
value 2 'w' f32[4,4] parameter origin='fc.weight' initial=crc32:758d6336
value 3 'c' f32[4] constant initial=crc32:e8681456
value 4 'm' f32[4,4] state
value 5 'a' f32[16] activation
value 6 'r' f32[16] activation
value 7 'v' f32[4,4] activation view of 6
value 8 'p' f32[4,4] activation
value 9 'loss' f32[] loss
value 10 'gp' f32[4,4] gradient
value 11 'gw' f32[4,4] gradient
node 0 bias(0, 3) -> (5) forward
node 1 relu(5) -> (6) forward
node 2 dense(7, 2) -> (8) forward units=4 origin='fc'
node 3 xent(8, 1) -> (9) loss
node 4 xent_bwd(8, 1) -> (10) backward
node 5 dense_bwd_w(7, 10) -> (11) backward
node 6 momentum(2, 11, 4) -> () update mutates=(2, 4)
outputs (9)
"""


def test_graph():
    assert graph_text(tiny_graph()) == GRAPH_TEXT


def test_schedule():
    short = Schedule(tiny_schedule().actions[7:11] + tiny_schedule().actions[17:18])
    assert schedule_text(short) == (
        "schedule 5 actions\n"
        "0 compute 3\n"
        "1 compute 4 in_place=10<-8\n"
        "2 free 1\n"
        "3 page_in 6\n"
        "4 compute 0 recompute\n"
    )
    assert schedule_text(short, tiny_graph()) == (
        "schedule 5 actions\n"
        "0 compute 3 xent\n"
        "1 compute 4 xent_bwd in_place=10<-8\n"
        "2 free 1 't'\n"
        "3 page_in 6 'r'\n"
        "4 compute 0 bias recompute\n"
    )


def test_placement():
    placement = Placement((Slot(2, 0, 64, 0, 9),), (Scratch(3, 64, 32),), (Page(6, 8, 2),), 96, 32)
    assert placement_text(placement) == (
        "placement arena=96 alignment=32\n"
        "slot 2 bytes [0, 64) actions [0, 9)\n"
        "scratch action 3 bytes [64, 96)\n"
        "page 6 blocks [8, 10)\n"
    )
    assert "slot 2 'w' bytes" in placement_text(placement, tiny_graph())
    assert "page 6 'r' blocks" in placement_text(placement, tiny_graph())


def test_attributes_are_sorted_and_all_kinds_are_spelt():
    node = Node(0, "op", (0,), (), {"z": 0.1, "a": (1, 2), "m": "it's", "k": 3}, Phase.FORWARD)
    graph = Graph("g", (Value(0, "x", TensorType(()), Role.INPUT),), (node,), (0,))
    again = dataclasses.replace(
        graph, nodes=(dataclasses.replace(node, attrs=dict(reversed(node.attrs.items()))),)
    )
    assert graph_text(graph) == graph_text(again)
    assert "forward a=(1, 2) k=3 m='it\\'s' z=0.1\n" in graph_text(graph)


def test_strange_names_stay_on_one_line_of_ascii():
    graph = Graph("g\n\u00e9", (Value(0, "a\nb'\u2603", TensorType(()), Role.INPUT),), (), (0,))
    text = graph_text(graph)
    assert text.isascii()
    assert text.splitlines() == [
        "graph 'g\\n\\xe9'",
        "value 0 'a\\nb\\'\\u2603' f32[] input",
        "outputs (0)",
    ]


def test_initial_data_shows_and_byte_order_does_not():
    graph = tiny_graph()
    other = dataclasses.replace(graph, initial={**graph.initial, 2: np.ones((4, 4), np.float32)})
    assert graph_text(graph) != graph_text(other)
    swapped = {
        key: data.astype(data.dtype.newbyteorder(">")) for key, data in graph.initial.items()
    }
    assert graph_text(dataclasses.replace(graph, initial=swapped)) == graph_text(graph)


def test_each_difference_shows():
    schedule = tiny_schedule()
    texts = {
        schedule_text(Schedule((*schedule.actions[:i], *schedule.actions[i + 1 :])))
        for i in range(len(schedule.actions))
    }
    assert len(texts) == len(schedule.actions)
    graph, sizes = tiny_graph(), padded(tiny_graph())
    one = place(graph, schedule, sizes, TINY_WORKSPACE, 32, None, 1)
    two = place(graph, schedule, sizes | {A: 96}, TINY_WORKSPACE, 32, None, 1)
    assert placement_text(one) != placement_text(two)
    assert placement_text(one) == placement_text(
        place(graph, schedule, sizes, TINY_WORKSPACE, 32, None, 1)
    )
