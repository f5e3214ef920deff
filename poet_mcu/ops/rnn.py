"""RNN: the recurrence over projected inputs (see recurrent.py), and its gradient through time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints
from poet_mcu.ops.recurrent import (
    activated,
    calls_of,
    check_operands,
    kernel,
    last_of,
    optional,
    over_steps,
    present,
    sizes_of,
    slope,
    split_bias,
    spread,
    started,
    state_before,
    steps_cost,
    weight_gradients,
)

_SOURCE = "rnn.c"


class Rnn(Operator):
    """y, and the last state where ``last`` asks for it.

    Inputs pre, r and of b, h0 what ``given`` says. y may lie over pre.
    """

    name = "rnn"
    in_place = ((0, 0),)
    suffixes = ("", "_last")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        b, h0 = spread(inputs[2:], ints(attrs, "given"))
        operands = (
            ("R", inputs[1], s.directions * s.hidden * s.hidden),
            ("B", b, 2 * s.directions * s.hidden),
            ("initial_h", h0, s.state.elements),
        )
        check_operands(self.name, s, operands)
        return (s.y, *(s.state for flag in ints(attrs, "last") if flag))

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        b, h0 = spread(inputs[2:], ints(attrs, "given"))
        (kind,) = ints(attrs, "activations")
        r = np.asarray(inputs[1], np.float32).reshape(s.directions, s.hidden, s.hidden)
        bias = split_bias(s, b).sum((1, 2), dtype=np.float32)
        y = np.array(inputs[0], np.float32).reshape(s.y.shape)
        for d, step, before in s.runs():
            h = state_before(s, d, before, y, h0)
            y[step, :, d] = activated(kind, y[step, :, d] + (bias[d] + h @ r[d].T))
        return (y, last_of(s, y)) if ints(attrs, "last")[0] else (y,)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return steps_cost(sizes_of(inputs[0].shape, attrs), "dense_fwd", calls_of(attrs, (1,)))

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", *optional(2, ints(attrs, "given")), "out0")
        args += optional(1, ints(attrs, "last"), "out")
        sizes = sizes_of(inputs[0].shape, attrs)
        return kernel("poet_rnn_fwd_f32", _SOURCE, args, sizes, attrs)

    def gradients(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value | None],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        given = ints(node.attrs, "given")
        b, h0 = spread(inputs[2:], given)
        needed = [bool(flag) for flag in spread(needs[2:], given)]
        y = outputs[0]
        operands, there = present((grads[0], *spread(grads[1:], ints(node.attrs, "last"))))
        attrs = {**node.attrs, "given": there}
        dgates, dh = build.emit("rnn_bwd", (y, inputs[1], *operands), attrs, f"d_{y.name}_gates")
        wanted = (inputs[1] if needs[1] else None, b if needed[0] else None)
        dr, db = weight_gradients(build, attrs, over_steps(dgates, y, h0), *wanted)
        return (dgates, dr, *(d for d, flag in zip((db, dh), given, strict=True) if flag))


class RnnBwd(Operator):
    """dgates before their activation (that of pre too), and the gradient of the initial state.

    Inputs y, r and of dy and the gradient of the last state what ``given`` says. dgates may lie
    over dy.
    """

    name = "rnn_bwd"
    in_place = ((0, 2),)
    suffixes = ("", "_state")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        steps, batch, directions, hidden = inputs[0].shape
        dgates = TensorType((steps, batch, directions, 1, hidden))
        return dgates, sizes_of(dgates.shape, attrs).state

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        y = np.asarray(inputs[0], np.float32)
        s = sizes_of((*y.shape[:3], 1, y.shape[3]), attrs)
        dy, dh_last = spread(inputs[2:], ints(attrs, "given"))
        (kind,) = ints(attrs, "activations")
        r = np.asarray(inputs[1], np.float32).reshape(s.directions, s.hidden, s.hidden)
        dgates, dh = np.zeros_like(y), started(s, dh_last)
        for d, step, _ in reversed(list(s.runs())):
            total = dh[d] + (0 if dy is None else np.asarray(dy).reshape(y.shape)[step, :, d])
            dgates[step, :, d] = total * slope(kind, y[step, :, d])
            dh[d] = dgates[step, :, d] @ r[d]
        return dgates[:, :, :, None], dh

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return steps_cost(sizes_of(outputs[0].shape, attrs), "dense_bwd", 0)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", *optional(2, ints(attrs, "given")), "out0", "out1")
        sizes = sizes_of(outputs[0].shape, attrs)
        return kernel("poet_rnn_bwd_f32", _SOURCE, args, sizes, attrs)


OPERATORS = (Rnn(), RnnBwd())
