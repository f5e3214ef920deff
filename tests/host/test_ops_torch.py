"""Operators: loss and gradients, in numpy and by the C kernels, equal PyTorch's in double."""

from __future__ import annotations

import math

import node_run
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from models import node
from torch.nn import functional

EXP = 1e-4  # behind exp-like functions
QUICK = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def normal(shape, seed=0, scale=1.5):
    rng = np.random.default_rng([seed, *shape])
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def positive(shape, seed=0):
    return np.abs(normal(shape, seed)) + np.float32(0.2)


def shrink(x):
    return torch.where(x < -0.7, x + 0.3, torch.where(x > 0.7, x - 0.3, x * 0))


#: case -> (ONNX operator, attributes, opset, PyTorch's function)
ACTIVATIONS = {
    "leaky": ("LeakyRelu", {"alpha": 0.2}, 17, lambda x: functional.leaky_relu(x, 0.2)),
    "leaky, falling": ("LeakyRelu", {"alpha": -0.5}, 17, lambda x: functional.leaky_relu(x, -0.5)),
    "leaky, flat": ("LeakyRelu", {"alpha": 0.0}, 17, functional.relu),
    "elu": ("Elu", {"alpha": 0.7}, 17, lambda x: functional.elu(x, 0.7)),
    "celu": ("Celu", {"alpha": 2.0}, 17, lambda x: functional.celu(x, 2.0)),
    "selu": ("Selu", {}, 17, functional.selu),
    "selu with numbers": (
        "Selu",
        {"alpha": 2.0, "gamma": 0.5},
        17,
        lambda x: 0.5 * functional.elu(x, 2.0),
    ),
    "sigmoid": ("Sigmoid", {}, 17, torch.sigmoid),
    "tanh": ("Tanh", {}, 17, torch.tanh),
    "hard sigmoid": ("HardSigmoid", {}, 17, lambda x: torch.clamp(0.2 * x + 0.5, 0, 1)),
    "hard sigmoid of torch": (
        "HardSigmoid",
        {"alpha": 1 / 6, "beta": 0.5},
        17,
        functional.hardsigmoid,
    ),
    "hard swish": ("HardSwish", {}, 17, functional.hardswish),
    "mish": ("Mish", {}, 18, functional.mish),
    "softplus": ("Softplus", {}, 17, functional.softplus),
    "softsign": ("Softsign", {}, 17, functional.softsign),
    "swish": ("Swish", {"alpha": 1.5}, 24, lambda x: x * torch.sigmoid(1.5 * x)),
    "gelu": ("Gelu", {}, 20, functional.gelu),
    "gelu by tanh": (
        "Gelu",
        {"approximate": "tanh"},
        20,
        lambda x: functional.gelu(x, approximate="tanh"),
    ),
    "clip by attributes": ("Clip", {"min": -1.0, "max": 0.5}, 7, lambda x: x.clamp(-1, 0.5)),
    "clip below": ("Clip", {"min": -0.25}, 7, lambda x: x.clamp(min=-0.25)),
    "thresholded": ("ThresholdedRelu", {"alpha": 0.6}, 17, lambda x: x * (x > 0.6)),
    "shrink": ("Shrink", {"bias": 0.3, "lambd": 0.7}, 17, shrink),
    "abs": ("Abs", {}, 17, torch.abs),
    "neg": ("Neg", {}, 17, torch.neg),
    "exp": ("Exp", {}, 17, torch.exp),
    "erf": ("Erf", {}, 17, torch.erf),
}


@pytest.mark.parametrize("case", ACTIVATIONS)
def test_activation(case, tmp_path):
    op, attrs, opset, function = ACTIVATIONS[case]
    x = normal((3, 4, 5))
    node_run.compare(
        [node(op, "h", "y", **attrs)], function, x, {}, tmp_path, tolerance=EXP, opset=opset
    )


@pytest.mark.parametrize(
    ("op", "function"),
    [("Sqrt", torch.sqrt), ("Log", torch.log), ("Reciprocal", torch.reciprocal)],
)
def test_function_of_positive_numbers(op, function, tmp_path):
    tolerance = EXP if op == "Log" else 1e-5
    node_run.compare(
        [node(op, "h", "y")], function, positive((4, 7)), {}, tmp_path, tolerance=tolerance
    )


