"""Batched product of two matrices, either of which may be stored turned, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints


def _turned(attrs: Attrs) -> tuple[int, int]:
    return ints(attrs, "a_is_turned")[0], ints(attrs, "c_is_turned")[0]


def _sizes(a: tuple[int, ...], c: tuple[int, ...], attrs: Attrs) -> tuple[int, int, int, int]:
    """batch, n, k, m; the shapes have been checked."""
    a_turned, c_turned = _turned(attrs)
    n, k = a[2:0:-1] if a_turned else a[1:]
    return a[0], n, k, c[1] if c_turned else c[2]


class Matmul(Operator):
    """y[b,n,m] = sum over k of a[b,n,k] * c[b,k,m]; turned operands have the last two swapped."""

    name = "matmul"

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        a, c = inputs[0].shape, inputs[1].shape
        if len(a) != 3 or len(c) != 3 or a[0] != c[0]:
            raise ModelError(f"expected two stacks of as many matrices, got {a} and {c}")
        batch, n, k, m = _sizes(a, c, attrs)
        if c[2 if _turned(attrs)[1] else 1] != k:
            raise ModelError(f"expected {k} terms in both operands, got {a} and {c}")
        return (TensorType((batch, n, m)),)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        a, c = (np.asarray(x, np.float32) for x in inputs)
        a_turned, c_turned = _turned(attrs)
        left = a.swapaxes(1, 2) if a_turned else a
        right = c.swapaxes(1, 2) if c_turned else c
        return (np.matmul(left, right).astype(np.float32),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        batch, n, k, m = _sizes(inputs[0].shape, inputs[1].shape, attrs)
        return Cost("dense_fwd", macs=batch * n * k * m, elements=outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        names = ("batch", "n", "k", "m", "a_is_turned", "c_is_turned")
        values = (*_sizes(inputs[0].shape, inputs[1].shape, attrs), *_turned(attrs))
        return Kernel(
            "poet_matmul_f32",
            "dense.c",
            ("in0", "in1", "out0"),
            "poet_matmul_shape",
            tuple(zip(names, values, strict=True)),
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
        (a, c), dy = inputs, grads[0]
        a_turned, c_turned = _turned(node.attrs)

        def product(left: Value, right: Value, turned: tuple[int, int], of: Value) -> Value:
            attrs: Attrs = {"a_is_turned": turned[0], "c_is_turned": turned[1]}
            return build.emit("matmul", (left, right), attrs, f"d_{of.name}")[0]

        da = dc = None
        if needs[0]:  # dA = dY C^T; a turned A gets the transpose, C dY^T
            pair = (c, dy, (c_turned, 1)) if a_turned else (dy, c, (0, 1 - c_turned))
            da = product(*pair, a)
        if needs[1]:  # dC = A^T dY; a turned C gets the transpose, dY^T A
            pair = (dy, a, (1, a_turned)) if c_turned else (a, dy, (1 - a_turned, 0))
            dc = product(*pair, c)
        return da, dc


OPERATORS = (Matmul(),)
