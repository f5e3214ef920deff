"""Finds activations that exporters write as a chain of arithmetic, and makes them one operator.

Gelu comes as x * 0.5 * (1 + erf(x / sqrt 2)) in many orders, Mish, Swish and HardSwish likewise. A
chain is compared by its values, not by its form: what depends on one tensor and numbers alone and
equals the function at sample points is the function. One operator keeps one tensor for the
backward pass where the chain keeps up to six.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from poet_mcu.ir.graph import Attr, Graph, Node, Role, Value
from poet_mcu.ops.builder import GraphBuilder
from poet_mcu.ops.operator import Array
from poet_mcu.ops.table import OPERATORS

#: operator at the heart of a chain -> functions that the chain may be, with their attributes
CORES: Mapping[str, tuple[tuple[str, Mapping[str, Attr]], ...]] = MappingProxyType(
    {
        "erf": (("gelu", {}),),
        "tanh": (("gelu_tanh", {}), ("mish", {})),
        "sigmoid": (("swish", {"alpha": 1.0}), ("swish", {"alpha": 1.702})),
        "hard_sigmoid": (("hard_swish", {}),),
        "clip": (("hard_swish", {}),),
    }
)
_ARITHMETIC = frozenset(CORES) | {
    "add", "sub", "mul", "div", "pow", "neg", "exp", "log", "softplus", "reciprocal",
}  # fmt: skip
_LONGEST = 10
_SAMPLES = np.linspace(-6, 6, 97, dtype=np.float32)
_TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class _Match:
    """Node ``last`` gives ``op`` of value ``x``; the nodes ``inside`` are then not needed."""

    x: int
    last: int
    inside: frozenset[int]
    op: str
    attrs: Mapping[str, Attr]


def recognise(graph: Graph) -> tuple[Graph, tuple[str, ...]]:
    """The graph with every known chain as one node, and the names of what was found."""
    found: list[str] = []
    while True:
        match = next(_matches(graph), None)
        if match is None:
            return graph, tuple(found)
        found.append(match.op)
        graph = _rewritten(graph, match)


def _matches(graph: Graph) -> Iterator[_Match]:
    search = _Search(graph)
    for core in graph.nodes:
        for op, attrs in CORES.get(core.op, ()):
            for last in search.after(core):
                for x in search.before(core):
                    inside = search.chain(last, x)
                    if inside is not None and search.equals(inside, last, x, op, attrs):
                        yield _Match(x, last.id, frozenset(inside), op, attrs)


class _Search:
    """Who makes and who reads each value."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.maker = {out: node for node in graph.nodes for out in node.outputs}
        self.readers: dict[int, list[Node]] = {}
        for node in graph.nodes:
            for root in dict.fromkeys(graph.root(v) for v in node.inputs):
                self.readers.setdefault(root, []).append(node)
        shown = {v.base for v in graph.values if v.base is not None}
        self.fixed = shown | {graph.root(v) for v in graph.outputs}

    def number(self, value: int) -> bool:
        """Whether the value is a constant of one element."""
        known = self.graph.values[self.graph.root(value)]
        return known.role is Role.CONSTANT and known.type.elements == 1

    def after(self, core: Node) -> list[Node]:
        """Nodes behind ``core``, as long as each is the only reader."""
        found: list[Node] = []
        node = core
        while len(found) < _LONGEST:
            out = node.outputs[0]
            readers = self.readers.get(out, [])
            if out in self.fixed or len(readers) != 1 or readers[0].op not in _ARITHMETIC:
                break
            node = readers[0]
            found.append(node)
        return found[::-1]

    def before(self, core: Node) -> list[int]:
        """Values ``core`` is computed from, nearest first: what x may be."""
        found: list[int] = []
        queue = [core.inputs[0]]
        while queue and len(found) < _LONGEST:
            value = queue.pop(0)
            if value in found or self.number(value):
                continue
            found.append(value)
            maker = self.maker.get(value)
            if maker is not None and maker.op in _ARITHMETIC:
                queue += maker.inputs
        return found

    def chain(self, last: Node, x: int) -> set[int] | None:
        """Nodes that make ``last`` of x and numbers alone, when nobody else reads what they make.

        The value of ``last`` itself may be read by anyone.
        """
        inside, queue = {last.id}, list(last.inputs)
        while queue:
            value = queue.pop()
            if value == x or self.number(value):
                continue
            maker = self.maker.get(value)
            if maker is None or maker.op not in _ARITHMETIC or value in self.fixed:
                return None
            if maker.id not in inside:
                inside.add(maker.id)
                queue += maker.inputs
        closed = all(
            reader.id in inside
            for i in inside - {last.id}
            for reader in self.readers.get(self.graph.nodes[i].outputs[0], [])
        )
        return inside if closed and len(inside) > 1 and len(inside) <= _LONGEST else None

    def equals(
        self, inside: set[int], last: Node, x: int, op: str, attrs: Mapping[str, Attr]
    ) -> bool:
        """Whether the chain has the values of ``op`` at the samples."""
        known: dict[int, Array] = {x: _SAMPLES}
        with np.errstate(all="ignore"):
            for i in sorted(inside):
                node = self.graph.nodes[i]
                inputs = [self._sample(known, v) for v in node.inputs]
                (known[node.outputs[0]],) = OPERATORS[node.op].reference(inputs, node.attrs)
            (wanted,) = OPERATORS[op].reference([_SAMPLES], attrs)
        got = np.asarray(known[last.outputs[0]], np.float64)
        expected = np.asarray(wanted, np.float64)
        same_shape = self.graph.values[x].shape == self.graph.values[last.outputs[0]].shape
        if not same_shape or got.shape != expected.shape:
            return False
        return bool(np.all(np.abs(got - expected) <= _TOLERANCE * (1 + np.abs(expected))))

    def _sample(self, known: Mapping[int, Array], value: int) -> Array:
        if value in known:
            return known[value]
        return self.graph.initial[self.graph.root(value)].reshape(())


def _rewritten(graph: Graph, match: _Match) -> Graph:
    """The graph without the chain's nodes, and without values that nobody reads any more."""
    nodes = [n for n in graph.nodes if n.id == match.last or n.id not in match.inside]
    reads = {graph.root(v) for n in nodes if n.id != match.last for v in n.inputs}
    reads |= {graph.root(match.x)} | {graph.root(v) for v in graph.outputs}
    build = GraphBuilder(graph.name)
    fresh: dict[int, Value] = {}
    for value in graph.values:
        if value.base is not None or value.role is Role.ACTIVATION:
            continue
        if value.role is not Role.CONSTANT or value.id in reads:
            initial = graph.initial.get(value.id)
            fresh[value.id] = build.value(value.name, value.type, value.role, value.origin, initial)
    for node in nodes:
        chain = node.id == match.last
        sources: Sequence[int] = (match.x,) if chain else node.inputs
        inputs = [_mapped(graph, build, fresh, v) for v in sources]
        op, attrs = (match.op, match.attrs) if chain else (node.op, node.attrs)
        name = graph.values[node.outputs[0]].name
        outputs = build.emit(op, inputs, attrs, name, node.origin)
        fresh.update(zip(node.outputs, outputs, strict=True))
    return build.finish([_mapped(graph, build, fresh, graph.outputs[0])])


def _mapped(graph: Graph, build: GraphBuilder, fresh: dict[int, Value], value_id: int) -> Value:
    value = graph.values[value_id]
    if value.base is not None and value_id not in fresh:
        fresh[value_id] = build.view(fresh[value.base], value.shape, value.name)
    return fresh[value_id]
