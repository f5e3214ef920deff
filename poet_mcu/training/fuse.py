"""Joins nodes whose kernels can run as one: a pass over a finished graph, training or evaluation.

A pair is joined where that needs no more memory at any moment and gives the same bits:

- a gradient and the update that alone reads it, where nothing between them reads or changes what
  the update overwrites. The update then happens earlier, the gradient is never whole. Where the
  parameter's home is the card, it must be resident with the gradient's operands; the pair is
  joined only if that fits into what the whole gradient took.
- a node whose operator can end in an activation, and the activation that alone reads its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from poet_mcu.ir.graph import Graph, Node
from poet_mcu.ops.ending import ENDINGS, ending_of
from poet_mcu.ops.fused_update import fused_name
from poet_mcu.ops.table import OPERATORS


def fused(graph: Graph) -> Graph:
    """``graph`` with every pair joined that may be."""
    graph = _joined(graph, _updates(graph))
    return _joined(graph, _activations(graph))


#: id of the node that stays -> (the joined node in its place, id of the node that goes)
_Pairs = Mapping[int, tuple[Node, int]]


def _updates(graph: Graph) -> _Pairs:
    """Gradients that end in their update."""
    makers = {value: node for node in graph.nodes for value in node.outputs}
    readers = _readers(graph)
    found: dict[int, tuple[Node, int]] = {}
    for update in graph.nodes:
        maker = makers.get(graph.root(update.inputs[1])) if len(update.inputs) > 1 else None
        name = fused_name(maker.op, update.op) if maker else ""
        if maker is None or not name or readers[maker.outputs[0]] != [update.id]:
            continue
        changed = {graph.root(v) for v in update.mutates}
        if any(_touches(graph, n, changed) for n in graph.nodes[maker.id + 1 : update.id]):
            continue
        parameter, _, *state = update.inputs
        node = replace(
            update,
            id=maker.id,
            op=name,
            inputs=(*maker.inputs, parameter, *state),
            attrs=MappingProxyType({**maker.attrs, **update.attrs}),
        )
        if _fits_on_card(graph, maker, node, changed):
            found[maker.id] = (node, update.id)
    return found


def _activations(graph: Graph) -> _Pairs:
    """Nodes that end in the activation that alone reads their result."""
    makers = {node.outputs[0]: node for node in graph.nodes if node.outputs}
    readers = _readers(graph)
    found: dict[int, tuple[Node, int]] = {}
    for after in graph.nodes:
        maker = makers.get(after.inputs[0]) if after.op in ENDINGS else None
        if maker is None or readers[maker.outputs[0]] != [after.id] or ending_of(maker.attrs):
            continue
        types = [graph.values[v].type for v in maker.inputs]
        if OPERATORS[maker.op].ends_in(after.op, types, maker.attrs):
            attrs = {**maker.attrs, **after.attrs, "ending": after.op}
            outputs = (*after.outputs, *maker.outputs[1:])
            node = replace(maker, outputs=outputs, attrs=MappingProxyType(attrs))
            found[maker.id] = (node, after.id)
    return found


def _fits_on_card(graph: Graph, maker: Node, node: Node, changed: set[int]) -> bool:
    """Whether joining needs no more than the whole gradient did, where its home is the card."""
    if not changed & graph.card_homes:
        return True
    types = [graph.values[v].type for v in node.inputs]
    scratch = OPERATORS[node.op].workspace_bytes(types, (), node.attrs)
    read = sum(graph.values[v].type.nbytes for v in maker.inputs)
    return read + scratch <= graph.values[maker.outputs[0]].type.nbytes


def _readers(graph: Graph) -> dict[int, list[int]]:
    """Node ids by the root value they read; the graph's outputs are read by node -1."""
    found: dict[int, list[int]] = {value.id: [] for value in graph.values}
    for node in graph.nodes:
        for root in {graph.root(v) for v in node.inputs}:
            found[root].append(node.id)
    for value in graph.outputs:
        found[graph.root(value)].append(-1)
    return found


def _touches(graph: Graph, node: Node, roots: set[int]) -> bool:
    return bool(roots & {graph.root(v) for v in (*node.inputs, *node.mutates)})


def _joined(graph: Graph, pairs: _Pairs) -> Graph:
    """The graph with the pairs' joined nodes, without the values that nothing makes any more."""
    gone = {other for _, other in pairs.values()}
    nodes = [pairs[n.id][0] if n.id in pairs else n for n in graph.nodes if n.id not in gone]
    made = {v for node in graph.nodes for v in node.outputs}
    still = {v for node in nodes for v in node.outputs}
    kept = [v for v in graph.values if graph.root(v.id) not in made - still]
    new = {value.id: place for place, value in enumerate(kept)}

    def moved(ids: Iterable[int]) -> tuple[int, ...]:
        return tuple(new[v] for v in ids)

    values = tuple(
        replace(v, id=new[v.id], base=None if v.base is None else new[v.base]) for v in kept
    )
    renumbered = tuple(
        replace(
            node,
            id=place,
            inputs=moved(node.inputs),
            outputs=moved(node.outputs),
            mutates=moved(node.mutates),
        )
        for place, node in enumerate(nodes)
    )
    return Graph(
        graph.name,
        values,
        renumbered,
        moved(graph.outputs),
        MappingProxyType({new[v]: array for v, array in graph.initial.items()}),
        frozenset(moved(sorted(graph.card_homes))),
    )
