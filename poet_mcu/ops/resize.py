"""Nearest-neighbour resizing of planes by tables of rows and columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import DType, Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints

_SHAPE = "poet_resize_shape"
_SOURCE = "resize.c"


def _fields(small: tuple[int, ...], large: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    planes = math.prod(small[:2])
    names = ("planes", "h", "w", "oh", "ow")
    return tuple(zip(names, (planes, *small[2:], *large[2:]), strict=True))


class Resize(Operator):
    """y[n, c, i, j] = x[n, c, rows[i], columns[j]]; the tables are int32."""

    name = "resize_nearest"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        x, rows, columns = inputs
        if len(x.shape) != 4:
            raise ModelError(f"expected x with 4 dimensions, got {x.shape}")
        if any(len(t.shape) != 1 or t.dtype is not DType.I32 for t in (rows, columns)):
            raise ModelError(f"expected int32 rows and columns, got {rows} and {columns}")
        return (TensorType((*x.shape[:2], rows.elements, columns.elements)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x, rows, columns = inputs
        return (np.ascontiguousarray(x[:, :, rows.astype(np.intp)][..., columns.astype(np.intp)]),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = _fields(inputs[0].shape, outputs[0].shape)
        args = ("in0", "in1", "in2", "out0")
        return Kernel("poet_resize_fwd_f32", _SOURCE, args, _SHAPE, fields)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        x, rows, columns = inputs
        attrs: Attrs = {"x_shape": x.shape}
        name = f"d_{x.name}"
        dx = build.emit("resize_nearest_bwd", (grads[0], rows, columns), attrs, name)[0]
        return dx, None, None


class ResizeBwd(Operator):
    """dx of ``x_shape``: each dy added to the element that its output showed."""

    name = "resize_nearest_bwd"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(ints(attrs, "x_shape")),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dy, rows, columns = inputs
        _, _, h, w = ints(attrs, "x_shape")
        down = (rows[None, :] == np.arange(h)[:, None]).astype(np.float32)
        across = (columns[None, :] == np.arange(w)[:, None]).astype(np.float32)
        dx = np.einsum("hi,ncij,wj->nchw", down, np.asarray(dy, np.float32), across)
        return (np.ascontiguousarray(dx, np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=inputs[0].elements + outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = _fields(outputs[0].shape, inputs[0].shape)
        args = ("in0", "in1", "in2", "out0")
        return Kernel("poet_resize_bwd_f32", _SOURCE, args, _SHAPE, fields)


OPERATORS = (Resize(), ResizeBwd())
