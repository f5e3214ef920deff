"""A parameter's gradient and its update in one node: the gradient never exists as a whole.

The kernel makes a band of the gradient's rows in workspace and uses it up at once. Built from the
operators it joins, whose references and costs it shares, one for each pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from poet_mcu.ir.graph import TensorType
from poet_mcu.ops import adam, channel_sum, conv2d, dense, momentum, rmsprop, sgd
from poet_mcu.ops.operator import Array, Attrs, Cost, Kernel, Operator, Types, ints, variant_of

_SOURCE = "fused_update.c"
#: form -> a band is a block's four rows, or more while it has at most so many bytes. Larger bands
#: are fewer calls.
_BAND_BYTES = {"": 1024, "band_4k": 4096, "band_16k": 16384, "band_64k": 65536, "whole": 2**31}
_BLOCK_ROWS = 4

GRADIENTS = ("conv2d_bwd_w", "dense_bwd_w", "channel_sum")
UPDATES = ("sgd", "sgd_decay", "momentum", "adam", "rmsprop")
_PARTS = {
    operator.name: operator
    for module in (conv2d, dense, channel_sum, sgd, momentum, adam, rmsprop)
    for operator in module.OPERATORS
}


def fused_name(gradient: str, update: str) -> str:
    """The operator that is both, or '' when there is none."""
    return f"{gradient}_{update}" if gradient in GRADIENTS and update in UPDATES else ""


def _together(made: TensorType, attrs: Attrs) -> int:
    """Rows that must be made together: a convolution's kernel makes whole groups."""
    groups = ints(attrs, "group")[0] if "group" in attrs else 1
    return 1 if groups == 1 else made.shape[0] // groups


class FusedUpdate(Operator):
    """Inputs: the gradient's, then the parameter and the optimizer's state, overwritten."""

    recomputable = False

    def __init__(self, gradient: Operator, update: Operator, reads: int) -> None:
        self.gradient_of = gradient
        self.update = update
        self.reads = reads
        self.name = fused_name(gradient.name, update.name)
        self.mutates = tuple(reads + max(i - 1, 0) for i in update.mutates)

    def _made(self, inputs: Types, attrs: Attrs) -> TensorType:
        return self.gradient_of.infer(inputs[: self.reads], attrs)[0]

    def _update_inputs(self, inputs: Types) -> Types:
        """Parameter, gradient (of its type), state."""
        w, *state = inputs[self.reads :]
        return (w, w, *state)

    def _band(self, inputs: Types, attrs: Attrs) -> int:
        """Rows made at a time."""
        made = self._made(inputs, attrs)
        rows = made.shape[0]
        together = _together(made, attrs)
        least = together * -(-_BLOCK_ROWS // together)
        most = _BAND_BYTES[variant_of(attrs)] * rows // made.nbytes // least * least
        return min(rows, max(least, most))

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        self._made(inputs, attrs)
        return self.update.infer(self._update_inputs(inputs), attrs)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        w, *state = inputs[self.reads :]
        (gradient,) = self.gradient_of.reference(inputs[: self.reads], attrs)
        return self.update.reference((w, gradient.reshape(np.shape(w)), *state), attrs)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        made = self._made(inputs, attrs)
        gradient = self.gradient_of.cost(inputs[: self.reads], (made,), attrs)
        update = self.update.cost(self._update_inputs(inputs), (), attrs)
        calls = -(-made.shape[0] // self._band(inputs, attrs)) if self._scratch(inputs) else 1
        return replace(gradient, calls=calls, then=replace(update, calls=calls))

    def variants(self, inputs: Types, outputs: Types, attrs: Attrs) -> tuple[str, ...]:
        if not self._scratch(inputs):
            return ()
        found: list[str] = []
        rows = 0
        for form in _BAND_BYTES:
            band = self._band(inputs, {**attrs, "variant": form})
            if form and band > rows:
                found.append(form)
            rows = band
        return tuple(found)

    def _scratch(self, inputs: Types) -> bool:
        """Whether there are bands: not where one product makes an element of the gradient."""
        return self.name != "dense_bwd_w_sgd" or inputs[0].shape[0] > 1

    def workspace_bytes(self, inputs: Types, outputs: Types, attrs: Attrs) -> int:
        if not self._scratch(inputs):
            return 0
        made = self._made(inputs, attrs)
        return self._band(inputs, attrs) * (made.nbytes // made.shape[0])

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        made = self._made(inputs, attrs)
        gradient = self.gradient_of.kernel(inputs[: self.reads], (made,), attrs)
        update = self.update.kernel(self._update_inputs(inputs), (), attrs)
        fields = [(f"gradient.{name}", value) for name, value in gradient.fields]
        fields += [(f"update.{name}", value) for name, value in update.fields if name != "count"]
        rows = made.shape[0]
        band = self._band(inputs, attrs)
        fields += [("rows", rows), ("band_rows", band), ("row", made.elements // rows)]
        args = [f"in{i}" for i in range(self.reads)]
        args.append("ws" if self.workspace_bytes(inputs, outputs, attrs) else "null")
        args += [self._moved(arg) for arg in update.args if arg != "in1"]
        name = f"poet_{self.name}"
        return Kernel(f"{name}_f32", _SOURCE, tuple(args), f"{name}_shape", tuple(fields))

    def _moved(self, arg: str) -> str:
        """An argument of the update's kernel under its number here."""
        if not arg.startswith("in"):
            return arg
        return f"in{self.reads + max(int(arg[2:]) - 1, 0)}"


OPERATORS = tuple(
    FusedUpdate(_PARTS[gradient], _PARTS[update], 1 if gradient == "channel_sum" else 2)
    for gradient in GRADIENTS
    for update in UPDATES
)
