"""2-D max pooling that remembers each window's winner as a byte, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import DType, Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints

_SHAPE = "poet_maxpool2d_shape"
_SOURCE = "maxpool2d.c"


def positions(
    size: int, kernel: int, stride: int, begin: int, end: int, dil: int, ceil: int
) -> int:
    """Output size along one axis.

    With ``ceil`` a last window must still begin inside the input or its leading padding
    (as PyTorch does, and ONNX since opset 22).
    """
    span = size + begin + end - dil * (kernel - 1) - 1
    count = -(-span // stride) + 1 if ceil else span // stride + 1
    if ceil and (count - 1) * stride >= size + begin:
        count -= 1
    return count


def _index(oh: int, ow: int, attrs: Attrs) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Row [oh, kh] and column [ow, kw] under each tap of each window, padding as negatives."""
    (kh, kw), (sh, sw) = ints(attrs, "kernel"), ints(attrs, "strides")
    (dh, dw), (top, left, _, _) = ints(attrs, "dilations"), ints(attrs, "pads")
    rows = np.arange(oh)[:, None] * sh - top + np.arange(kh)[None, :] * dh
    cols = np.arange(ow)[:, None] * sw - left + np.arange(kw)[None, :] * dw
    return rows, cols


def _meets_input(size: int, out: int, attrs: Attrs, axis: int) -> bool:
    """Whether each of ``out`` windows has a tap inside the input along ``axis``."""
    kernel, dilation = ints(attrs, "kernel")[axis], ints(attrs, "dilations")[axis]
    stride, begin = ints(attrs, "strides")[axis], ints(attrs, "pads")[axis]
    if begin > (kernel - 1) * dilation or (out - 1) * stride - begin >= size:
        return False  # the first or the last window lies outside
    # Taps no farther apart than the input is long cannot step over it.
    return dilation <= size or all(
        (i * stride - begin) % dilation < size for i in range(min(out, -(-begin // stride)))
    )


def _fields(x: TensorType, y: TensorType, attrs: Attrs) -> tuple[tuple[str, int], ...]:
    (kh, kw), (sh, sw) = ints(attrs, "kernel"), ints(attrs, "strides")
    (dh, dw), (top, left, _, _) = ints(attrs, "dilations"), ints(attrs, "pads")
    n, c, h, w = x.shape
    return (
        ("planes", n * c), ("h", h), ("w", w), ("oh", y.shape[2]), ("ow", y.shape[3]),
        ("kh", kh), ("kw", kw), ("stride_h", sh), ("stride_w", sw),
        ("pad_top", top), ("pad_left", left), ("dilation_h", dh), ("dilation_w", dw),
    )  # fmt: skip


class MaxPool2d(Operator):
    """y and, unless ``with_argmax`` is 0, argmax = kh * KW + kw of each window's first maximum."""

    name = "maxpool2d"
    suffixes = ("", "_argmax")

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        shape = inputs[0].shape
        if len(shape) != 4:
            raise ModelError(f"expected x with 4 dimensions, got {shape}")
        kernel, strides = ints(attrs, "kernel"), ints(attrs, "strides")
        pads, dilations = ints(attrs, "pads"), ints(attrs, "dilations")
        (ceil,) = ints(attrs, "ceil_mode")
        if kernel[0] * kernel[1] > 255:
            raise ModelError(f"expected a window of at most 255 elements, got {kernel}")
        out = tuple(
            positions(shape[2 + i], kernel[i], strides[i], pads[i], pads[2 + i], dilations[i], ceil)
            for i in range(2)
        )
        if min(out) < 1:
            raise ModelError(
                f"expected a window that fits the padded input, got {kernel} on {shape}"
            )
        if not all(_meets_input(shape[2 + i], out[i], attrs, i) for i in range(2)):
            raise ModelError(
                f"expected an element of {shape} in every window {kernel}, got pads {pads} that "
                "fill one; export with smaller pads"
            )
        y = TensorType((*shape[:2], *out))
        if not ints({"with_argmax": 1, **attrs}, "with_argmax")[0]:
            return (y,)
        return y, TensorType(y.shape, DType.U8)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x = np.asarray(inputs[0], np.float32)
        types = self.infer([TensorType(x.shape)], attrs)
        rows, cols = _index(types[0].shape[2], types[0].shape[3], attrs)
        inside = ((rows >= 0) & (rows < x.shape[2]))[:, None, :, None]
        inside = inside & ((cols >= 0) & (cols < x.shape[3]))[None, :, None, :]
        r = rows.clip(0, x.shape[2] - 1)[:, None, :, None]
        c = cols.clip(0, x.shape[3] - 1)[None, :, None, :]
        taps = np.where(inside, x[:, :, r, c], -np.inf)
        flat = taps.reshape(*types[0].shape, -1)
        winner = flat.argmax(-1)  # the first maximum; NaN counts as the largest
        y = np.take_along_axis(flat, winner[..., None], -1)[..., 0].astype(np.float32)
        return (y, winner.astype(np.uint8))[: len(types)]

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        kh, kw = ints(attrs, "kernel")
        return Cost("pool", elements=outputs[0].elements * kh * kw)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "out0", "out1" if len(outputs) > 1 else "null")
        fields = _fields(inputs[0], outputs[0], attrs)
        return Kernel("poet_maxpool2d_fwd_f32", _SOURCE, args, _SHAPE, fields)

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
        dx = build.emit("maxpool2d_bwd", (grads[0], outputs[1]), attrs, f"d_{inputs[0].name}")
        return (dx[0],)


class MaxPool2dBwd(Operator):
    """dx: each dy goes to its window's winner."""

    name = "maxpool2d_bwd"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(ints(attrs, "x_shape")),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dy = np.asarray(inputs[0], np.float32)
        winner = inputs[1].astype(np.intp)
        _, kw = ints(attrs, "kernel")
        rows, cols = _index(dy.shape[2], dy.shape[3], attrs)
        row = rows[np.arange(dy.shape[2])[None, None, :, None], winner // kw]
        col = cols[np.arange(dy.shape[3])[None, None, None, :], winner % kw]
        dx = np.zeros(ints(attrs, "x_shape"), np.float32)
        n = np.arange(dy.shape[0])[:, None, None, None]
        c = np.arange(dy.shape[1])[None, :, None, None]
        np.add.at(dx, (n, c, row, col), dy)
        return (dx,)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("pool", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "out0")
        fields = _fields(outputs[0], inputs[0], attrs)
        return Kernel("poet_maxpool2d_bwd_f32", _SOURCE, args, _SHAPE, fields)


OPERATORS = (MaxPool2d(), MaxPool2dBwd())
