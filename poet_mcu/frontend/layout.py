"""Channels-last models: transposes move behind the operators that do not mind, and meet.

tf2onnx, Keras and the reader of .tflite put every convolution between two Transposes. Here a
transpose is not emitted where it stands but kept as a note on its result (``Late``): element-wise
operators, sums over axes, concatenations and the like run on the untransposed bytes and pass the
note on. Where two notes undo each other nothing is left. An operator that does mind gets its
operand transposed after all. Values and gradients stay those of the model; only the order of
summation of a reduction follows the new layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from poet_mcu.ir.graph import Attr, Graph, Node, Role, Value
from poet_mcu.ops import activations
from poet_mcu.ops.builder import GraphBuilder
from poet_mcu.ops.operator import ints

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Late:
    """A value to be transposed: axis ``i`` of what is meant is axis ``perm[i]`` of ``inner``."""

    inner: Value
    perm: Shape

    @property
    def shape(self) -> Shape:
        """Of what is meant."""
        return tuple(self.inner.shape[axis] for axis in self.perm)


@dataclass(frozen=True, slots=True)
class Flat:
    """A late value seen as ``shape`` in which its axes run together in their new order."""

    late: Late
    shape: Shape


Entry = Value | Late | Flat


def sink_transposes(graph: Graph) -> Graph:
    """The graph with fewer transposed elements, or ``graph`` where nothing is gained."""
    before = _moved_elements(graph)
    if not before:
        return graph
    after = _Sink(graph).run()
    return after if _moved_elements(after) < before else graph


def _moved_elements(graph: Graph) -> int:
    return sum(
        graph.values[node.outputs[0]].type.elements
        for node in graph.nodes
        if node.op == "transpose"
    )


@dataclass(slots=True)
class _Sink:
    """One pass over the nodes; ``env`` holds what each old value has become."""

    graph: Graph
    build: GraphBuilder = field(init=False)
    env: dict[int, Entry] = field(default_factory=dict)
    _done: dict[tuple[int, Shape], Value] = field(default_factory=dict)
    _turned: dict[tuple[int, Shape], Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.build = GraphBuilder(self.graph.name)

    def run(self) -> Graph:
        """The new graph."""
        for value in self.graph.values:
            if value.base is None and value.role is not Role.ACTIVATION:
                initial = self.graph.initial.get(value.id)
                self.env[value.id] = self.build.value(
                    value.name, value.type, value.role, value.origin, initial
                )
        for node in self.graph.nodes:
            self._node(node)
        outputs = [self.plain(self.entry(v)) for v in self.graph.outputs]
        return _without_unread_constants(self.build.finish(outputs))

    def entry(self, value_id: int) -> Entry:
        """What an old value has become; a view of a late value stays late where it can."""
        found = self.env.get(value_id)
        if found is None:
            value = self.graph.values[value_id]
            base = self.env[self.graph.root(value_id)]
            found = self._view(base, value.shape, value.name)
            self.env[value_id] = found
        return found

    def _view(self, base: Entry, shape: Shape, name: str) -> Entry:
        if isinstance(base, Value):
            return self.build.view(base, shape, name)
        late = base.late if isinstance(base, Flat) else base
        split = _reshaped(late, shape)
        if split is None:
            return Flat(late, shape)
        inner, perm = split
        return self.late(self.build.view(late.inner, inner, f"{name}_inner"), perm, name)

    def late(self, inner: Value, perm: Shape, name: str) -> Entry:
        """``inner`` transposed; a view at once where no element moves."""
        shape = tuple(inner.shape[axis] for axis in perm)
        moved = [axis for axis in perm if inner.shape[axis] != 1]
        if moved == sorted(moved):
            return self.build.view(inner, shape, name)
        return Late(inner, perm)

    def plain(self, entry: Entry) -> Value:
        """The value itself: transposed now, once for all readers."""
        if isinstance(entry, Value):
            return entry
        late = entry.late if isinstance(entry, Flat) else entry
        key = (late.inner.id, late.perm)
        if key not in self._done:
            name = f"{late.inner.name}_turned"
            self._done[key] = self.build.emit(
                "transpose", (late.inner,), {"perm": late.perm}, name, late.inner.name
            )[0]
        value = self._done[key]
        return self.build.view(value, entry.shape, f"{value.name}_view")

    def turned(self, value: Value, perm: Shape) -> Value | None:
        """An operand in the layout whose transpose by ``perm`` it is; None where bytes must move.

        A constant's bytes are moved here and now.
        """
        full = (1,) * (len(perm) - len(value.shape)) + value.shape
        back = tuple(perm.index(axis) for axis in range(len(perm)))
        shape = tuple(full[axis] for axis in back)
        moved = [axis for axis in back if full[axis] != 1]
        if moved == sorted(moved):
            return self.build.view(value, shape, f"{value.name}_inner")
        root = value.id if value.base is None else value.base
        if value.role is not Role.CONSTANT:
            return None
        key = (value.id, perm)
        if key not in self._turned:
            array = np.transpose(self.build.initial[root].reshape(full), back)
            self._turned[key] = self.constant(value, np.ascontiguousarray(array))
        return self._turned[key]

    def constant(
        self, like: Value, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]
    ) -> Value:
        """A constant of ours with other bytes, so without the name it has in the file."""
        kind = type(like.type)(array.shape, like.type.dtype)
        return self.build.value(f"{like.name}_turned", kind, Role.CONSTANT, "", array)

    def _node(self, node: Node) -> None:
        entries = [self.entry(v) for v in node.inputs]
        if node.op == "transpose":
            self._transpose(node, entries[0])
            return
        rule = _RULES.get(node.op)
        late = any(not isinstance(entry, Value) for entry in entries)
        if late and rule is not None:
            found = rule(self, node, entries)
            if found is not None:
                self.env[node.outputs[0]] = found
                return
        self.emit(node, [self.plain(entry) for entry in entries], node.attrs)

    def emit(self, node: Node, inputs: Sequence[Value], attrs: Mapping[str, Attr]) -> Value:
        """The node on other inputs; its first output."""
        name = self.graph.values[node.outputs[0]].name if node.outputs else node.op
        outputs = self.build.emit(node.op, inputs, attrs, name, node.origin)
        self.env.update(zip(node.outputs, outputs, strict=True))
        return outputs[0] if outputs else inputs[0]

    def _transpose(self, node: Node, entry: Entry) -> None:
        perm, name = ints(node.attrs, "perm"), self.graph.values[node.outputs[0]].name
        if isinstance(entry, Late):
            composed = tuple(entry.perm[axis] for axis in perm)
            self.env[node.outputs[0]] = self.late(entry.inner, composed, name)
        else:
            self.env[node.outputs[0]] = self.late(self.plain(entry), perm, name)


Rule = Callable[[_Sink, Node, Sequence[Entry]], Entry | None]


def _reshaped(late: Late, shape: Shape) -> tuple[Shape, Shape] | None:
    """The late value under another shape: the inner shape and perm, or None.

    Both shapes are cut into the smallest pieces of equal products; a piece may be reshaped inside
    when its axes stand side by side, in order, in the inner value too.
    """
    pieces = _pieces(late.shape, shape)
    if pieces is None:
        return None
    order: list[tuple[int, Sequence[int]]] = []  # place in the inner value, axes of ``shape``
    for old, new in pieces:
        axes = [late.perm[i] for i in old if late.shape[i] != 1]
        if axes and axes != list(range(axes[0], axes[0] + len(axes))):
            between = [a for a in range(axes[0], axes[-1] + 1) if late.inner.shape[a] != 1]
            if axes != between:
                return None
        order.append((axes[0] if axes else -1, new))
    order.sort(key=lambda item: item[0])
    inner_axes = [axis for _, new in order for axis in new]
    perm = tuple(inner_axes.index(axis) for axis in range(len(shape)))
    return tuple(shape[axis] for axis in inner_axes), perm


def _pieces(a: Shape, b: Shape) -> list[tuple[list[int], list[int]]] | None:
    """Runs of axes of ``a`` and of ``b`` with equal products, each as short as can be."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        left: list[int] = []
        right: list[int] = []
        size_a = size_b = 1
        while True:
            if size_a <= size_b and i < len(a) and (size_a < size_b or not left or a[i] == 1):
                left.append(i)
                size_a *= a[i]
                i += 1
            elif size_b <= size_a and j < len(b) and (size_b < size_a or not right or b[j] == 1):
                right.append(j)
                size_b *= b[j]
                j += 1
            elif size_a == size_b:
                break
            else:
                return None
        found.append((left, right))
    return found


