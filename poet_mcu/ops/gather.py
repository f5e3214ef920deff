"""Gather on axis 0: rows of a table by index (embedding); the gradient adds rows back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import DType, Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints

_SOURCE = "gather.c"


def _fields(table: tuple[int, ...], indices: TensorType) -> tuple[tuple[str, int], ...]:
    return (("rows", table[0]), ("width", math.prod(table[1:])), ("count", indices.elements))


def _rows(indices: Array, rows: int) -> tuple[Array, Array]:
    """Row of each index, and which of them lie in the table."""
    wanted = indices.astype(np.int64)
    wanted = np.where(wanted < 0, wanted + rows, wanted)
    inside = (wanted >= 0) & (wanted < rows)
    return np.where(inside, wanted, 0), inside


class Gather(Operator):
    """y[i..., j...] = table[index[i...], j...]; int32 indices, negative ones from the end.

    An index outside the table reads as NaN.
    """

    name = "gather"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        table, indices = inputs
        if not table.shape or indices.dtype is not DType.I32:
            raise ModelError(f"expected a table and int32 indices, got {table} and {indices}")
        return (TensorType((*indices.shape, *table.shape[1:])),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        table = np.asarray(inputs[0], np.float32)
        rows, inside = _rows(inputs[1], table.shape[0])
        found = table[rows.astype(np.intp)]
        shape = inside.shape + (1,) * (found.ndim - inside.ndim)
        return (np.where(inside.reshape(shape), found, np.float32(np.nan)),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "out0")
        fields = _fields(inputs[0].shape, inputs[1])
        return Kernel("poet_gather_fwd_f32", _SOURCE, args, "poet_gather_shape", fields)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        if not needs[0]:
            return None, None
        attrs = {"table": inputs[0].shape}
        name = f"d_{inputs[0].name}"
        return build.emit("gather_bwd", (inputs[1], grads[0]), attrs, name)[0], None


class GatherBwd(Operator):
    """The gradient of the table, of shape ``table``, from indices and dy."""

    name = "gather_bwd"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(ints(attrs, "table")),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        shape = ints(attrs, "table")
        rows, inside = _rows(inputs[0].reshape(-1), shape[0])
        dy = np.asarray(inputs[1], np.float32).reshape(rows.size, *shape[1:])
        found = np.zeros(shape, np.float32)
        np.add.at(found, rows[inside].astype(np.intp), dy[inside])
        return (found,)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=inputs[1].elements + outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "out0")
        fields = _fields(outputs[0].shape, inputs[0])
        return Kernel("poet_gather_bwd_f32", _SOURCE, args, "poet_gather_shape", fields)


OPERATORS = (Gather(), GatherBwd())
