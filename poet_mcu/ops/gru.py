"""GRU: the recurrence over projected inputs (see recurrent.py), and its gradient through time.

``kept`` is what the hidden gate needs of the state besides the gates: the reset state r h, or with
``linear_before_reset`` the state's product R h + b before it is reset.
"""

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
    present,
    sizes_of,
    slope,
    split_bias,
    spread,
    started,
    state_before,
    steps_cost,
)

_SOURCE = "gru.c"


def _before_reset(attrs: Attrs) -> bool:
    return bool(ints(attrs, "linear_before_reset")[0])


def _weights(sizes: Sizes, r: Array) -> F32:
    shape = (sizes.directions, sizes.gates, sizes.hidden, sizes.hidden)
    return np.asarray(r, np.float32).reshape(shape)


class Gru(Operator):
    """y, gates after their activation, kept, and the last state where ``last`` asks for it.

    Inputs pre, r and of b, h0 what ``given`` says. Gates in ONNX's order: update, reset, hidden.
    The gates, which the backward pass reads, may lie over pre.
    """

    name = "gru"
    in_place = ((1, 0),)
    suffixes = ("", "_gates", "_kept", "_last")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        b, h0 = spread(inputs[2:], ints(attrs, "given"))
        width = s.gates * s.hidden
        operands = (
            ("R", inputs[1], s.directions * width * s.hidden),
            ("B", b, 2 * s.directions * width),
            ("initial_h", h0, s.state.elements),
        )
        check_operands(self.name, s, operands)
        return (s.y, inputs[0], s.y, *(s.state for flag in ints(attrs, "last") if flag))

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        b, h0 = spread(inputs[2:], ints(attrs, "given"))
        gate, fresh = ints(attrs, "activations")
        r, bias = _weights(s, inputs[1]), split_bias(s, b)
        gates = np.array(inputs[0], np.float32)
        y, kept = np.zeros(s.y.shape, np.float32), np.zeros(s.y.shape, np.float32)
        for d, step, before in s.runs():
            h, row = state_before(s, d, before, y, h0), gates[step, :, d]
            for g in (0, 1):
                row[:, g] = activated(gate, row[:, g] + bias[d, :, g].sum(0) + h @ r[d, g].T)
            if _before_reset(attrs):
                kept[step, :, d] = bias[d, 1, 2] + h @ r[d, 2].T
                row[:, 2] += bias[d, 0, 2] + row[:, 1] * kept[step, :, d]
            else:
                kept[step, :, d] = row[:, 1] * h
                row[:, 2] += bias[d, :, 2].sum(0) + kept[step, :, d] @ r[d, 2].T
            row[:, 2] = activated(fresh, row[:, 2])
            y[step, :, d] = row[:, 2] + row[:, 0] * (h - row[:, 2])
        return (y, gates, kept, *((last_of(s, y),) if ints(attrs, "last")[0] else ()))

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        calls = calls_of(attrs, (2, 1))
        return steps_cost(sizes_of(inputs[0].shape, attrs), "dense_fwd", calls)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", *optional(2, ints(attrs, "given")), "out0", "out1", "out2")
        args += optional(3, ints(attrs, "last"), "out")
        sizes = sizes_of(inputs[0].shape, attrs)
        return kernel("poet_gru_fwd_f32", _SOURCE, args, sizes, attrs)

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
        y, gates, kept = outputs[:3]
        d_last = spread(grads[3:], ints(node.attrs, "last"))
        before = _before_reset(node.attrs)
        operands, there = present((kept if before else None, y, grads[0], *d_last, h0))
        attrs = {**node.attrs, "given": there}
        found = build.emit("gru_bwd", (gates, inputs[1], *operands), attrs, f"d_{gates.name}")
        dgates, dh, *rest = found
        state = rest[0] if before else kept
        dr = db = None
        if needs[1]:
            states = (dgates, state, y) if h0 is None else (dgates, state, y, h0)
            dr = build.emit("gru_bwd_r", states, attrs, f"d_{inputs[1].name}")[0]
        if needed[0] and b is not None:
            op, operands = (
                ("gru_bwd_b", [dgates, state]) if before else ("recurrent_bwd_b", [dgates])
            )
            db = build.emit(op, operands, attrs, f"d_{b.name}")[0]
        return (dgates, dr, *(d for d, flag in zip((db, dh), given, strict=True) if flag))


