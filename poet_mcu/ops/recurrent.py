"""What LSTM, GRU and RNN share, and the gradients of their recurrent weights and biases.

The product of all inputs with the input weights is a dense layer of its own in front: one matrix
product over all steps and directions, with the gradients of any dense layer. The recurrence takes
its result ``pre`` [steps, batch, directions, gates, hidden] and gives y [steps, batch, directions,
hidden]; r is [directions, gates * hidden, hidden], b [directions, 2 * gates * hidden] and a state
[directions, batch, hidden], as in ONNX.

An operator's optional inputs stand in one order behind the others; the attribute ``given`` has a 1
for each that is there. ``last`` says which last states are outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints

SHAPE = "poet_recurrent_shape"
F32 = npt.NDArray[np.float32]
#: ONNX's name of an activation -> its number in poet/recurrent.h
ACTIVATIONS = {"Sigmoid": 0, "Tanh": 1, "Relu": 2}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Dimensions of a layer; ``reversed`` that its first direction begins with the last step."""

    steps: int
    batch: int
    directions: int
    gates: int
    hidden: int
    reversed: int

    @property
    def state(self) -> TensorType:
        """[directions, batch, hidden]."""
        return TensorType((self.directions, self.batch, self.hidden))

    @property
    def y(self) -> TensorType:
        """[steps, batch, directions, hidden]."""
        return TensorType((self.steps, self.batch, self.directions, self.hidden))

    @property
    def macs(self) -> int:
        """Multiply-adds of the state with the recurrent weights in all steps."""
        return self.y.elements * self.gates * self.hidden

    def order(self, direction: int) -> range:
        """The steps as they run."""
        steps = range(self.steps)
        return steps[::-1] if self.reversed or direction else steps

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """(direction, step, the step that ran before or -1), as they run."""
        for direction in range(self.directions):
            before = -1
            for step in self.order(direction):
                yield direction, step, before
                before = step


def sizes_of(pre: tuple[int, ...], attrs: Attrs) -> Sizes:
    """From the shape of the gates."""
    if len(pre) != 5:
        raise ModelError(
            f"expected gates [steps, batch, directions, gates, hidden], got {list(pre)}"
        )
    return Sizes(*pre, ints(attrs, "reversed")[0])


def kernel(function: str, source: str, args: tuple[str, ...], sizes: Sizes, attrs: Attrs) -> Kernel:
    """The call of a recurrent kernel."""
    activations = (*ints(attrs, "activations"), 0, 0)[:3]
    names = ("gate_activation", "cell_activation", "hidden_activation")
    fields = (
        ("steps", sizes.steps),
        ("batch", sizes.batch),
        ("directions", sizes.directions),
        ("gates", sizes.gates),
        ("hidden", sizes.hidden),
        ("reversed", sizes.reversed),
        *zip(names, activations, strict=True),
        (
            "linear_before_reset",
            ints({"linear_before_reset": 0, **attrs}, "linear_before_reset")[0],
        ),
    )
    return Kernel(function, source, args, SHAPE, fields)


def optional(first: int, given: Sequence[int], side: str = "in") -> tuple[str, ...]:
    """Arguments for optional operands whose first is number ``first``: 'in3' or 'null'."""
    found = []
    for flag in given:
        found.append(f"{side}{first}" if flag else "null")
        first += 1 if flag else 0
    return tuple(found)


def spread(items: Sequence[Any], given: Sequence[int]) -> list[Any]:
    """The optional operands in their places, None where there is none."""
    rest = iter(items)
    return [next(rest) if flag else None for flag in given]


def present(items: Sequence[Value | None]) -> tuple[list[Value], tuple[int, ...]]:
    """The operands that are there, and the flags that say which."""
    return [v for v in items if v is not None], tuple(int(v is not None) for v in items)


def check_operands(
    operator: str, sizes: Sizes, operands: Sequence[tuple[str, TensorType | None, int]]
) -> None:
    """Raise ModelError unless each operand that is there has so many elements."""
    for name, kind, wanted in operands:
        if kind is not None and kind.elements != wanted:
            raise ModelError(
                f"expected {wanted} elements in {name} of {operator} for {sizes.directions} "
                f"directions, batch {sizes.batch} and {sizes.hidden} hidden, got {list(kind.shape)}"
            )


def activated(kind: int, x: F32) -> F32:
    """The activation, in float32."""
    if kind == ACTIVATIONS["Sigmoid"]:
        e = np.exp(-np.abs(x))
        return np.asarray(np.where(x < 0, e, np.float32(1)) / (1 + e), np.float32)
    tanh = kind == ACTIVATIONS["Tanh"]
    return np.asarray(np.tanh(x) if tanh else np.maximum(x, np.float32(0)), np.float32)


