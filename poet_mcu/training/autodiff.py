"""Reverse-mode differentiation of a forward graph: backward nodes and updates.

Walks the forward nodes backwards once. A value that feeds several consumers gets the sum of their
gradients, added as they come. No gradient is computed that no trainable parameter needs. A
parameter's gradient is handed to the updates as soon as it is complete and nothing reads the old
value any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poet_mcu.ir.graph import Graph, Node, Phase, Role, Value
from poet_mcu.ops.builder import GraphBuilder
from poet_mcu.ops.table import OPERATORS
from poet_mcu.training.updates import Updates


@dataclass(slots=True)
class _Reverse:
    """State of one backward walk over ``forward``; ``gradients`` are by root value id."""

    forward: Graph
    build: GraphBuilder
    updates: Updates
    needed: frozenset[int]
    gradients: dict[int, Value] = field(default_factory=dict)
    readers_left: dict[int, int] = field(default_factory=dict)

    def run(self) -> None:
        """Emit the whole backward pass."""
        for node in self.forward.nodes:
            for root in {self.forward.root(v) for v in node.inputs}:
                self.readers_left[root] = self.readers_left.get(root, 0) + 1
        for node in reversed(self.forward.nodes):
            self._node(node)
        self.updates.finish()

    def _node(self, node: Node) -> None:
        values = self.build.values
        outputs = [values[v] for v in node.outputs]
        inputs = [values[v] for v in node.inputs]
        if any(self.forward.root(value.id) in self.gradients for value in outputs):
            needs = [self.forward.root(v.id) in self.needed for v in inputs]
            if any(needs):
                self._differentiate(node, inputs, outputs, needs)
        self._update_parameters(node)

    def _differentiate(
        self, node: Node, inputs: list[Value], outputs: list[Value], needs: list[bool]
    ) -> None:
        grads = [self._complete(value) for value in outputs]
        rule = OPERATORS[node.op].gradients
        found = rule(node, inputs, outputs, grads, needs, self.build)
        for value, gradient, need in zip(inputs, found, needs, strict=True):
            if need and gradient is not None:
                self._accumulate(self.forward.root(value.id), gradient)

    def _complete(self, output: Value) -> Value | None:
        """The gradient of an output, in its shape; None when the loss does not depend on it."""
        dy = self.gradients.pop(self.forward.root(output.id), None)
        return None if dy is None else self.build.view(dy, output.shape, f"{dy.name}_view")

    def _accumulate(self, root: int, gradient: Value) -> None:
        name = self.build.values[root].name
        before = self.gradients.get(root)
        if before is not None:
            gradient = self.build.view(gradient, before.shape, f"{gradient.name}_view")
            gradient = self.build.emit("add", (before, gradient), {}, f"d_{name}_sum")[0]
        self.gradients[root] = gradient

    def _update_parameters(self, node: Node) -> None:
        for root in sorted({self.forward.root(v) for v in node.inputs}):
            self.readers_left[root] -= 1
            value = self.build.values[root]
            if value.role is Role.PARAMETER and not self.readers_left[root]:
                gradient = self.gradients.pop(root, None)
                if gradient is not None:
                    view = self.build.view(gradient, value.shape, f"{gradient.name}_view")
                    self.updates.ready(value, view)


def depends_on_parameters(graph: Graph) -> frozenset[int]:
    """Root values whose gradient some trainable parameter needs: parameters and all after them."""
    needed = {v.id for v in graph.with_role(Role.PARAMETER)}
    for node in graph.nodes:
        if any(graph.root(v) in needed for v in node.inputs):
            needed.update(graph.root(v) for v in node.outputs)
    return frozenset(needed)


def backward(
    forward: Graph, build: GraphBuilder, seed_root: int, seed: Value, updates: Updates
) -> None:
    """Append to ``build`` (which extends ``forward``) its backward pass and updates.

    ``seed`` is the gradient of the forward value ``seed_root``.
    """
    build.phase = Phase.BACKWARD
    walk = _Reverse(forward, build, updates, depends_on_parameters(forward))
    walk.gradients[seed_root] = seed
    walk.run()
