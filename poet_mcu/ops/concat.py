"""Concatenation along one axis; its gradient is a slice for each input."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints

#: inputs of one kernel call; more are concatenated in groups
MOST = 4


class Concat(Operator):
    """y is the inputs, one to four of them, one behind the other along ``axis``."""

    name = "concat"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        (axis,) = ints(attrs, "axis")
        first = inputs[0].shape
        if not 1 <= len(inputs) <= MOST:
            raise ModelError(f"expected 1 to {MOST} inputs, got {len(inputs)}")
        for other in inputs:
            fits = len(other.shape) == len(first) and all(
                i == axis or a == b for i, (a, b) in enumerate(zip(first, other.shape, strict=True))
            )
            if not fits:
                raise ModelError(
                    f"expected shapes equal but for axis {axis}, got {list(first)} and "
                    f"{list(other.shape)}"
                )
        total = sum(item.shape[axis] for item in inputs)
        return (TensorType((*first[:axis], total, *first[axis + 1 :]), inputs[0].dtype),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        return (np.concatenate(list(inputs), ints(attrs, "axis")[0]),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        (axis,) = ints(attrs, "axis")
        sizes = [math.prod(item.shape[axis:]) for item in inputs] + [0] * (MOST - len(inputs))
        fields = [("outer", math.prod(outputs[0].shape[:axis]))]
        fields += [(f"size[{i}]", size) for i, size in enumerate(sizes)]
        args = [f"in{i}" if i < len(inputs) else "null" for i in range(MOST)]
        return Kernel(
            "poet_concat_f32", "concat.c", (*args, "out0"), "poet_concat_shape", tuple(fields)
        )

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        (axis,) = ints(node.attrs, "axis")
        found: list[Value | None] = []
        start = 0
        for value, need in zip(inputs, needs, strict=True):
            starts = tuple(start if i == axis else 0 for i in range(len(value.shape)))
            attrs: Attrs = {
                "starts": starts,
                "sizes": value.shape,
                "steps": (1,) * len(value.shape),
            }
            name = f"d_{value.name}"
            found.append(build.emit("slice", (grads[0],), attrs, name)[0] if need else None)
            start += value.shape[axis]
        return tuple(found)


OPERATORS = (Concat(),)
