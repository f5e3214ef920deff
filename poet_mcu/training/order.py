"""Other orders of execution of a graph: the same nodes and values, renumbered.

Every order keeps what the graph means: a node stands behind the producers of its inputs, and a
node that overwrites a value behind all others that read it. Ties break by the given order, so the
results are the same on every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from poet_mcu.ir.graph import HOST_WRITTEN, Graph, Node, Phase


def _before(graph: Graph) -> list[set[int]]:
    """For each node the nodes that must run first."""
    producer: dict[int, int] = {}
    readers: dict[int, set[int]] = {}
    for node in graph.nodes:
        producer.update((graph.root(v), node.id) for v in node.outputs)
        for value in node.inputs:
            readers.setdefault(graph.root(value), set()).add(node.id)
    before: list[set[int]] = []
    changed: dict[int, int] = {}
    for node in graph.nodes:
        roots = {graph.root(v) for v in node.inputs}
        needed = {producer[r] for r in roots if r in producer}
        needed |= {changed[r] for r in roots if r in changed}
        for value in {graph.root(v) for v in node.mutates}:
            needed |= {k for k in readers.get(value, ()) if k < node.id}
            changed[value] = node.id
        before.append(needed - {node.id})
    return before


def _list_order(graph: Graph, pick: Callable[[list[int], list[int]], int]) -> tuple[int, ...]:
    """Node ids, each picked from those that may run; ``pick`` gets them and what has run."""
    before = _before(graph)
    done: list[int] = []
    ready = [k for k, needed in enumerate(before) if not needed]
    waiting = {k for k, needed in enumerate(before) if needed}
    while ready:
        chosen = pick(ready, done)
        ready.remove(chosen)
        done.append(chosen)
        finished = set(done)
        freed = sorted(k for k in waiting if before[k] <= finished)
        waiting.difference_update(freed)
        ready += freed
    return tuple(done)


def _updates_early(graph: Graph) -> tuple[int, ...]:
    """The given order with each update as soon as its gradient is there."""

    def pick(ready: list[int], _: list[int]) -> int:
        return min(ready, key=lambda k: (graph.nodes[k].phase is not Phase.UPDATE, k))

    return _list_order(graph, pick)


def _depth_first(graph: Graph) -> tuple[int, ...]:
    """What became possible last comes first: one branch is finished before the next begins."""

    def pick(ready: list[int], done: list[int]) -> int:
        return ready[-1] if done else ready[0]

    return _list_order(graph, pick)


def _memory_greedy(graph: Graph) -> tuple[int, ...]:
    """Always the node after which the fewest bytes are live."""
    readers: dict[int, set[int]] = {}
    for node in graph.nodes:
        for value in node.inputs:
            readers.setdefault(graph.root(value), set()).add(node.id)
    made = {v for node in graph.nodes for v in node.outputs}
    made |= {value.id for value in graph.with_role(*HOST_WRITTEN)}
    kept = {graph.root(v) for v in graph.outputs}

    def grows(node: Node, done: set[int]) -> int:
        new = sum(graph.values[v].type.nbytes for v in node.outputs)
        dead = [
            root
            for root in {graph.root(v) for v in node.inputs}
            if root in made and root not in kept and readers[root] <= done | {node.id}
        ]
        return new - sum(graph.values[root].type.nbytes for root in dead)

    def pick(ready: list[int], done: list[int]) -> int:
        finished = set(done)
        return min(ready, key=lambda k: (grows(graph.nodes[k], finished), k))

    return _list_order(graph, pick)


#: name -> node ids of a graph in that order
ORDERS: Mapping[str, Callable[[Graph], tuple[int, ...]]] = MappingProxyType(
    {
        "given": lambda graph: tuple(range(len(graph.nodes))),
        "updates-early": _updates_early,
        "depth-first": _depth_first,
        "memory-greedy": _memory_greedy,
    }
)


def reordered(graph: Graph, order: tuple[int, ...]) -> Graph:
    """``graph`` with its nodes in ``order``, renumbered."""
    nodes = tuple(replace(graph.nodes[old], id=new) for new, old in enumerate(order))
    return replace(graph, nodes=nodes)


def orders(graph: Graph) -> dict[str, Graph]:
    """The graph in every order, each different one once, under the first of its names."""
    found: dict[tuple[int, ...], str] = {}
    for name, make in ORDERS.items():
        found.setdefault(make(graph), name)
    return {name: reordered(graph, order) for order, name in found.items()}