@pytest.mark.parametrize("bounds", ["-1 2", "-1 -", "- 2"])
def test_clip_by_inputs(bounds, tmp_path):
    low, high = (None if b == "-" else float(b) for b in bounds.split())
    tensors = {
        name: np.asarray(number, np.float32)
        for name, number in (("low", low), ("high", high))
        if number is not None
    }
    names = f"h {'-' if low is None else 'low'} {'-' if high is None else 'high'}"
    node_run.compare(
        [node("Clip", names, "y")],
        lambda x, *_: x.clamp(low, high),
        normal((5, 6), scale=3),
        dict(tensors.items()),
        tmp_path,
    )


BINARY = {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": torch.div,
    "Min": torch.minimum,
    "Max": torch.maximum,
}


@pytest.mark.parametrize("op", BINARY)
@given(
    shapes=hnp.mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=4, max_side=4),
    swap=st.booleans(),
)
@QUICK
def test_two_operands_broadcast(op, shapes, swap, tmp_path):
    first, second = shapes.input_shapes
    x, w = normal(first), normal(second, 1)
    if op == "Div":
        x, w = positive(first), positive(second, 1)
    names = "w h" if swap else "h w"
    function = BINARY[op]
    node_run.compare(
        [node(op, names, "y")],
        (lambda h, w: function(w, h)) if swap else function,
        x,
        {"w": w},
        tmp_path,
    )


@pytest.mark.parametrize("op", BINARY)
def test_two_operands_of_unmergeable_shapes(op, tmp_path):
    x, w = positive((2, 1, 3, 1, 2)), positive((1, 3, 3, 2, 1), 1)
    node_run.compare([node(op, "h w", "y")], BINARY[op], x, {"w": w}, tmp_path)


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_equal_operands_share_the_gradient(op, tmp_path):
    x = np.asarray([[1, 2, 3], [3, 2, 1]], np.float32)
    w = np.asarray([[2, 2, 2]], np.float32)
    node_run.compare([node(op, "h w", "y")], BINARY[op], x, {"w": w}, tmp_path)


def test_a_scale_and_a_shift_per_channel(tmp_path):
    tensors = {"scale": normal((1, 3, 1, 1), 1), "shift2": normal((3, 1, 1), 2)}
    nodes = [node("Mul", "h scale", "m"), node("Add", "m shift2", "y")]
    graph = node_run.compare(
        nodes, lambda x, s, b: x * s + b, normal((2, 3, 4, 5)), tensors, tmp_path
    )
    # The product dy * x is never in memory.
    assert [n.op for n in graph.nodes if n.op.startswith("reduce")] == [
        "reduce_sum",
        "reduce_product",
    ]


def test_an_operand_used_twice(tmp_path):
    node_run.compare(
        [node("Mul", "h h", "q"), node("Sub", "q h", "y")], lambda x: x * x - x, normal((3, 5)), {},
        tmp_path,
    )  # fmt: skip


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
def test_three_operands(op, tmp_path):
    tensors = {"a": normal((4,), 1), "b": normal((3, 1), 2)}
    functions = {
        "Sum": lambda *v: v[0] + v[1] + v[2],
        "Mean": lambda *v: (v[0] + v[1] + v[2]) / 3,
        "Max": lambda *v: torch.maximum(torch.maximum(v[0], v[1]), v[2]),
        "Min": lambda *v: torch.minimum(torch.minimum(v[0], v[1]), v[2]),
    }
    node_run.compare([node(op, "h a b", "y")], functions[op], normal((3, 4)), tensors, tmp_path)


@pytest.mark.parametrize("shape", [(4,), (4, 1, 1), (1,), (2, 4, 3, 3)])
def test_prelu(shape, tmp_path):
    node_run.compare(
        [node("PRelu", "h slope", "y")],
        lambda x, s: torch.where(x > 0, x, s * x),
        normal((2, 4, 3, 3)) if len(shape) != 1 else normal((2, 3, 4)),
        {"slope": normal(shape, 3, 0.4)},
        tmp_path,
    )


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -1.0, -2.0, 1.7, 0.0, 1.0])
def test_constant_exponent(exponent, tmp_path):
    tensors = {"e": np.asarray(exponent, np.float32)}
    whole = exponent == int(exponent)
    x = positive((3, 4)) * (np.where(np.arange(12).reshape(3, 4) % 2, 1, -1) if whole else 1)
    node_run.compare(
        [node("Pow", "h e", "y")],
        lambda x, *_: x**exponent,
        x.astype(np.float32),
        tensors,
        tmp_path,
        tolerance=EXP,
    )