def _each(sink: _Sink, node: Node, entries: Sequence[Entry]) -> Entry | None:
    """An element-wise operator of any number of operands that broadcast."""
    shape = sink.graph.values[node.outputs[0]].shape
    perm = next(
        (e.perm for e in entries if isinstance(e, Late) and len(e.perm) == len(shape)), None
    )
    if perm is None:
        return None
    inputs = _in_layout(sink, entries, perm)
    if inputs is None:
        return None
    return sink.late(sink.emit(node, inputs, node.attrs), perm, node.op)


def _in_layout(sink: _Sink, entries: Sequence[Entry], perm: Shape) -> list[Value] | None:
    """All operands as they are before the transpose by ``perm``; None where one cannot be."""
    inputs: list[Value] = []
    for entry in entries:
        if isinstance(entry, Late) and entry.perm == perm:
            inputs.append(entry.inner)
            continue
        found = sink.turned(entry, perm) if isinstance(entry, Value) else None
        if found is None:
            return None
        inputs.append(found)
    return inputs


def _concat(sink: _Sink, node: Node, entries: Sequence[Entry]) -> Entry | None:
    perm = next((e.perm for e in entries if isinstance(e, Late)), None)
    inputs = None if perm is None else _in_layout(sink, entries, perm)
    if perm is None or inputs is None:
        return None
    attrs = {"axis": perm[ints(node.attrs, "axis")[0]]}
    return sink.late(sink.emit(node, inputs, attrs), perm, node.op)


