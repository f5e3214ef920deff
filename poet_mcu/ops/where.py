"""Where: a choice between two tensors by a constant mask of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.broadcast import broadcast_kernel, reduce_to, result_shape
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types


class Where(Operator):
    """y = a where the mask is not 0, else b; all three broadcast."""

    name = "where"
    in_place = ((0, 1), (0, 2))

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(result_shape(*(kind.shape for kind in inputs))),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        a, b = (np.asarray(array, np.float32) for array in inputs[1:])
        return (np.where(inputs[0] != 0, a, b),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "in2", "out0")
        shapes = [kind.shape for kind in inputs]
        return broadcast_kernel("poet_where_fwd_f32", "where.c", args, outputs[0].shape, shapes)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        mask = inputs[0]
        found: list[Value | None] = [None]
        for value, need, side in zip(inputs[1:], needs[1:], "ab", strict=True):
            name = f"d_{value.name}"
            if need:
                part = build.emit(f"where_bwd_{side}", (mask, grads[0]), {}, f"{name}_part")[0]
                found.append(reduce_to(build, part, value.shape, name))
            else:
                found.append(None)
        return tuple(found)


class WhereBwd(Operator):
    """dy where the mask chose this side, else 0; may run over dy."""

    in_place = ((0, 1),)

    def __init__(self, side: str) -> None:
        self.side = side
        self.name = f"where_bwd_{side}"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (inputs[1],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        dy = np.asarray(inputs[1], np.float32)
        chosen = (inputs[0] != 0) == (self.side == "a")
        return (np.where(chosen, dy, np.float32(0)),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        args = ("in0", "in1", "out0")
        return broadcast_kernel(
            f"poet_{self.name}_f32", "where.c", args, outputs[0].shape, [inputs[0].shape]
        )


OPERATORS = (Where(), WhereBwd("a"), WhereBwd("b"))
