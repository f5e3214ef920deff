"""LSTM, GRU and RNN: one dense layer over all steps, then the recurrence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Context, Tensor, Transposed, attribute
from poet_mcu.frontend.lower_layout import transposed
from poet_mcu.ir.graph import Attr, Value
from poet_mcu.ops.recurrent import ACTIVATIONS, present

_DIRECTIONS = {"forward": (1, 0), "reverse": (1, 1), "bidirectional": (2, 0)}
#: operator -> gates, default activations
_KINDS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "LSTM": (4, ("Sigmoid", "Tanh", "Tanh")),
    "GRU": (3, ("Sigmoid", "Tanh")),
    "RNN": (1, ("Tanh",)),
}


@dataclass(frozen=True, slots=True)
class _Layer:
    """A node under lowering: what its attributes say, and its dimensions."""

    ctx: Context
    node: onnx.NodeProto
    directions: int
    gates: int
    hidden: int
    steps: int
    batch: int
    batch_first: bool
    attrs: Mapping[str, Attr]

    @property
    def label(self) -> str:
        """What people call the node."""
        return self.node.name or next((name for name in self.node.output if name), "recurrent")

    def name(self, index: int) -> str:
        """Input ``index``, '' when it is absent."""
        return self.node.input[index] if len(self.node.input) > index else ""

    def weight(self, index: int, what: str, shape: Sequence[int]) -> Value | None:
        """A stored input of the shape; None when it is absent."""
        name = self.name(index)
        if not name:
            return None
        tensor = self.ctx.tensor(name, what)
        if tensor.array.shape != tuple(shape):
            raise ModelError(
                f"expected {what} of shape {list(shape)}, got {list(tensor.array.shape)}; "
                "export again"
            )
        return self.ctx.weight(name, tensor)

    def state(self, index: int, what: str) -> Value | None:
        """An initial state [directions, batch, hidden]; None when it is absent or zero."""
        name = self.name(index)
        if not name:
            return None
        shape = (self.directions, self.batch, self.hidden)
        turned = (self.batch, self.directions, self.hidden)
        found = self.ctx.entry(name)
        if isinstance(found, Tensor) and not np.any(found.array):
            if found.sources:
                self.ctx.notes.append(
                    f"{what} of '{self.label}' is zero ('{name}'): it stays so and is no weight"
                )
            return None
        value = self.ctx.operand(name)
        if value.shape != (turned if self.batch_first else shape):
            raise ModelError(
                f"expected {what} of shape {list(turned if self.batch_first else shape)}, "
                f"got {list(value.shape)}; export with the same batch throughout"
            )
        if not self.batch_first:
            return value
        return transposed(self.ctx, self.node, value, (1, 0, 2), f"{name}_turned")

    def wanted(self, index: int) -> bool:
        """Whether something reads output ``index``."""
        name = self.node.output[index] if len(self.node.output) > index else ""
        return bool(name) and (name in self.ctx.outputs or bool(self.ctx.consumers.get(name)))

    def projected(self) -> Value:
        """All inputs times the input weights: [steps, batch, directions, gates, hidden]."""
        builder, label = self.ctx.builder, f"{self.node.output[0] or self.label}_projected"
        x = self.ctx.activation(self.name(0))
        if self.batch_first:
            x = transposed(self.ctx, self.node, x, (1, 0, 2), f"{label}_steps")
        size, rows = x.shape[2], self.directions * self.gates * self.hidden
        w = self.weight(1, "W", (self.directions, self.gates * self.hidden, size))
        if w is None:
            raise ModelError(f"expected W of {self.node.op_type}, got none; export again")
        flat = builder.view(x, (self.steps * self.batch, size), f"{label}_rows")
        matrix = builder.view(w, (rows, size), f"{w.name}_rows")
        attrs = {"w_rows_are_outputs": 1}
        pre = builder.emit("dense", (flat, matrix), attrs, label, self.label)[0]
        shape = (self.steps, self.batch, self.directions, self.gates, self.hidden)
        return builder.view(pre, shape, f"{label}_gates")

    def emit(self, op: str, optional: Sequence[Value | None], last: Sequence[int]) -> None:
        """Append the recurrence; ``last`` are the node's outputs with last states."""
        recurrent = (self.directions, self.gates * self.hidden, self.hidden)
        r = self.weight(2, "R", recurrent)
        if r is None:
            raise ModelError(f"expected R of {self.node.op_type}, got none; export again")
        pre = self.projected()
        operands, given = present(optional)
        flags = tuple(int(self.wanted(i)) for i in last)
        name = self.node.output[0] or f"{self.label}_y"
        outputs = self.ctx.builder.emit(
            op,
            (pre, r, *operands),
            {**self.attrs, "given": given, "last": flags},
            name,
            self.label,
        )
        if self.wanted(0):
            self._show(outputs[0], name, (1, 0, 2, 3) if self.batch_first else (0, 2, 1, 3))
        states = iter(outputs[len(outputs) - sum(flags) :])
        for index, flag in zip(last, flags, strict=True):
            if flag:
                state = next(states)
                perm = (1, 0, 2) if self.batch_first else (0, 1, 2)
                self._show(state, self.node.output[index], perm)

    def _show(self, value: Value, name: str, perm: tuple[int, ...]) -> None:
        """``name`` is the value with its axes in the order ``perm``, made when it is needed."""
        self.ctx.env[name] = Transposed(
            value, perm, lambda: transposed(self.ctx, self.node, value, perm, f"{name}_turned")
        )