def test_trained_exponents(tmp_path):
    tensors = {"e": normal((3,), 5)}
    node_run.compare(
        [node("Pow", "h e", "y")], torch.pow, positive((4, 3)), tensors, tmp_path, tolerance=EXP
    )


def amax(x, axes, keep):
    return torch.amax(x, axes, keep)


REDUCTIONS = {
    "ReduceSum": (torch.sum, 1e-5),
    "ReduceMean": (torch.mean, 1e-5),
    "ReduceMax": (amax, 1e-5),
    "ReduceMin": (torch.amin, 1e-5),
    "ReduceL1": (lambda x, axes, keep: x.abs().sum(axes, keep), 1e-5),
    "ReduceL2": (lambda x, axes, keep: (x * x).sum(axes, keep).sqrt(), 1e-5),
    "ReduceSumSquare": (lambda x, axes, keep: (x * x).sum(axes, keep), 1e-5),
    "ReduceLogSumExp": (torch.logsumexp, EXP),
}


@st.composite
def reductions(draw):
    shape = draw(hnp.array_shapes(max_dims=5, max_side=4))
    axes = draw(hnp.valid_tuple_axes(len(shape), min_size=1))
    return shape, axes, draw(st.booleans())


@pytest.mark.parametrize("op", REDUCTIONS)
@given(drawn=reductions())
@QUICK
def test_reduction_over_any_axes(op, drawn, tmp_path):
    shape, axes, keep = drawn
    function, tolerance = REDUCTIONS[op]
    attrs = {"axes": axes, "keepdims": int(keep)}
    nodes = [node(op, "h", "r", **attrs)]
    if op == "ReduceSum":  # an input since opset 13
        nodes = [node(op, "h axes", "r", keepdims=int(keep))]
    nodes.append(node("Neg", "r", "y"))
    node_run.compare(
        nodes,
        lambda x, *_: -function(x, axes, keep),
        normal(shape),
        {"axes": np.asarray(axes, np.int64)} if op == "ReduceSum" else {},
        tmp_path,
        tolerance=tolerance,
    )


def test_log_of_a_sum(tmp_path):
    node_run.compare(
        [node("ReduceLogSum", "h", "y", axes=[1])],
        lambda x: x.sum(1, keepdim=True).log(),
        positive((3, 5)),
        {},
        tmp_path,
        tolerance=EXP,
    )


def test_equal_winners_share_the_gradient(tmp_path):
    x = np.asarray([[1, 3, 3], [2, 2, 2], [5, 1, 0]], np.float32)
    node_run.compare(
        [node("ReduceMax", "h", "y", axes=[1])], lambda x: amax(x, 1, True), x, {}, tmp_path
    )


def test_norm_of_zeros_has_no_gradient(tmp_path):
    x = np.zeros((2, 3), np.float32)
    x[1] = [3, 0, 4]
    graph = node_run.graph_of([node("ReduceL2", "h", "y", axes=[1])], x, {}, tmp_path, 17)
    (source, label) = (graph.with_role(r)[0].id for r in (node_run.Role.INPUT, node_run.Role.LABEL))
    feeds = {source: x, label: np.zeros((2, 1), np.float32)}
    for fused in (0, 1):
        values = node_run.run_c(graph, graph.initial, feeds, 0.1, fused)
        gradient = node_run.gradients(graph, values)["shift"]
        np.testing.assert_allclose(gradient, [[0, 0, 0], [3, 0, 4]], rtol=1e-6)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("opset", [11, 13])
def test_softmax_inside_a_network(op, axis, opset, tmp_path):
    shape = (3, 4, 5)
    function = torch.softmax if op == "Softmax" else torch.log_softmax

    def flattened(x):
        rows = math.prod(shape[: axis % 3])
        return function(x.reshape(rows, -1), 1).reshape(shape)

    node_run.compare(
        [node(op, "h", "s", axis=axis), node("Neg", "s", "y")],
        (lambda x: -flattened(x)) if opset < 13 else (lambda x: -function(x, axis)),
        normal(shape, scale=3),
        {},
        tmp_path,
        tolerance=EXP,
        opset=opset,
    )


def test_softmax_of_large_numbers(tmp_path):
    x = np.asarray([[1000, 1001, 999], [-1000, -1001, -1003]], np.float32)
    node_run.compare(
        [node("Softmax", "h", "s"), node("Mul", "s s", "y")],
        lambda x: torch.softmax(x, -1) ** 2, x, {}, tmp_path, tolerance=EXP,
    )  # fmt: skip
