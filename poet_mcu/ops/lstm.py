"""LSTM: the recurrence over projected inputs (see recurrent.py), and its gradient through time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints
from poet_mcu.ops.recurrent import (
    F32,
    Sizes,
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

_SOURCE = "lstm.c"


def _peepholes(sizes: Sizes, p: Array | None) -> F32:
    """[directions, 3 (input, output, forget), hidden]; zeros where there are none."""
    shape = (sizes.directions, 3, sizes.hidden)
    return np.zeros(shape, np.float32) if p is None else np.asarray(p, np.float32).reshape(shape)


class Lstm(Operator):
    """y, gates after their activation, cells, and the last states that ``last`` asks for.

    Inputs pre, r and of b, h0, c0, p (peepholes) what ``given`` says. Gates in ONNX's order: input,
    output, forget, cell. ``activations`` of the gates, of the cell's input and of its output. The
    gates, which the backward pass reads, may lie over pre.
    """

    name = "lstm"
    in_place = ((1, 0),)
    suffixes = ("", "_gates", "_cells", "_last", "_last_cell")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        b, h0, c0, p = spread(inputs[2:], ints(attrs, "given"))
        width = s.gates * s.hidden
        check_operands(
            self.name,
            s,
            (
                ("R", inputs[1], s.directions * width * s.hidden),
                ("B", b, 2 * s.directions * width),
                ("initial_h", h0, s.state.elements),
                ("initial_c", c0, s.state.elements),
                ("P", p, 3 * s.directions * s.hidden),
            ),
        )
        return (s.y, inputs[0], s.y, *(s.state for flag in ints(attrs, "last") if flag))

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        b, h0, c0, p = spread(inputs[2:], ints(attrs, "given"))
        gate, fresh, shown = ints(attrs, "activations")
        r = np.asarray(inputs[1], np.float32).reshape(s.directions, s.gates, s.hidden, s.hidden)
        bias, peep = split_bias(s, b).sum(1, dtype=np.float32), _peepholes(s, p)
        gates = np.array(inputs[0], np.float32)
        y, cells = np.zeros(s.y.shape, np.float32), np.zeros(s.y.shape, np.float32)
        for d, step, before in s.runs():
            h, c = (state_before(s, d, before, a, a0) for a, a0 in ((y, h0), (cells, c0)))
            row = gates[step, :, d]
            row += bias[d] + np.einsum("nk,gjk->ngj", h, r[d])
            row[:, 0] = activated(gate, row[:, 0] + peep[d, 0] * c)
            row[:, 2] = activated(gate, row[:, 2] + peep[d, 2] * c)
            row[:, 3] = activated(fresh, row[:, 3])
            now = row[:, 2] * c + row[:, 0] * row[:, 3]
            row[:, 1] = activated(gate, row[:, 1] + peep[d, 1] * now)
            cells[step, :, d] = now
            y[step, :, d] = row[:, 1] * activated(shown, now)
        last = [
            last_of(s, a) for a, flag in zip((y, cells), ints(attrs, "last"), strict=True) if flag
        ]
        return (y, gates, cells, *last)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        calls = calls_of(attrs, (3, 1, 1))
        return steps_cost(sizes_of(inputs[0].shape, attrs), "dense_fwd", calls)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", *optional(2, ints(attrs, "given")), "out0", "out1", "out2")
        args += optional(3, ints(attrs, "last"), "out")
        sizes = sizes_of(inputs[0].shape, attrs)
        return kernel("poet_lstm_fwd_f32", _SOURCE, args, sizes, attrs)

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
        b, h0, c0, p = spread(inputs[2:], given)
        needed = [bool(flag) for flag in spread(needs[2:], given)]
        y, gates, cells = outputs[:3]
        d_last = spread(grads[3:], ints(node.attrs, "last"))
        operands, there = present((grads[0], *d_last, c0, p))
        attrs = {**node.attrs, "given": there}
        name = f"d_{gates.name}"
        first = (gates, cells, inputs[1], *operands)
        dgates, dh, dc = build.emit("lstm_bwd", first, attrs, name)
        wanted = (inputs[1] if needs[1] else None, b if needed[0] else None)
        dr, db = weight_gradients(build, attrs, over_steps(dgates, y, h0), *wanted)
        dp = None
        if needed[3] and p is not None:
            states = over_steps(dgates, cells, c0)
            dp = build.emit("lstm_bwd_p", states, attrs, f"d_{p.name}")[0]
        found = (db, dh, dc, dp)
        return (dgates, dr, *(d for d, flag in zip(found, given, strict=True) if flag))


class LstmBwd(Operator):
    """dgates before their activation (that of pre too), and the gradients of the initial states.

    Inputs gates, cells, r and of dy, the gradients of the last state and cell, c0 and p what
    ``given`` says. dgates may lie over gates.
    """

    name = "lstm_bwd"
    in_place = ((0, 0),)
    suffixes = ("", "_state", "_cell")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        return inputs[0], s.state, s.state

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        gates, cells = (np.asarray(a, np.float32) for a in inputs[:2])
        s = sizes_of(gates.shape, attrs)
        dy, dh_last, dc_last, c0, p = spread(inputs[3:], ints(attrs, "given"))
        gate, fresh, shown = ints(attrs, "activations")
        r = np.asarray(inputs[2], np.float32).reshape(s.directions, s.gates, s.hidden, s.hidden)
        peep = _peepholes(s, p)
        dgates = np.zeros_like(gates)
        dh, dc = started(s, dh_last), started(s, dc_last)
        for d, step, before in reversed(list(s.runs())):
            i, o, f, g = np.moveaxis(gates[step, :, d], 1, 0)
            c = state_before(s, d, before, cells, c0)
            out = activated(shown, cells[step, :, d])
            total = dh[d] + (0 if dy is None else np.asarray(dy).reshape(s.y.shape)[step, :, d])
            row = dgates[step, :, d]
            row[:, 1] = total * out * slope(gate, o)
            dc[d] += total * o * slope(shown, out) + row[:, 1] * peep[d, 1]
            row[:, 0] = dc[d] * g * slope(gate, i)
            row[:, 2] = dc[d] * c * slope(gate, f)
            row[:, 3] = dc[d] * i * slope(fresh, g)
            dc[d] = dc[d] * f + row[:, 0] * peep[d, 0] + row[:, 2] * peep[d, 2]
            dh[d] = np.einsum("ngj,gjk->nk", row, r[d])
        return dgates, dh, dc

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        calls = calls_of(attrs, (0, 0, 1))
        return steps_cost(sizes_of(inputs[0].shape, attrs), "dense_bwd", calls)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "in2", *optional(3, ints(attrs, "given")), "out0", "out1", "out2")
        sizes = sizes_of(inputs[0].shape, attrs)
        return kernel("poet_lstm_bwd_f32", _SOURCE, args, sizes, attrs)


class LstmBwdP(Operator):
    """The gradient of the peepholes from dgates, cells and the initial cells, if there are any."""

    name = "lstm_bwd_p"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        return (TensorType((s.directions, 3 * s.hidden)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dgates, cells = (np.asarray(a, np.float32) for a in inputs[:2])
        s = sizes_of(dgates.shape, attrs)
        c0 = inputs[2] if len(inputs) > 2 else None
        dp = np.zeros((s.directions, 3, s.hidden), np.float32)
        for d, step, before in s.runs():
            old, now = state_before(s, d, before, cells, c0), cells[step, :, d]
            for part, cell in enumerate((old, now, old)):
                dp[d, part] += (dgates[step, :, d, part] * cell).sum(0, dtype=np.float32)
        return (dp.reshape(s.directions, -1),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=3 * inputs[1].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "in2" if len(inputs) > 2 else "null", "out0")
        sizes = sizes_of(inputs[0].shape, attrs)
        return kernel("poet_lstm_bwd_p_f32", _SOURCE, args, sizes, attrs)


OPERATORS = (Lstm(), LstmBwd(), LstmBwdP())
