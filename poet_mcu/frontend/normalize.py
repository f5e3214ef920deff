"""Rewrites of the forward graph that keep every value and gradient and save memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from poet_mcu.ir.graph import Graph, Node, Value


def swap_relu_maxpool(graph: Graph) -> Graph:
    """Relu then MaxPool becomes MaxPool then Relu where the Relu has no other reader.

    Exact: both are monotone, so the maximum of the rectified window is the rectified maximum. The
    winner is the same element where it is positive, and where it is not both gradients are 0. The
    Relu's output shrinks to the pooled size, and its large input is then free after the pooling.
    """
    while True:
        swapped = _swap_once(graph)
        if swapped == graph:
            return graph
        graph = swapped


def _swap_once(graph: Graph) -> Graph:
    readers = Counter(graph.root(i) for node in graph.nodes for i in node.inputs)
    readers.update(graph.root(i) for i in graph.outputs)
    viewed = {value.base for value in graph.values if value.base is not None}
    producer = {out: node for node in graph.nodes for out in node.outputs}
    values, nodes = list(graph.values), list(graph.nodes)
    for pool in graph.nodes:
        relu = producer.get(pool.inputs[0])
        if pool.op != "maxpool2d" or relu is None or relu.op != "relu":
            continue
        middle = relu.outputs[0]
        if readers[middle] == 1 and middle not in viewed:
            _swap(values, nodes, relu, pool)
    return replace(graph, values=tuple(values), nodes=tuple(nodes))


def _swap(values: list[Value], nodes: list[Node], relu: Node, pool: Node) -> None:
    """The pooling takes the Relu's place in the order and writes the value between them."""
    middle, result = relu.outputs[0], pool.outputs[0]
    taken = {value.name for value in values}
    name = f"{values[result].name}_linear"
    while name in taken:
        name += "_"
    values[middle] = replace(values[middle], name=name, type=values[result].type)
    first = replace(pool, id=relu.id, inputs=relu.inputs, outputs=(middle, *pool.outputs[1:]))
    nodes[relu.id] = first
    nodes[pool.id] = replace(relu, id=pool.id, inputs=(middle,), outputs=(result,))
