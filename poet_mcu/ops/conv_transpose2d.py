"""2-D transposed convolution: the input gradient of a convolution, used forward.

All of its kernels are those of conv2d: with the roles of input and output exchanged, the gradient
of its input is a convolution and that of its weights is a convolution's.
"""

from __future__ import annotations

from collections.abc import Sequence

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.conv2d import Conv2dBwdX, output_size
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
)

_CONV_X = Conv2dBwdX()


def _conv_attrs(attrs: Attrs, y: tuple[int, ...]) -> Attrs:
    """The attributes of the convolution whose input is our output."""
    return {**{key: attrs[key] for key in ("pads", "strides", "dilations", "group")}, "x_shape": y}


class ConvTranspose2d(Operator):
    """y of ``y_shape`` from x [n, c, h, w] and w [c, m / group, kh, kw], without bias."""

    name = "conv_transpose2d"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        x, w, y = inputs[0].shape, inputs[1].shape, ints(attrs, "y_shape")
        if len(x) != 4 or len(w) != 4:
            raise ModelError(f"expected x and w with 4 dimensions, got {x} and {w}")
        (groups,) = ints(attrs, "group")
        if x[1] != w[0] or w[0] % groups or y[:2] != (x[0], w[1] * groups):
            raise ModelError(
                f"expected {w[0]} input and {w[1] * groups} output channels for w {w}, got {x}"
            )
        pads, strides = ints(attrs, "pads"), ints(attrs, "strides")
        dilations = ints(attrs, "dilations")
        for i in range(2):
            total = pads[i] + pads[2 + i]
            back = output_size(y[2 + i], w[2 + i], strides[i], total, dilations[i])
            if y[2 + i] < 1 or back != x[2 + i]:
                raise ModelError(
                    f"expected an output from which stride {strides[i]} leads back to "
                    f"{x[2 + i]} positions, got {y[2 + i]} along axis {2 + i}"
                )
        return (TensorType(y),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        return _CONV_X.reference(inputs, _conv_attrs(attrs, ints(attrs, "y_shape")))

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return _CONV_X.cost(inputs, outputs, attrs)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return _CONV_X.kernel(inputs, outputs, attrs)

    def variants(self, inputs: Types, outputs: Types, attrs: Attrs) -> tuple[str, ...]:
        return _CONV_X.variants(inputs, outputs, attrs)

    def workspace_bytes(self, inputs: Types, outputs: Types, attrs: Attrs) -> int:
        return _CONV_X.workspace_bytes(inputs, outputs, attrs)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        (x, w), dy = inputs, grads[0]
        attrs = {**_conv_attrs(node.attrs, dy.shape), "w_shape": w.shape}

        def bwd_x() -> Value | None:
            return build.emit("conv2d", (dy, w), attrs, f"d_{x.name}")[0] if needs[0] else None

        def bwd_w() -> Value | None:
            if not needs[1]:
                return None
            return build.emit("conv2d_bwd_w", (dy, x), attrs, f"d_{w.name}")[0]

        return in_memory_order(bwd_x, bwd_w, x, w)


OPERATORS = (ConvTranspose2d(),)
