"""Gather: rows of a table by index (embedding), on any axis; the gradient adds rows back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import DType, Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints

_SOURCE = "gather.c"


def _fields(
    table: tuple[int, ...], indices: TensorType, attrs: Attrs
) -> tuple[tuple[str, int], ...]:
    axis = ints(attrs, "axis")[0]
    outer, width = math.prod(table[:axis]), math.prod(table[axis + 1 :])
    return (("outer", outer), ("rows", table[axis]), ("width", width), ("count", indices.elements))


def _rows(indices: Array, rows: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Row of each index, and which of them lie in the table."""
    wanted = indices.astype(np.intp)
    wanted = np.where(wanted < 0, wanted + rows, wanted)
    inside = (wanted >= 0) & (wanted < rows)
    return np.where(inside, wanted, 0), inside


class Gather(Operator):
    """y[..., i..., ...] = table[..., index[i...], ...] at ``axis`` (not negative).

    Indices are int32, negative ones count from the end.
    An index outside the table reads as NaN.
    """

    name = "gather"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        table, indices = inputs
        if not table.shape or indices.dtype is not DType.I32:
            raise ModelError(f"expected a table and int32 indices, got {table} and {indices}")
        axis = ints(attrs, "axis")[0]
        return (TensorType((*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        table = np.asarray(inputs[0], np.float32)
        axis = ints(attrs, "axis")[0]
        rows, inside = _rows(inputs[1], table.shape[axis])
        shape = inside.shape + (1,) * (table.ndim - axis - 1)
        found = np.take(table, rows, axis)
        return (np.where(inside.reshape(shape), found, np.float32(np.nan)),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "out0")
        fields = _fields(inputs[0].shape, inputs[1], attrs)
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
        attrs = {**node.attrs, "table": inputs[0].shape}
        name = f"d_{inputs[0].name}"
        return build.emit("gather_bwd", (inputs[1], grads[0]), attrs, name)[0], None


class GatherBwd(Operator):
    """The gradient of the table, of shape ``table``, from indices and dy."""

    name = "gather_bwd"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(ints(attrs, "table")),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        shape = ints(attrs, "table")
        axis = ints(attrs, "axis")[0]
        rows, inside = _rows(inputs[0].reshape(-1), shape[axis])
        dy = np.asarray(inputs[1], np.float32)
        dy = dy.reshape(*shape[:axis], rows.size, *shape[axis + 1 :])
        found = np.zeros(shape, np.float32)
        # Views with the indexed axis first: adding to one adds to ``found``.
        np.add.at(np.moveaxis(found, axis, 0), rows[inside], np.moveaxis(dy, axis, 0)[inside])
        return (found,)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=inputs[1].elements + outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "out0")
        fields = _fields(outputs[0].shape, inputs[0], attrs)
        return Kernel("poet_gather_bwd_f32", _SOURCE, args, "poet_gather_shape", fields)


OPERATORS = (Gather(), GatherBwd())
