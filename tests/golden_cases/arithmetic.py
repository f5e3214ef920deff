"""Operands that broadcast, comparisons, reductions."""

# ruff: noqa: ARG005 - every case is called alike

from __future__ import annotations

from typing import Any

import numpy as np
from models import node, weights

from golden_cases.case import Array, Case, Torch, ints, number, positive

_PAIRS: dict[str, Torch] = {
    "Add": lambda t, f, h, w: h + w["w"],
    "Sub": lambda t, f, h, w: h - w["w"],
    "Mul": lambda t, f, h, w: h * w["w"],
    "Div": lambda t, f, h, w: h / w["w"],
    "Min": lambda t, f, h, w: t.minimum(h, w["w"]),
    "Max": lambda t, f, h, w: t.maximum(h, w["w"]),
}
_SWAPPED: dict[str, Torch] = {
    "Sub": lambda t, f, h, w: w["w"] - h,
    "Div": lambda t, f, h, w: w["w"] / h,
}
#: shape of h, shape of the weight
_SHAPES = {
    "same": ((2, 3), (2, 3)),
    "row": ((2, 3), (3,)),
    "channel": ((2, 3, 2, 2), (3, 1, 1)),
    "column": ((2, 3), (2, 1)),
    "h repeats": ((1, 3), (2, 3)),
    "both repeat": ((2, 1, 3), (1, 2, 1)),
    "one": ((2, 3), (1,)),
}


def _pair(op: str, h: tuple[int, ...], w: tuple[int, ...], swap: bool = False) -> Case:
    nodes = [node(op, "w h" if swap else "h w", "y")]
    torch = (_SWAPPED if swap else _PAIRS)[op]
    return Case(nodes, positive(*h), torch, {"w": positive(*w, seed=1)})


def _pow(exponent: float) -> Case:
    return Case(
        [node("Pow", "h e", "y")],
        positive(3, 4),
        lambda t, f, h, w: h**exponent,
        {"e": number(exponent)},
        exp=True,
    )


def _compare(op: str, torch: Torch) -> Case:
    """Where by a comparison: both sides get their part of the gradient."""
    return Case(
        [node(op, "h w", "m"), node("Where", "m h v", "y")],
        np.float32([[1, 2, 3], [3, 2, 1]]),
        lambda t, f, h, w: t.where(torch(t, f, h, w), h, w["v"]),
        {"w": np.float32([[2, 2, 2]]), "v": weights(2, 3, seed=4)},
        fixed=("w",),
    )


def _reduce(op: str, torch: Torch, axes: tuple[int, ...], keep: int, exp: bool = False) -> Case:
    by_input = op == "ReduceSum"  # since opset 13; the others since 18
    attrs: dict[str, Any] = {"keepdims": keep} | ({} if by_input else {"axes": axes})
    tensors: dict[str, Array] = {"axes": ints(*axes)} if by_input else {}
    nodes = [node(op, "h axes" if by_input else "h", "r", **attrs), node("Neg", "r", "y")]
    return Case(nodes, positive(2, 3, 4), torch, tensors, exp=exp)


def _axes(name: str, axes: tuple[int, ...], keep: int) -> Torch:
    return lambda t, f, h, w: -getattr(t, name)(h, axes, bool(keep))


def _over(reduce: Any, axes: tuple[int, ...], keep: int) -> Torch:
    return lambda t, f, h, w: -reduce(h, axes, bool(keep))


_BY_NAME = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "amax", "ReduceMin": "amin"}
_BY_RULE: dict[str, tuple[Any, bool]] = {
    "ReduceL1": (lambda h, a, k: h.abs().sum(a, k), False),
    "ReduceL2": (lambda h, a, k: (h * h).sum(a, k).sqrt(), False),
    "ReduceSumSquare": (lambda h, a, k: (h * h).sum(a, k), False),
    "ReduceLogSum": (lambda h, a, k: h.sum(a, k).log(), True),
    "ReduceLogSumExp": (lambda h, a, k: h.exp().sum(a, k).log(), True),
}
_WHERE = {((2,), 1), ((0, 2), 0), ((1,), 0)}

CASES = {
    **{f"{op} {name}": _pair(op, *shapes) for op in _PAIRS for name, shapes in _SHAPES.items()},
    **{
        f"{op} swapped {name}": _pair(op, *_SHAPES[name], swap=True)
        for op in _SWAPPED
        for name in ("row", "both repeat")
    },
    "equal operands share": Case(
        [node("Max", "h w", "a"), node("Min", "h w", "b"), node("Sub", "a b", "y")],
        np.float32([[1, 2, 3], [3, 2, 1]]),
        lambda t, f, h, w: t.maximum(h, w["w"]) - t.minimum(h, w["w"]),
        {"w": np.float32([[2, 2, 2]])},
    ),
    "diamond": Case(
        [node("Mul", "h h", "q"), node("Sub", "q h", "y")], (3, 4), lambda t, f, h, w: h * h - h
    ),
    "three operands": Case(
        [node("Sum", "h a b", "s"), node("Mean", "h s a", "m"), node("Max", "m a b", "y")],
        (3, 4),
        lambda t, f, h, w: t.maximum(
            t.maximum((h + (h + w["a"] + w["b"]) + w["a"]) / 3, w["a"]), w["b"]
        ),
        {"a": weights(4, seed=1), "b": weights(3, 1, seed=2)},
    ),
    **{f"pow {e:g}": _pow(e) for e in (2.0, 3.0, 0.5, -1.0, -2.0, 1.7)},
    "pow trained": Case(
        [node("Pow", "h e", "y")],
        positive(4, 3),
        lambda t, f, h, w: h ** w["e"],
        {"e": weights(3, seed=5)},
        exp=True,
    ),
    "where stored": Case(
        [node("Where", "m h v", "y")],
        (2, 3),
        lambda t, f, h, w: t.where(w["m"], h, w["v"]),
        {"m": np.asarray([[True, False, True]]), "v": weights(2, 1, seed=3)},
    ),
    "Greater": _compare("Greater", lambda t, f, h, w: h > w["w"]),
    "GreaterOrEqual": _compare("GreaterOrEqual", lambda t, f, h, w: h >= w["w"]),
    "Less": _compare("Less", lambda t, f, h, w: h < w["w"]),
    "LessOrEqual": _compare("LessOrEqual", lambda t, f, h, w: h <= w["w"]),
    "Equal": _compare("Equal", lambda t, f, h, w: h == w["w"]),
    **{
        f"{op} {axes} keep {keep}": _reduce(op, _axes(name, axes, keep), axes, keep)
        for op, name in _BY_NAME.items()
        for axes, keep in sorted(_WHERE)
    },
    **{
        f"{op} {axes} keep {keep}": _reduce(op, _over(rule, axes, keep), axes, keep, exp)
        for op, (rule, exp) in _BY_RULE.items()
        for axes, keep in sorted(_WHERE)[:2]
    },
    "ReduceMax ties": Case(
        [node("ReduceMax", "h", "y", axes=[1])],
        np.float32([[1, 3, 3], [2, 2, 2], [5, 1, 0]]),
        lambda t, f, h, w: t.amax(h, 1, True),
    ),
}
