"""2-D convolution, NCHW, and its three gradients (input, weight, bias)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops import conv_packed
from poet_mcu.ops.conv_packed import Packing
from poet_mcu.ops.ending import ENDINGS, ended, ended_cost, ended_kernel
from poet_mcu.ops.operator import (
    Array,
    Attrs,
    Cost,
    Emitter,
    Kernel,
    Operator,
    Types,
    in_memory_order,
    ints,
    variant_of,
)
from poet_mcu.ops.window import Window

_SHAPE = "poet_conv2d_shape"
_SOURCE = "conv2d.c"


def window(x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...], attrs: Attrs) -> Window:
    """The geometry that belongs to these shapes."""
    top, left, _, _ = ints(attrs, "pads")
    sh, sw = ints(attrs, "strides")
    dh, dw = ints(attrs, "dilations")
    (groups,) = ints(attrs, "group")
    n, c, h, width = x
    m, oh, ow = y[1:]
    return Window(
        n, c, h, width, m, oh, ow, w[2], w[3], sh, sw, top, left, dh, dw, groups
    )  # fmt: skip


def output_size(size: int, kernel: int, stride: int, pads: int, dilation: int) -> int:
    """Positions of a window of ``kernel`` along ``size`` with ``pads`` in all (floor form)."""
    return (size + pads - dilation * (kernel - 1) - 1) // stride + 1


def _taps(g: Window, padded: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """View [kh, kw, n, c, oh, ow]: for each tap the input element under each output position."""
    sn, sc, srow, scol = padded.strides
    return np.lib.stride_tricks.as_strided(
        padded,
        (g.kh, g.kw, g.n, g.c, g.oh, g.ow),
        (srow * g.dh, scol * g.dw, sn, sc, srow * g.sh, scol * g.sw),
    )


def _pad(g: Window, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """x with zero borders large enough for every tap."""
    bottom = max(0, (g.oh - 1) * g.sh + g.dh * (g.kh - 1) + 1 - g.top - g.h)
    right = max(0, (g.ow - 1) * g.sw + g.dw * (g.kw - 1) + 1 - g.left - g.w)
    return np.pad(x, ((0, 0), (0, 0), (g.top, bottom), (g.left, right)))


def _split(g: Window, a: npt.NDArray[np.float32], axis: int) -> list[npt.NDArray[np.float32]]:
    return np.split(a, g.groups, axis)


def _cost(g: Window, packing: Packing, family: str, made: TensorType, attrs: Attrs) -> Cost:
    """Of one direction, in the form that the node takes."""
    if variant_of(attrs):
        return packing.cost(variant_of(attrs), g.macs)
    if conv_packed.has_blocks(g):
        return Cost(family, macs=g.macs, elements=made.elements)
    return Cost("conv_general", macs=g.macs, elements=made.elements, like=family)


def _kernel(g: Window, packing: Packing, way: str, args: tuple[str, ...], attrs: Attrs) -> Kernel:
    """Of one direction, in the form that the node takes."""
    variant = variant_of(attrs)
    if not variant:
        return Kernel(f"poet_conv2d_{way}_f32", _SOURCE, (*args, "out0"), _SHAPE, g.fields)
    fields = tuple((f"conv.{name}", value) for name, value in g.fields)
    fields = (*fields, ("work_floats", packing.work_floats(variant)))
    name = f"poet_conv2d_{way}_packed_f32"
    return Kernel(name, _SOURCE, (*args, "ws", "out0"), "poet_conv2d_packed_shape", fields)


def _product(
    g: Window, spec: str, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """The sum of products; as one matrix product, ten to ninety times faster than numpy's loop.

    Not for depthwise groups, whose matrices have one row.
    """
    return np.asarray(np.einsum(spec, a, b, optimize=g.c > g.groups), np.float32)


class Conv2d(Operator):
    """y[n,m,oh,ow] = b[m] + sum over c, kh, kw of x * w."""

    name = "conv2d"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        x, w = inputs[0].shape, inputs[1].shape
        if len(x) != 4 or len(w) != 4:
            raise ModelError(f"expected x and w with 4 dimensions, got {x} and {w}")
        (groups,) = ints(attrs, "group")
        if x[1] != w[1] * groups or w[0] % groups:
            raise ModelError(f"expected {w[1] * groups} input channels for w {w}, got {x[1]}")
        if len(inputs) > 2 and inputs[2].shape != (w[0],):
            raise ModelError(f"expected a bias of shape ({w[0]},), got {inputs[2].shape}")
        top, left, bottom, right = ints(attrs, "pads")
        sh, sw = ints(attrs, "strides")
        dh, dw = ints(attrs, "dilations")
        oh = output_size(x[2], w[2], sh, top + bottom, dh)
        ow = output_size(x[3], w[3], sw, left + right, dw)
        if oh < 1 or ow < 1:
            raise ModelError(f"expected a kernel that fits the padded input, got w {w} on x {x}")
        return (TensorType((x[0], w[0], oh, ow)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x, w = (np.asarray(a, np.float32) for a in inputs[:2])
        y = self.infer([TensorType(np.shape(a)) for a in inputs], attrs)[0].shape
        g = window(x.shape, w.shape, y, attrs)
        taps = _taps(g, _pad(g, x))
        parts = [
            _product(g, "hwncyx,mchw->nmyx", t, k)
            for t, k in zip(_split(g, taps, 3), _split(g, w, 0), strict=True)
        ]
        out = np.concatenate(parts, 1)
        if len(inputs) > 2:
            out = out + np.asarray(inputs[2], np.float32)[None, :, None, None]
        return ended((out.astype(np.float32),), attrs)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        g = window(inputs[0].shape, inputs[1].shape, outputs[0].shape, attrs)
        cost = _cost(g, conv_packed.forward(g), "conv_fwd", outputs[0], attrs)
        return ended_cost(cost, outputs[0], attrs)

    def ends_in(self, activation: str, inputs: Types, attrs: Attrs) -> bool:
        return activation in ENDINGS

    def variants(self, inputs: Types, outputs: Types, attrs: Attrs) -> tuple[str, ...]:
        g = window(inputs[0].shape, inputs[1].shape, outputs[0].shape, attrs)
        return conv_packed.useful(g, conv_packed.forward(g))

    def workspace_bytes(self, inputs: Types, outputs: Types, attrs: Attrs) -> int:
        g = window(inputs[0].shape, inputs[1].shape, outputs[0].shape, attrs)
        return conv_packed.forward(g).work_bytes(variant_of(attrs))

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        g = window(inputs[0].shape, inputs[1].shape, outputs[0].shape, attrs)
        bias = "in2" if len(inputs) > 2 else "null"
        kernel = _kernel(g, conv_packed.forward(g), "fwd", ("in0", "in1", bias), attrs)
        return ended_kernel(kernel, attrs)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        x, w = inputs[:2]
        dy = grads[0]
        shapes = {"x_shape": x.shape, "w_shape": w.shape}

        def bwd_x() -> Value | None:
            if not needs[0]:
                return None
            attrs = {**node.attrs, **shapes}
            return build.emit("conv2d_bwd_x", (dy, w), attrs, f"d_{x.name}")[0]

        def bwd_w() -> Value | None:
            if not needs[1]:
                return None
            attrs = {**node.attrs, **shapes}
            return build.emit("conv2d_bwd_w", (x, dy), attrs, f"d_{w.name}")[0]

        dx, dw = in_memory_order(bwd_x, bwd_w, x, w)
        db = None
        if len(inputs) > 2 and needs[2]:
            db = build.emit("channel_sum", (dy,), {}, f"d_{inputs[2].name}")[0]
        return (dx, dw, db)[: len(inputs)]


class Conv2dBwdX(Operator):
    """dx from dy and w."""

    name = "conv2d_bwd_x"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(ints(attrs, "x_shape")),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dy, w = (np.asarray(a, np.float32) for a in inputs)
        g = window(ints(attrs, "x_shape"), w.shape, dy.shape, attrs)
        padded = np.zeros_like(_pad(g, np.zeros((g.n, g.c, g.h, g.w), np.float32)))
        per_group = g.c // g.groups
        for i, (d, k) in enumerate(zip(_split(g, dy, 1), _split(g, w, 0), strict=True)):
            chunk = _product(g, "nmyx,mchw->hwncyx", d, k)
            target = padded[:, i * per_group : (i + 1) * per_group]
            for kh in range(g.kh):
                for kw in range(g.kw):
                    rows = slice(kh * g.dh, kh * g.dh + (g.oh - 1) * g.sh + 1, g.sh)
                    cols = slice(kw * g.dw, kw * g.dw + (g.ow - 1) * g.sw + 1, g.sw)
                    target[:, :, rows, cols] += chunk[kh, kw]
        return (padded[:, :, g.top : g.top + g.h, g.left : g.left + g.w].copy(),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        g = window(outputs[0].shape, inputs[1].shape, inputs[0].shape, attrs)
        return _cost(g, conv_packed.back(g), "conv_bwd_x", outputs[0], attrs)

    def variants(self, inputs: Types, outputs: Types, attrs: Attrs) -> tuple[str, ...]:
        g = window(outputs[0].shape, inputs[1].shape, inputs[0].shape, attrs)
        return conv_packed.useful(g, conv_packed.back(g))

    def workspace_bytes(self, inputs: Types, outputs: Types, attrs: Attrs) -> int:
        g = window(outputs[0].shape, inputs[1].shape, inputs[0].shape, attrs)
        return conv_packed.back(g).work_bytes(variant_of(attrs))

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        g = window(outputs[0].shape, inputs[1].shape, inputs[0].shape, attrs)
        return _kernel(g, conv_packed.back(g), "bwd_x", ("in0", "in1"), attrs)


class Conv2dBwdW(Operator):
    """dw from x and dy."""

    name = "conv2d_bwd_w"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(ints(attrs, "w_shape")),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x, dy = (np.asarray(a, np.float32) for a in inputs)
        g = window(x.shape, ints(attrs, "w_shape"), dy.shape, attrs)
        taps = _taps(g, _pad(g, x))
        parts = [
            _product(g, "hwncyx,nmyx->mchw", t, d)
            for t, d in zip(_split(g, taps, 3), _split(g, dy, 1), strict=True)
        ]
        return (np.concatenate(parts, 0).astype(np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        g = window(inputs[0].shape, outputs[0].shape, inputs[1].shape, attrs)
        return Cost("conv_bwd_w", macs=g.macs, elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        g = window(inputs[0].shape, outputs[0].shape, inputs[1].shape, attrs)
        args = ("in0", "in1", "out0")
        return Kernel("poet_conv2d_bwd_w_f32", _SOURCE, args, _SHAPE, g.fields)


OPERATORS = (Conv2d(), Conv2dBwdX(), Conv2dBwdW())