def _along(sink: _Sink, node: Node, entries: Sequence[Entry]) -> Entry | None:
    """Reductions, which keep the rank, and softmax: the axes have other numbers."""
    (late,) = entries
    if not isinstance(late, Late):
        return None
    name = "axes" if "axes" in node.attrs else "axis"
    axes = tuple(sorted(late.perm[axis] for axis in ints(node.attrs, name)))
    attrs: dict[str, Attr] = {**node.attrs, name: axes if name == "axes" else axes[0]}
    return sink.late(sink.emit(node, (late.inner,), attrs), late.perm, node.op)


def _by_axis(sink: _Sink, node: Node, entries: Sequence[Entry]) -> Entry | None:
    """Slice, place and expand: their attributes have one number an axis."""
    (late,) = entries
    if not isinstance(late, Late):
        return None
    attrs: dict[str, Attr] = dict(node.attrs)
    for name, value in node.attrs.items():
        if isinstance(value, tuple):
            if len(value) != len(late.perm):
                return None
            attrs[name] = tuple(value[late.perm.index(axis)] for axis in range(len(value)))
    return sink.late(sink.emit(node, (late.inner,), attrs), late.perm, node.op)


def _dense(sink: _Sink, node: Node, entries: Sequence[Entry]) -> Entry | None:
    """A frozen matrix behind Flatten takes the order of its columns from the transpose."""
    x, w = entries[0], entries[1]
    if not isinstance(x, Flat) or not isinstance(w, Value) or w.role is not Role.CONSTANT:
        return None
    if any(not isinstance(entry, Value) for entry in entries[1:]) or w.base is not None:
        return None
    late = x.late
    rows = late.shape[0] == x.shape[0] and late.perm[0] == 0 and len(x.shape) == 2
    if not rows:
        return None
    by_rows = bool(node.attrs["w_rows_are_outputs"])
    array = sink.build.initial[w.id]
    columns = array if by_rows else array.T
    numbers = np.arange(x.shape[1]).reshape(late.shape[1:])
    back = [late.perm.index(axis) - 1 for axis in range(1, len(late.perm))]
    moved = columns[:, np.transpose(numbers, back).ravel()]
    fresh = sink.constant(w, np.ascontiguousarray(moved if by_rows else moved.T))
    inner = sink.build.view(late.inner, x.shape, f"{late.inner.name}_flat")
    rest = [entry for entry in entries[2:] if isinstance(entry, Value)]
    return sink.emit(node, (inner, fresh, *rest), node.attrs)


_EACH = frozenset(
    {"add", "sub", "mul", "div", "pow", "min", "max", "where", "relu"}
    | {"greater_mask", "greater_equal_mask", "equal_mask"}
    | {op.name for op in activations.OPERATORS if not op.name.endswith("_bwd")}
)
_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(_EACH, _each),
        **dict.fromkeys(("softmax", "log_softmax"), _along),
        **dict.fromkeys(
            ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_l2"), _along
        ),
        **dict.fromkeys(("slice", "place", "expand"), _by_axis),
        "concat": _concat,
        "dense": _dense,
        "prelu": _each,
    }
)


def _without_unread_constants(graph: Graph) -> Graph:
    """Constants whose bytes were moved are read by nobody any more."""
    read = {graph.root(v) for node in graph.nodes for v in node.inputs}
    read |= {graph.root(v) for v in graph.outputs}
    build = GraphBuilder(graph.name)
    fresh: dict[int, Value] = {}

    def mapped(value_id: int) -> Value:
        if value_id not in fresh:
            value = graph.values[value_id]
            fresh[value_id] = build.view(mapped(graph.root(value_id)), value.shape, value.name)
        return fresh[value_id]

    for value in graph.values:
        source = value.base is None and value.role is not Role.ACTIVATION
        if source and (value.role is not Role.CONSTANT or value.id in read):
            initial = graph.initial.get(value.id)
            fresh[value.id] = build.value(value.name, value.type, value.role, value.origin, initial)
    for node in graph.nodes:
        name = graph.values[node.outputs[0]].name if node.outputs else node.op
        outputs = build.emit(
            node.op, [mapped(v) for v in node.inputs], node.attrs, name, node.origin
        )
        fresh.update(zip(node.outputs, outputs, strict=True))
    return build.finish([mapped(v) for v in graph.outputs])
