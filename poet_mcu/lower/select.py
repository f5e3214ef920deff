"""Chooses the form of each node's kernel: by the board's prices, within the memory that is free.

All forms of a kernel give the same bits, so the choice shows in no result. The rule: a node takes
the cheapest form whose workspace fits beside what is live while it runs, when every value is freed
after its last reader. One that other rows of the table price must save a tenth, since prices are
off by about as much. Where the budget does not hold that plan, and so something has to be paged or
recomputed, every node keeps the form without workspace: memory is then worth more than time.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from poet_mcu.board.schema import Board
from poet_mcu.cost import is_priced, node_cycles
from poet_mcu.ir.graph import Graph, Node
from poet_mcu.ir.schedule import ActionKind
from poet_mcu.memory.lifetimes import lifetimes, live_profile
from poet_mcu.ops.operator import Types, variant_of
from poet_mcu.ops.table import OPERATORS
from poet_mcu.schedule import free_early
from poet_mcu.schedule.pricing import make_problem, padded_sizes, workspaces
from poet_mcu.units import round_up

#: share of the first form's cycles that one of another kernel family may need
_WORTH = 0.9


def with_forms(graph: Graph, board: Board, memory_bytes: int) -> Graph:
    """``graph`` with attribute ``variant`` at the nodes that take another form of their kernel.

    ``memory_bytes`` is the arena's budget, parameters included.
    """
    if not any(_forms_of(graph, node) for node in graph.nodes):
        return graph
    live = _live_bytes(graph, board)
    if max(live.values()) > memory_bytes:
        return graph
    free = {node: memory_bytes - nbytes for node, nbytes in live.items()}
    return replace(graph, nodes=tuple(_chosen(graph, n, board, free[n.id]) for n in graph.nodes))


def forms(graph: Graph) -> dict[str, dict[str, Any]]:
    """For the nodes that took another form, by name: the form and its workspace."""
    scratch = workspaces(graph)
    return {
        f"{node.op} {graph.values[(node.outputs or node.mutates)[0]].name}": {
            "form": variant_of(node.attrs),
            "workspace_bytes": scratch[node.id],
        }
        for node in graph.nodes
        if variant_of(node.attrs)
    }


def _types(graph: Graph, node: Node) -> tuple[Types, Types]:
    return (
        [graph.values[v].type for v in node.inputs],
        [graph.values[v].type for v in node.outputs],
    )


def _forms_of(graph: Graph, node: Node) -> tuple[str, ...]:
    return OPERATORS[node.op].variants(*_types(graph, node), node.attrs)


def _live_bytes(graph: Graph, board: Board) -> dict[int, int]:
    """Bytes of the arena in use while each node runs, everything freed as early as can be."""
    alignment = board.arena.alignment_bytes
    schedule = free_early(make_problem(graph, board, 0))
    sizes = padded_sizes(graph, alignment)
    profile = live_profile(lifetimes(graph, schedule, sizes, workspaces(graph), alignment))
    return {
        action.subject: profile[index]
        for index, action in enumerate(schedule.actions)
        if action.kind is ActionKind.COMPUTE
    }


def _chosen(graph: Graph, node: Node, board: Board, free_bytes: int) -> Node:
    """The node in its cheapest form that fits; the first of equals."""
    operator, types = OPERATORS[node.op], _types(graph, node)
    first = operator.cost(*types, node.attrs)
    plain = node_cycles(first, board)
    best, least = node, plain
    for form in _forms_of(graph, node):
        attrs = MappingProxyType({**node.attrs, "variant": form})
        cost = operator.cost(*types, attrs)
        scratch = round_up(operator.workspace_bytes(*types, attrs), board.arena.alignment_bytes)
        if scratch > free_bytes or not is_priced(cost, board):
            continue
        cycles = node_cycles(cost, board)
        worth = plain if cost.family == first.family else _WORTH * plain
        if cycles < min(least, worth):
            best, least = replace(node, attrs=attrs), cycles
    return best