def _activations(
    node: onnx.NodeProto, defaults: tuple[str, ...], directions: int
) -> tuple[int, ...]:
    names = tuple(
        name.decode() if isinstance(name, bytes) else name
        for name in attribute(node, "activations", defaults * directions)
    )
    known = {name.lower(): number for name, number in ACTIVATIONS.items()}
    one = names[: len(defaults)]
    if len(names) != len(defaults) * directions or names != one * directions:
        raise ModelError(
            f"expected {len(defaults)} activations, the same in each direction, "
            f"got {list(names)}; export with those"
        )
    unknown = [name for name in one if name.lower() not in known]
    if unknown:
        raise ModelError(
            f"expected activations of {', '.join(ACTIVATIONS)}, got {unknown[0]}; use one of those"
        )
    return tuple(known[name.lower()] for name in one)


def _refuse(node: onnx.NodeProto, name: str, why: str) -> None:
    found = attribute(node, name, 0)
    if found:
        raise ModelError(f"expected {node.op_type} without {name}, got {name}={found:g}; {why}")


def _layer(ctx: Context, node: onnx.NodeProto) -> _Layer:
    gates, defaults = _KINDS[node.op_type]
    direction = attribute(node, "direction", "forward")
    if direction not in _DIRECTIONS:
        known = ", ".join(_DIRECTIONS)
        raise ModelError(f"expected a direction of {known}, got '{direction}'; export again")
    directions, backwards = _DIRECTIONS[direction]
    _refuse(node, "clip", "train without it: its gradient is not ours to choose")
    _refuse(node, "input_forget", "export with gates of their own")
    shape = ctx.activation(node.input[0]).shape
    if len(shape) != 3:
        raise ModelError(f"expected an input [steps, batch, size], got {list(shape)}; reshape it")
    batch_first = bool(attribute(node, "layout", 0))
    steps, batch = (shape[1], shape[0]) if batch_first else shape[:2]
    hidden = ctx.tensor(node.input[2], "R").array.shape[-1]
    if attribute(node, "hidden_size", hidden) != hidden:
        raise ModelError(
            f"expected hidden_size {hidden} as R has it, got {attribute(node, 'hidden_size', 0)}; "
            "export again"
        )
    activations = _activations(node, defaults, directions)
    attrs: dict[str, Attr] = {"reversed": backwards, "activations": activations}
    layer = _Layer(ctx, node, directions, gates, hidden, steps, batch, batch_first, attrs)
    _check_lengths(layer)
    return layer


def _check_lengths(layer: _Layer) -> None:
    """Sequences that end early would need a mask of their own."""
    name = layer.name(4)
    if not name:
        return
    lengths = layer.ctx.ints(name, "sequence_lens")
    if any(length != layer.steps for length in lengths):
        raise ModelError(
            f"expected sequence_lens of {layer.steps} (all steps), got {list(lengths)[:8]}; "
            "export without it: every sequence has all steps"
        )


def _bias(layer: _Layer) -> Value | None:
    return layer.weight(3, "B", (layer.directions, 2 * layer.gates * layer.hidden))


def lower_lstm(ctx: Context, node: onnx.NodeProto) -> None:
    """LSTM with all that ONNX has but clip, input_forget and sequences that end early."""
    layer = _layer(ctx, node)
    peepholes = layer.weight(7, "P", (layer.directions, 3 * layer.hidden))
    states = layer.state(5, "initial_h"), layer.state(6, "initial_c")
    layer.emit("lstm", (_bias(layer), *states, peepholes), (1, 2))


def lower_gru(ctx: Context, node: onnx.NodeProto) -> None:
    """GRU with all that ONNX has but clip and sequences that end early."""
    layer = _layer(ctx, node)
    before = int(bool(attribute(node, "linear_before_reset", 0)))
    layer = replace(layer, attrs={**layer.attrs, "linear_before_reset": before})
    layer.emit("gru", (_bias(layer), layer.state(5, "initial_h")), (1,))


def lower_rnn(ctx: Context, node: onnx.NodeProto) -> None:
    """RNN with all that ONNX has but clip and sequences that end early."""
    layer = _layer(ctx, node)
    layer.emit("rnn", (_bias(layer), layer.state(5, "initial_h")), (1,))
