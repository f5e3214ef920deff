"""2-D average pooling and its gradient; nothing is saved for the backward pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.maxpool2d import positions
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints

_SHAPE = "poet_avgpool2d_shape"
_SOURCE = "avgpool2d.c"


def _fields(x: tuple[int, ...], y: tuple[int, ...], attrs: Attrs) -> tuple[tuple[str, int], ...]:
    (kh, kw), (sh, sw) = ints(attrs, "kernel"), ints(attrs, "strides")
    (dh, dw), (top, left, bottom, right) = ints(attrs, "dilations"), ints(attrs, "pads")
    return (
        ("planes", x[0] * x[1]), ("h", x[2]), ("w", x[3]), ("oh", y[2]), ("ow", y[3]),
        ("kh", kh), ("kw", kw), ("stride_h", sh), ("stride_w", sw),
        ("pad_top", top), ("pad_left", left), ("pad_bottom", bottom), ("pad_right", right),
        ("dilation_h", dh), ("dilation_w", dw), ("count_pads", ints(attrs, "count_pads")[0]),
    )  # fmt: skip


def _axis(
    out: int, size: int, axis: int, attrs: Attrs
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """0/1 matrix [out, size] of the taps inside the input, and taps that count, along one axis."""
    kernel, stride = ints(attrs, "kernel")[axis], ints(attrs, "strides")[axis]
    dilation, pads = ints(attrs, "dilations")[axis], ints(attrs, "pads")
    at = np.arange(out)[:, None] * stride - pads[axis] + np.arange(kernel)[None, :] * dilation
    meets = (at[:, :, None] == np.arange(size)[None, None, :]).any(1)
    counted = (at < size + pads[2 + axis]).sum(1)
    return meets.astype(np.float32), counted.astype(np.float32)


def _weights(
    x: tuple[int, ...], y: tuple[int, ...], attrs: Attrs
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Row matrix [oh, h], column matrix [ow, w] and divisors [oh, ow]."""
    rows, row_count = _axis(y[2], x[2], 0, attrs)
    columns, column_count = _axis(y[3], x[3], 1, attrs)
    if not ints(attrs, "count_pads")[0]:
        row_count, column_count = rows.sum(1), columns.sum(1)
    return rows, columns, np.maximum(np.outer(row_count, column_count), np.float32(1))


class AvgPool2d(Operator):
    """y = mean of each window; padding counts as zeros with ``count_pads``, else not at all."""

    name = "avgpool2d"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        shape = inputs[0].shape
        if len(shape) != 4:
            raise ModelError(f"expected x with 4 dimensions, got {shape}")
        kernel, strides = ints(attrs, "kernel"), ints(attrs, "strides")
        pads, dilations = ints(attrs, "pads"), ints(attrs, "dilations")
        (ceil,) = ints(attrs, "ceil_mode")
        if any(p >= k for p, k in zip(pads, kernel * 2, strict=True)):
            raise ModelError(f"expected pads below the window {kernel}, got {pads}")
        out = tuple(
            positions(shape[2 + i], kernel[i], strides[i], pads[i], pads[2 + i], dilations[i], ceil)
            for i in range(2)
        )
        if min(out) < 1:
            raise ModelError(
                f"expected a window that fits the padded input, got {kernel} on {shape}"
            )
        return (TensorType((*shape[:2], *out)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x = np.asarray(inputs[0], np.float32)
        y = self.infer([TensorType(x.shape)], attrs)[0].shape
        rows, columns, by = _weights(x.shape, y, attrs)
        return ((np.einsum("ih,nchw,jw->ncij", rows, x, columns) / by).astype(np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        kh, kw = ints(attrs, "kernel")
        return Cost("pool", elements=outputs[0].elements * kh * kw)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = _fields(inputs[0].shape, outputs[0].shape, attrs)
        return Kernel("poet_avgpool2d_fwd_f32", _SOURCE, ("in0", "out0"), _SHAPE, fields)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        attrs = {**node.attrs, "x_shape": inputs[0].shape}
        return build.emit("avgpool2d_bwd", (grads[0],), attrs, f"d_{inputs[0].name}")


class AvgPool2dBwd(Operator):
    """dx: each window's dy shared out among its inputs."""

    name = "avgpool2d_bwd"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(ints(attrs, "x_shape")),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dy = np.asarray(inputs[0], np.float32)
        rows, columns, by = _weights(ints(attrs, "x_shape"), dy.shape, attrs)
        dx = np.einsum("ih,ncij,jw->nchw", rows, dy / by, columns)
        return (np.ascontiguousarray(dx, np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        kh, kw = ints(attrs, "kernel")
        return Cost("pool", elements=inputs[0].elements * kh * kw)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = _fields(outputs[0].shape, inputs[0].shape, attrs)
        return Kernel("poet_avgpool2d_bwd_f32", _SOURCE, ("in0", "out0"), _SHAPE, fields)


OPERATORS = (AvgPool2d(), AvgPool2dBwd())
