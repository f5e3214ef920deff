"""Builds a graph node by node; the operators' shape rules type the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import Graph, Node, Phase, Role, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs
from poet_mcu.ops.table import OPERATORS

_ROLE_OF_PHASE = {
    Phase.FORWARD: Role.ACTIVATION,
    Phase.LOSS: Role.GRADIENT,
    Phase.BACKWARD: Role.GRADIENT,
    Phase.UPDATE: Role.GRADIENT,
}


@dataclass(slots=True)
class GraphBuilder:
    """A graph under construction. ``phase`` is given to every node that is emitted."""

    name: str
    phase: Phase = Phase.FORWARD
    values: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    initial: dict[int, Array] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    @classmethod
    def extend(cls, graph: Graph) -> GraphBuilder:
        """A builder that goes on where ``graph`` ends."""
        names = {value.name for value in graph.values}
        return cls(
            graph.name,
            Phase.FORWARD,
            list(graph.values),
            list(graph.nodes),
            dict(graph.initial),
            names,
        )

    def value(
        self,
        name: str,
        type: TensorType,  # noqa: A002 - the field's name
        role: Role,
        origin: str = "",
        initial: Array | None = None,
    ) -> Value:
        """A new value; ``name`` is made unique."""
        value = Value(len(self.values), self._unique(name), type, role, origin)
        self.values.append(value)
        if initial is not None:
            self.initial[value.id] = initial
        return value

    def view(self, value: Value, shape: tuple[int, ...], name: str) -> Value:
        """The same bytes under another shape."""
        if value.shape == shape:
            return value
        base = value.id if value.base is None else value.base
        kind = TensorType(shape, value.type.dtype)
        if kind.nbytes != value.type.nbytes:
            raise InternalError(f"view of {value.name}: expected {value.type}, got {kind}")
        view = replace(value, id=len(self.values), name=self._unique(name), type=kind, base=base)
        self.values.append(view)
        return view

    def emit(
        self, op: str, inputs: Sequence[Value], attrs: Attrs, name: str, origin: str = ""
    ) -> tuple[Value, ...]:
        """Append a node; its outputs, named ``name`` and the operator's suffixes."""
        operator = OPERATORS[op]
        types = operator.infer([value.type for value in inputs], attrs)
        role = _ROLE_OF_PHASE[self.phase]
        outputs = tuple(
            self.value(name + suffix, kind, role)
            for suffix, kind in zip(operator.suffixes, types, strict=False)
        )
        self.nodes.append(
            Node(
                len(self.nodes),
                op,
                tuple(value.id for value in inputs),
                tuple(value.id for value in outputs),
                MappingProxyType(dict(attrs)),
                self.phase,
                origin,
                tuple(inputs[i].id for i in operator.mutates),
            )
        )
        return outputs

    def set_role(self, value: Value, role: Role) -> Value:
        """Give an emitted value another role (the loss)."""
        changed = replace(self.values[value.id], role=role)
        self.values[value.id] = changed
        return changed

    def finish(self, outputs: Sequence[Value]) -> Graph:
        """The immutable graph."""
        return Graph(
            self.name,
            tuple(self.values),
            tuple(self.nodes),
            tuple(value.id for value in outputs),
            MappingProxyType(dict(self.initial)),
        )

    def _unique(self, name: str) -> str:
        base = name or "value"
        unique, count = base, 1
        while unique in self._names:
            count += 1
            unique = f"{base}_{count}"
        self._names.add(unique)
        return unique
