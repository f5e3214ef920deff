"""Comparisons of two tensors that broadcast, as bytes 1 and 0: masks for Where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from poet_mcu.ir.graph import DType, Node, TensorType, Value
from poet_mcu.ops.broadcast import broadcast_kernel, result_shape
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types


class Comparison(Operator):
    """y = 1 where the comparison holds (never for NaN), else 0; it has no gradient."""

    def __init__(self, name: str, function: Callable[[Any, Any], Any]) -> None:
        self.name = f"{name}_mask"
        self.function = function

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        return (TensorType(result_shape(inputs[0].shape, inputs[1].shape), DType.U8),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        return (np.asarray(self.function(inputs[0], inputs[1])).astype(np.uint8),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        return broadcast_kernel(
            f"poet_{self.name}_f32", "compare.c", ("in0", "in1", "out0"),
            outputs[0].shape, [kind.shape for kind in inputs],
        )  # fmt: skip

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        return None, None


OPERATORS = (
    Comparison("greater", np.greater),
    Comparison("greater_equal", np.greater_equal),
    Comparison("equal", np.equal),
)