class GruBwd(Operator):
    """dgates before their activation (that of pre too), the initial state's gradient, dkept.

    Inputs gates, r and of kept (with dkept only), y, dy, the gradient of the last state and h0 what
    ``given`` says. dgates may lie over gates, dkept over kept.
    """

    name = "gru_bwd"
    suffixes = ("", "_state", "_kept")
    in_place = ((0, 0),)

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        return (inputs[0], s.state, s.y) if _before_reset(attrs) else (inputs[0], s.state)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        gates = np.asarray(inputs[0], np.float32)
        s = sizes_of(gates.shape, attrs)
        kept, y, dy, dh_last, h0 = spread(inputs[2:], ints(attrs, "given"))
        gate, fresh = ints(attrs, "activations")
        r, y = _weights(s, inputs[1]), np.asarray(y, np.float32)
        dgates, dh = np.zeros_like(gates), started(s, dh_last)
        dkept = np.zeros(s.y.shape, np.float32)
        for d, step, before in reversed(list(s.runs())):
            z, reset, n = np.moveaxis(gates[step, :, d], 1, 0)
            h, row = state_before(s, d, before, y, h0), dgates[step, :, d]
            total = dh[d] + (0 if dy is None else np.asarray(dy).reshape(s.y.shape)[step, :, d])
            row[:, 2] = total * (1 - z) * slope(fresh, n)
            row[:, 0] = total * (h - n) * slope(gate, z)
            if kept is not None:
                row[:, 1] = row[:, 2] * kept[step, :, d] * slope(gate, reset)
                dkept[step, :, d] = row[:, 2] * reset
                back = dkept[step, :, d] @ r[d, 2]
            else:
                came = row[:, 2] @ r[d, 2]
                row[:, 1] = came * h * slope(gate, reset)
                back = came * reset
            dh[d] = total * z + back + np.einsum("ngj,gjk->nk", row[:, :2], r[d, :2])
        return (dgates, dh) if kept is None else (dgates, dh, dkept)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return steps_cost(sizes_of(inputs[0].shape, attrs), "dense_bwd", 0)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        kept, *states = optional(2, ints(attrs, "given"))
        before = _before_reset(attrs)
        made = ("out0", "out2" if before else "null", "out1")
        args = ("in0", kept, states[0], "in1", *states[1:], *made)
        sizes = sizes_of(inputs[0].shape, attrs)
        return kernel("poet_gru_bwd_f32", _SOURCE, args, sizes, attrs)


class GruBwdR(Operator):
    """dr from dgates, kept (or dkept with ``linear_before_reset``), y and h0, if there is one."""

    name = "gru_bwd_r"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        return (TensorType((s.directions, s.gates * s.hidden, s.hidden)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dgates, kept, y = (np.asarray(a, np.float32) for a in inputs[:3])
        s = sizes_of(dgates.shape, attrs)
        h0 = inputs[3] if len(inputs) > 3 else None
        dr = np.zeros((s.directions, s.gates, s.hidden, s.hidden), np.float32)
        for d, step, before in s.runs():
            h, row = state_before(s, d, before, y, h0), dgates[step, :, d]
            dr[d, :2] += np.einsum("ngj,nk->gjk", row[:, :2], h)
            pair = (row[:, 2], kept[step, :, d])
            dr[d, 2] += np.einsum("nj,nk->jk", *((pair[1], h) if _before_reset(attrs) else pair))
        return (dr.reshape(s.directions, -1, s.hidden),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        macs = sizes_of(inputs[0].shape, attrs).macs
        return Cost("dense_bwd", macs=macs, elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "in2", "in3" if len(inputs) > 3 else "null", "out0")
        sizes = sizes_of(inputs[0].shape, attrs)
        return kernel("poet_gru_bwd_r_f32", _SOURCE, args, sizes, attrs)


class GruBwdB(Operator):
    """db from dgates and dkept, for ``linear_before_reset``."""

    name = "gru_bwd_b"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        return (TensorType((s.directions, 2 * s.gates * s.hidden)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        s = sizes_of(inputs[0].shape, attrs)
        total = inputs[0].sum((0, 1), dtype=np.float32)
        both = np.stack([total, total], 1)
        both[:, 1, 2] = inputs[1].sum((0, 1), dtype=np.float32)
        return (both.reshape(s.directions, -1),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=inputs[0].elements + inputs[1].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        sizes = sizes_of(inputs[0].shape, attrs)
        return kernel("poet_gru_bwd_b_f32", _SOURCE, ("in0", "in1", "out0"), sizes, attrs)


OPERATORS = (Gru(), GruBwd(), GruBwdR(), GruBwdB())