def slope(kind: int, y: F32) -> F32:
    """The activation's derivative where its value is y."""
    if kind == ACTIVATIONS["Sigmoid"]:
        return y * (1 - y)
    return (1 - y) * (1 + y) if kind == ACTIVATIONS["Tanh"] else (y > 0).astype(np.float32)


def state_before(
    sizes: Sizes, direction: int, before: int, rows: F32, initial: Array | None
) -> F32:
    """[batch, hidden] of step ``before`` of ``rows`` [steps, batch, directions, hidden]."""
    if before >= 0:
        return rows[before, :, direction]
    if initial is None:
        return np.zeros((sizes.batch, sizes.hidden), np.float32)
    found: F32 = np.asarray(initial, np.float32).reshape(sizes.state.shape)[direction]
    return found


def split_bias(sizes: Sizes, b: Array | None) -> F32:
    """The biases as [directions, 2, gates, hidden]; zeros where there are none."""
    shape = (sizes.directions, 2, sizes.gates, sizes.hidden)
    return np.zeros(shape, np.float32) if b is None else np.asarray(b, np.float32).reshape(shape)


def last_of(sizes: Sizes, rows: F32) -> F32:
    """The state after the last step of each direction: [directions, batch, hidden]."""
    return np.stack([rows[sizes.order(d)[-1], :, d] for d in range(sizes.directions)])


def started(sizes: Sizes, given: Array | None) -> F32:
    """A gradient of states from outside, or zeros; a copy to go on from."""
    if given is None:
        return np.zeros(sizes.state.shape, np.float32)
    return np.array(given, np.float32).reshape(sizes.state.shape)


def over_steps(dgates: Value, rows: Value, start: Value | None) -> tuple[Value, ...]:
    """What a gradient summed over steps reads: the state before each, the first one if given."""
    return (dgates, rows) if start is None else (dgates, rows, start)


def weight_gradients(
    build: Emitter,
    attrs: Attrs,
    states: tuple[Value, ...],
    r: Value | None,
    b: Value | None,
) -> tuple[Value | None, Value | None]:
    """Gradients of the recurrent weights and the biases from ``over_steps``; None: not wanted."""
    dr = None if r is None else build.emit("recurrent_bwd_r", states, attrs, f"d_{r.name}")[0]
    db = None if b is None else build.emit("recurrent_bwd_b", states[:1], attrs, f"d_{b.name}")[0]
    return dr, db


def steps_cost(sizes: Sizes, family: str, calls: int) -> Cost:
    """``calls`` of exp for each element of y besides the product with the recurrent weights."""
    count = sizes.y.elements
    return Cost(
        family,
        macs=sizes.macs,
        elements=count * (2 * sizes.gates + 2),
        transcendental=calls * count,
    )


def calls_of(attrs: Attrs, counts: Sequence[int]) -> int:
    """Calls of exp per element of y, with so many uses of each activation."""
    relu = ACTIVATIONS["Relu"]
    kinds = ints(attrs, "activations")
    return sum(n for n, kind in zip(counts, kinds, strict=True) if kind != relu)


class RecurrentBwdR(Operator):
    """dr from dgates, y and the initial state, if there is one."""

    name = "recurrent_bwd_r"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        return (TensorType((s.directions, s.gates * s.hidden, s.hidden)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dgates, y = (np.asarray(a, np.float32) for a in inputs[:2])
        s = sizes_of(dgates.shape, attrs)
        h0 = inputs[2] if len(inputs) > 2 else None
        dr = np.zeros((s.directions, s.gates * s.hidden, s.hidden), np.float32)
        for d, step, before in s.runs():
            rows = dgates[step, :, d].reshape(s.batch, -1)
            dr[d] += np.einsum("nj,nk->jk", rows, state_before(s, d, before, y, h0))
        return (dr,)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        macs = sizes_of(inputs[0].shape, attrs).macs
        return Cost("dense_bwd", macs=macs, elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "in2" if len(inputs) > 2 else "null", "out0")
        sizes = sizes_of(inputs[0].shape, attrs)
        return kernel("poet_recurrent_bwd_r_f32", "recurrent.c", args, sizes, attrs)


class RecurrentBwdB(Operator):
    """db from dgates; input's and state's biases have the same gradient."""

    name = "recurrent_bwd_b"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        return (TensorType((s.directions, 2 * s.gates * s.hidden)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        total = inputs[0].sum((0, 1), dtype=np.float32).reshape(s.directions, 1, -1)
        return (np.repeat(total, 2, 1).reshape(s.directions, -1),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=inputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        sizes = sizes_of(inputs[0].shape, attrs)
        args = ("in0", "out0")
        return kernel("poet_recurrent_bwd_b_f32", "recurrent.c", args, sizes, attrs)


OPERATORS = (RecurrentBwdR(), RecurrentBwdB())
