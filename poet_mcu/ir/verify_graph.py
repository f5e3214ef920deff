"""Checks a Graph against the rules of ``ir/graph.py``; runs on every build.

Shapes against the operators' own rules are not checked here: this layer knows no operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import HOME_FLASH, HOME_RAM, HOST_WRITTEN, Graph, Node, Phase, Role, Value

_SOURCES = HOME_RAM | HOME_FLASH | HOST_WRITTEN
_PHASE_RANK = {Phase.FORWARD: 0, Phase.LOSS: 1, Phase.BACKWARD: 2, Phase.UPDATE: 2}


def verify_graph(graph: Graph, training: bool) -> None:
    """Return if every rule holds.

    Args:
        graph: the graph to check.
        training: also require what only a training graph has: one scalar loss, one update per
            parameter, phases in order.

    Raises:
        InternalError: one line per broken rule. Broken ids are reported alone, because the
            other rules cannot be stated without them.
    """
    problems = [*_reference_problems(graph)]
    if not problems:
        problems += _view_problems(graph)
        problems += _name_problems(graph)
        problems += _producer_problems(graph)
        problems += _order_problems(graph)
        problems += _initial_problems(graph)
        problems += _mutation_problems(graph)
        if training:
            problems += _update_problems(graph)
            problems += _phase_problems(graph)
            problems += _loss_problems(graph)
    if problems:
        head = f"graph '{graph.name}'"
        lines = "\n".join(f"{head}: {problem}" for problem in problems)
        raise InternalError(f"{lines}; this is a bug in the pass that made the graph")


def _value(value: Value) -> str:
    return f"value {value.id} '{value.name}'"


def _node(node: Node) -> str:
    return f"node {node.id} ({node.op})"


def _reference_problems(graph: Graph) -> Iterator[str]:
    known = range(len(graph.values))
    for index, value in enumerate(graph.values):
        if value.id != index:
            yield f"value '{value.name}': expected id {index} (its position), got {value.id}"
        if value.base is not None and value.base not in known:
            yield f"{_value(value)}: expected a base that exists, got {value.base}"
    for index, node in enumerate(graph.nodes):
        if node.id != index:
            yield f"node ({node.op}): expected id {index} (its position), got {node.id}"
        fields = (("inputs", node.inputs), ("outputs", node.outputs), ("mutates", node.mutates))
        for field, ids in fields:
            for missing in (i for i in ids if i not in known):
                yield f"{_node(node)}: {field}: expected values that exist, got {missing}"
    for missing in (i for i in graph.outputs if i not in known):
        yield f"outputs: expected values that exist, got {missing}"
    for missing in sorted(i for i in graph.initial if i not in known):
        yield f"initial: expected values that exist, got {missing}"


def _view_problems(graph: Graph) -> Iterator[str]:
    for value in graph.values:
        if value.base is None:
            continue
        base = graph.values[value.base]
        if base.base is not None:
            yield f"{_value(value)}: expected a base that is no view, got {_value(base)}"
        if base.type.nbytes != value.type.nbytes:
            yield (
                f"{_value(value)}: expected the {base.type.nbytes} bytes of its base, "
                f"got {value.type.nbytes}"
            )
        if base.type.dtype != value.type.dtype:
            yield (
                f"{_value(value)}: expected the type {base.type.dtype.name} of its base, "
                f"got {value.type.dtype.name}"
            )


def _name_problems(graph: Graph) -> Iterator[str]:
    counts = Counter(value.name for value in graph.values)
    for name, count in sorted(counts.items()):
        if count > 1:
            yield f"name '{name}': expected one value of this name, got {count}"


def _producer_problems(graph: Graph) -> Iterator[str]:
    producers: dict[int, list[int]] = {}
    for node in graph.nodes:
        for output in node.outputs:
            producers.setdefault(output, []).append(node.id)
    for value in graph.values:
        made_by = producers.get(value.id, [])
        if value.base is not None:
            if made_by:
                yield f"{_value(value)}: expected no producer of a view, got nodes {made_by}"
        elif value.role in _SOURCES:
            if made_by:
                yield (
                    f"{_value(value)}: expected no producer of role {value.role.value}, "
                    f"got nodes {made_by}"
                )
        elif len(made_by) != 1:
            yield f"{_value(value)}: expected exactly one producer, got nodes {made_by}"


def _order_problems(graph: Graph) -> Iterator[str]:
    defined = {value.id for value in graph.values if value.role in _SOURCES and value.base is None}
    for node in graph.nodes:
        for operand in node.inputs:
            if graph.root(operand) not in defined:
                yield (
                    f"{_node(node)}: expected inputs that are defined before it, "
                    f"got {_value(graph.values[operand])}"
                )
        defined.update(node.outputs)


def _initial_problems(graph: Graph) -> Iterator[str]:
    for value in graph.with_role(Role.PARAMETER, Role.CONSTANT, Role.STATISTIC):
        if value.id not in graph.initial:
            yield f"{_value(value)}: expected initial data, got none"
    for value_id, data in sorted(graph.initial.items()):
        value = graph.values[value_id]
        if data.shape != value.shape:
            yield (
                f"{_value(value)}: expected initial data of shape {value.shape}, got {data.shape}"
            )
        if data.dtype != np.dtype(value.type.dtype.numpy):
            yield (
                f"{_value(value)}: expected initial data of type {value.type.dtype.name}, "
                f"got {data.dtype}"
            )


def _mutation_problems(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        for mutated in node.mutates:
            value = graph.values[mutated]
            if value.base is not None:
                yield f"{_node(node)}: expected to mutate no view, got {_value(value)}"
            if value.role not in HOME_RAM:
                yield (
                    f"{_node(node)}: expected to mutate a parameter or state, "
                    f"got {_value(value)} of role {value.role.value}"
                )
            if graph.root(mutated) not in {graph.root(i) for i in node.inputs}:
                yield f"{_node(node)}: expected to mutate one of its inputs, got {_value(value)}"


def _update_problems(graph: Graph) -> Iterator[str]:
    for value in graph.with_role(Role.PARAMETER):
        writers = [node for node in graph.nodes for m in node.mutates if graph.root(m) == value.id]
        if len(writers) != 1 or writers[0].phase is not Phase.UPDATE:
            got = [f"{node.id} ({node.phase.value})" for node in writers]
            yield f"{_value(value)}: expected exactly one update node, got nodes {got}"
        if not writers:
            continue
        late = [
            node.id
            for node in graph.nodes
            if node.id > writers[0].id and value.id in {graph.root(i) for i in node.inputs}
        ]
        if late:
            yield (
                f"{_value(value)}: expected no reader after its update in "
                f"{_node(writers[0])}, got nodes {late}"
            )


def _phase_problems(graph: Graph) -> Iterator[str]:
    latest = Phase.FORWARD
    for node in graph.nodes:
        if _PHASE_RANK[node.phase] < _PHASE_RANK[latest]:
            yield (
                f"{_node(node)}: expected phases in the order forward, loss, backward/update, "
                f"got {node.phase.value} after {latest.value}"
            )
        else:
            latest = node.phase


def _loss_problems(graph: Graph) -> Iterator[str]:
    losses = graph.with_role(Role.LOSS)
    if len(losses) != 1:
        yield f"loss: expected exactly one value, got {[_value(v) for v in losses]}"
    for value in losses:
        if value.type.elements != 1:
            yield f"{_value(value)}: expected a scalar loss, got shape {value.shape}"
