"""Functions of one tensor."""

# ruff: noqa: ARG005 - every case is called alike

from __future__ import annotations

from typing import Any

import numpy as np
from models import node

from golden_cases.case import Case, Torch, number, positive
from poet_mcu.ops.dropout import kept

_X = (3, 7)


def _one(op: str, torch: Torch, opset: int = 17, exp: bool = True, **attrs: Any) -> Case:
    return Case([node(op, "h", "y", **attrs)], _X, torch, opset=opset, exp=exp)


def _positive(op: str, torch: Torch, exp: bool = False) -> Case:
    return Case([node(op, "h", "y")], positive(*_X), torch, exp=exp)


def _clip(low: float | None, high: float | None) -> Case:
    bounds = {"low": low, "high": high}
    names = " ".join(n if b is not None else "-" for n, b in bounds.items())
    return Case(
        [node("Clip", f"h {names}", "y")],
        _X,
        lambda t, f, h, w: h.clamp(low, high),
        {n: number(b) for n, b in bounds.items() if b is not None},
    )


def _softmax(op: str, axis: int) -> Case:
    name = op.lower().replace("logs", "log_s")
    return Case(
        [node(op, "h", "s", axis=axis), node("Neg", "s", "y")],
        (2, 3, 4),
        lambda t, f, h, w: -getattr(t, name)(h, axis),
        exp=True,
    )


def _flat_softmax(op: str) -> Case:
    """Before opset 13 all axes from ``axis`` on are one."""
    name = op.lower().replace("logs", "log_s")
    return Case(
        [node(op, "h", "s", axis=1), node("Neg", "s", "y")],
        (2, 3, 4),
        lambda t, f, h, w: -getattr(t, name)(h.reshape(2, 12), 1).reshape(2, 3, 4),
        opset=11,
        exp=True,
    )


def _dropped(t: Any, h: Any, stream: int, ratio: float) -> Any:
    """``h`` under our mask of the first step, which no other library draws."""
    stays = kept(h.numel(), 0, stream, 0, ratio).reshape(tuple(h.shape))
    return h * t.tensor(stays) / (1 - ratio)


CASES = {
    "dropout": Case(
        [node("Dropout", "h ratio on", "y")],
        (4, 6),
        lambda t, f, h, w: _dropped(t, h, 0, 0.4),
        {"ratio": number(0.4), "on": np.asarray(True)},
    ),
    "dropout twice, by an attribute": Case(
        [node("Dropout", "h", "a", ratio=0.25), node("Dropout", "a", "y", ratio=0.5)],
        (4, 6),
        lambda t, f, h, w: _dropped(t, _dropped(t, h, 0, 0.25), 1, 0.5),
        opset=11,
    ),
    "relu": _one("Relu", lambda t, f, h, w: h.relu(), exp=False),
    "leaky_relu": _one("LeakyRelu", lambda t, f, h, w: f.leaky_relu(h, 0.01), exp=False),
    "leaky_relu 0.3": _one(
        "LeakyRelu", lambda t, f, h, w: f.leaky_relu(h, 0.3), exp=False, alpha=0.3
    ),
    "elu": _one("Elu", lambda t, f, h, w: f.elu(h)),
    "elu 0.7": _one("Elu", lambda t, f, h, w: f.elu(h, 0.7), alpha=0.7),
    "celu 1.5": _one("Celu", lambda t, f, h, w: f.celu(h, 1.5), alpha=1.5),
    "selu": _one("Selu", lambda t, f, h, w: f.selu(h)),
    "selu own numbers": _one("Selu", lambda t, f, h, w: 1.1 * f.elu(h, 2.0), alpha=2.0, gamma=1.1),
    "sigmoid": _one("Sigmoid", lambda t, f, h, w: h.sigmoid()),
    "tanh": _one("Tanh", lambda t, f, h, w: h.tanh()),
    "hard_sigmoid": _one("HardSigmoid", lambda t, f, h, w: (0.2 * h + 0.5).clamp(0, 1), exp=False),
    "hard_sigmoid of torch": _one(
        "HardSigmoid", lambda t, f, h, w: f.hardsigmoid(h), exp=False, alpha=1 / 6
    ),
    "hard_swish": _one("HardSwish", lambda t, f, h, w: f.hardswish(h), exp=False),
    "softplus": _one("Softplus", lambda t, f, h, w: f.softplus(h)),
    "mish": _one("Mish", lambda t, f, h, w: f.mish(h), 18),
    "softsign": _one("Softsign", lambda t, f, h, w: f.softsign(h), exp=False),
    "swish 1.5": _one("Swish", lambda t, f, h, w: h * (1.5 * h).sigmoid(), 24, alpha=1.5),
    "gelu": _one("Gelu", lambda t, f, h, w: f.gelu(h), 20),
    "gelu by tanh": _one(
        "Gelu", lambda t, f, h, w: f.gelu(h, approximate="tanh"), 20, approximate="tanh"
    ),
    "clip": _clip(-0.5, 0.75),
    "clip below": _clip(-0.25, None),
    "clip above": _clip(None, 0.25),
    "clip by attributes": _one(
        "Clip", lambda t, f, h, w: h.clamp(0, 6), 7, exp=False, min=0.0, max=6.0
    ),
    "thresholded_relu": _one(
        "ThresholdedRelu", lambda t, f, h, w: h * (h > 0.6), exp=False, alpha=0.6
    ),
    "shrink": _one(
        "Shrink",
        lambda t, f, h, w: t.where(h < -0.7, h + 0.3, t.where(h > 0.7, h - 0.3, 0 * h)),
        exp=False,
        bias=0.3,
        lambd=0.7,
    ),
    "abs": _one("Abs", lambda t, f, h, w: h.abs(), exp=False),
    "neg": _one("Neg", lambda t, f, h, w: -h, exp=False),
    "exp": _one("Exp", lambda t, f, h, w: h.exp()),
    "erf": _one("Erf", lambda t, f, h, w: t.erf(h)),
    "sqrt": _positive("Sqrt", lambda t, f, h, w: h.sqrt()),
    "log": _positive("Log", lambda t, f, h, w: h.log(), exp=True),
    "reciprocal": _positive("Reciprocal", lambda t, f, h, w: 1 / h),
    "prelu per channel": Case(
        [node("PRelu", "h slope", "y")],
        (2, 3, 2, 2),
        lambda t, f, h, w: t.where(h > 0, h, w["slope"] * h),
        {"slope": np.float32([0.1, -0.2, 0.3]).reshape(3, 1, 1)},
    ),
    "prelu one slope": Case(
        [node("PRelu", "h slope", "y")],
        _X,
        lambda t, f, h, w: t.where(h > 0, h, w["slope"] * h),
        {"slope": np.float32([0.25])},
    ),
    **{f"softmax axis {axis}": _softmax("Softmax", axis) for axis in (0, 1, -1)},
    **{f"log_softmax axis {axis}": _softmax("LogSoftmax", axis) for axis in (0, 1, -1)},
    "softmax opset 11": _flat_softmax("Softmax"),
    "log_softmax opset 11": _flat_softmax("LogSoftmax"),
}
