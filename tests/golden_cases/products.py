"""Products of matrices."""

# ruff: noqa: ARG005 - every case is called alike

from __future__ import annotations

from typing import Any

from models import node, weights

from golden_cases.case import Case, Torch


def _mat(v: tuple[int, ...], x: tuple[int, ...]) -> Case:
    return Case([node("MatMul", "h v", "y")], x, lambda t, f, h, w: h @ w["v"], {"v": weights(*v)})


def _left(v: tuple[int, ...], x: tuple[int, ...]) -> Case:
    return Case([node("MatMul", "v h", "y")], x, lambda t, f, h, w: w["v"] @ h, {"v": weights(*v)})


def _gemm(
    torch: Torch, v: tuple[int, ...], c: tuple[int, ...], fixed: tuple[str, ...] = (), **attrs: Any
) -> Case:
    tensors = {"v": weights(*v), "c": weights(*c)}
    return Case([node("Gemm", "h v c", "y", **attrs)], (3, 4), torch, tensors, fixed=fixed)


CASES = {
    "gemm transB": _gemm(lambda t, f, h, w: h @ w["v"].T + w["c"], (5, 4), (5,), transB=1),
    "gemm": _gemm(lambda t, f, h, w: h @ w["v"] + w["c"], (4, 5), (1, 5)),
    "gemm transA": _gemm(
        lambda t, f, h, w: h.T @ w["v"].T + w["c"], (5, 3), (5,), transA=1, transB=1
    ),
    "gemm alpha beta": _gemm(
        lambda t, f, h, w: 0.5 * h @ w["v"] + 2 * w["c"], (4, 5), (5,), ("v", "c"),
        alpha=0.5, beta=2.0,
    ),
    "gemm without bias": Case(
        [node("Gemm", "h v", "y")], (3, 4), lambda t, f, h, w: h @ w["v"], {"v": weights(4, 5)}
    ),
    "gemm of two computed": Case(
        [node("Relu", "h", "r"), node("Gemm", "h r c", "y", transB=1)],
        (4, 3),
        lambda t, f, h, w: h @ h.relu().T + w["c"],
        {"c": weights(4)},
    ),
    "gemm of two computed, turned": Case(
        [node("Relu", "h", "r"), node("Gemm", "h r c", "y", transA=1)],
        (4, 3),
        lambda t, f, h, w: h.T @ h.relu() + w["c"],
        {"c": weights(3, 1)},
    ),
    "matmul": _mat((4, 5), (3, 4)),
    "matmul and Add": Case(
        [node("MatMul", "h v", "m"), node("Add", "m c", "y")],
        (2, 3, 4),
        lambda t, f, h, w: h @ w["v"] + w["c"],
        {"v": weights(4, 5), "c": weights(5)},
    ),
    "matmul of rows": _mat((4, 5), (2, 3, 4)),
    "matmul of stacks": _mat((2, 4, 5), (2, 3, 4)),
    "matmul repeats the left": _mat((2, 4, 5), (3, 4)),
    "matmul repeats both": _mat((3, 4, 2), (2, 1, 3, 4)),
    "matmul one matrix": _mat((1, 4, 5), (2, 3, 4)),
    "matmul vector": _mat((4,), (2, 3, 4)),
    "matmul weight first": _left((5, 4), (2, 4, 3)),
    "matmul vector first": _left((4,), (2, 4, 3)),
    "matmul both computed": Case(
        [node("Transpose", "h", "u", perm=[0, 2, 1]), node("MatMul", "h u", "y")],
        (2, 3, 4),
        lambda t, f, h, w: h @ h.transpose(1, 2),
    ),
    "attention": Case(
        [
            node("Transpose", "h", "u", perm=[0, 2, 1]),
            node("MatMul", "h u", "s"),
            node("Softmax", "s", "p", axis=-1),
            node("MatMul", "p h", "y"),
        ],
        (2, 3, 4),
        lambda t, f, h, w: (h @ h.transpose(1, 2)).softmax(-1) @ h,
        exp=True,
    ),
}  # fmt: skip
