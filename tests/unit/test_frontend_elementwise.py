"""Element-wise operators and reductions in old and new forms give ONNX Runtime's outputs."""

from __future__ import annotations

import models as m
import numpy as np
import onnx
import pytest
import torch
from models import agree, frozen, load, node, ops, refusal, weights

from poet_mcu.frontend.lower_elementwise import ACTIVATIONS
from poet_mcu.ir.graph import Role

X = [2, 3, 4]


@pytest.mark.parametrize("opset", [7, 9, 13, 17, 22])
@pytest.mark.parametrize("op", ACTIVATIONS)
def test_activation(op, opset, tmp_path):
    try:
        onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        since = onnx.defs.get_schema(op).since_version
        assert since > opset  # not yet defined, so nothing to read
        return
    nodes = [node("Abs", "x", "a"), node("Add", "a c", "p"), node(op, "p", "y")]
    tensors = {"c": np.asarray(0.1, np.float32)}
    assert ops(agree(m.model(nodes, X, tensors, opset=opset), tmp_path))[2] == ACTIVATIONS[op].op


@pytest.mark.parametrize("opset", [7, 13, 17])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (1, 3, 4), (2, 1, 1), (5, 1, 1, 1)])
def test_stored_operand(op, shape, opset, tmp_path):
    tensors = {"w": np.abs(weights(*shape)) + np.float32(0.5)}
    found = agree(m.model([node(op, "x w", "y")], X, tensors, opset=opset), tmp_path)
    role = Role.PARAMETER if shape else Role.CONSTANT
    assert [v.name for v in found.graph.with_role(role)] == ["w"]
    reverse = agree(m.model([node(op, "w x", "y")], X, tensors, opset=opset), tmp_path)
    assert ops(reverse) == [op.lower()]


def test_a_number_used_twice_is_one_constant(tmp_path):
    nodes = [node("Mul", "x c", "h"), node("Add", "h c", "y")]
    found = agree(m.model(nodes, X, {"c": np.asarray(0.5, np.float32)}), tmp_path)
    assert len(found.graph.with_role(Role.CONSTANT)) == 1
    assert found.report.weights == ()


def test_a_frozen_tensor_in_two_shapes_is_one_constant(tmp_path):
    shape = np.asarray([3, 1], np.int64)
    nodes = [
        node("Reshape", "w s", "v"),
        node("Mul", "x v", "h"),
        node("Transpose", "h", "t", perm=[0, 1, 2]),
        node("Add", "t w", "y"),
    ]
    proto = m.model(nodes, [2, 3, 3], {"w": weights(3), "s": shape})
    found = agree(proto, tmp_path, trainable=frozen)
    assert len(found.graph.with_role(Role.CONSTANT)) == 1


@pytest.mark.parametrize(("op", "opset"), [("ReduceSum", 11), ("ReduceSum", 13), ("ReduceL2", 17)])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axes", [None, [0], [-1], [2, 0], [0, 1, 2]])
def test_axes_of_a_reduction(op, opset, keep, axes, tmp_path):
    attrs = {"keepdims": keep}
    names = "x"
    tensors = {}
    if axes is not None and op == "ReduceSum" and opset >= 13:
        names, tensors = "x axes", {"axes": np.asarray(axes, np.int64)}
    elif axes is not None:
        attrs["axes"] = axes
    agree(m.model([node(op, names, "y", **attrs)], X, tensors, opset=opset), tmp_path)


def test_axes_as_input_since_18(tmp_path):
    tensors = {"axes": np.asarray([1], np.int64)}
    for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceLogSumExp"):
        agree(m.model([node(op, "x axes", "y")], X, tensors, opset=18), tmp_path)


def test_empty_axes(tmp_path):
    tensors = {"axes": np.zeros(0, np.int64)}
    keep = node("ReduceSum", "r axes", "y", noop_with_empty_axes=1)
    found = agree(m.model([node("Relu", "x", "r"), keep], X, tensors), tmp_path)
    assert ops(found) == ["relu"]
    every = node("ReduceSum", "r axes", "y")
    found = agree(m.model([node("Relu", "x", "r"), every], X, tensors), tmp_path)
    assert ops(found) == ["relu", "reduce_sum"]


def test_axes_outside(tmp_path):
    proto = m.model([node("ReduceMean", "x", "y", "n", axes=[3])], X, y=[2, 3, 1])
    assert "'n' (ReduceMean): expected axes in -3..2, got [3]" in refusal(proto, tmp_path)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("opset", [9, 13])
def test_softmax_before_others(op, axis, opset, tmp_path):
    nodes = [node(op, "x", "s", axis=axis), node("Neg", "s", "y")]
    found = agree(m.model(nodes, X, opset=opset), tmp_path)
    assert ops(found) == ["softmax" if op == "Softmax" else "log_softmax", "neg"]


@pytest.mark.parametrize(
    ("attrs", "inputs"),
    [({"min": -0.5, "max": 0.5}, ""), ({"min": 0.1}, ""), ({}, ""), ({}, "lo hi"), ({}, "- hi")],
)
def test_clip(attrs, inputs, tmp_path):
    opset = 13 if inputs else 7
    tensors = {"lo": np.asarray(-0.25, np.float32), "hi": np.asarray(0.75, np.float32)}
    used = {name: tensors[name] for name in inputs.replace("-", "").split()}
    proto = m.model([node("Clip", f"x {inputs}", "y", **attrs)], X, used, opset=opset)
    assert ops(agree(proto, tmp_path)) == ["clip"]


def test_where_with_a_mask(tmp_path):
    mask = np.asarray([[True], [False], [True]])
    proto = m.model([node("Where", "m x w", "y")], X, {"m": mask, "w": weights(4)})
    found = agree(proto, tmp_path)
    assert ops(found) == ["where"]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis, tmp_path):
    proto = m.model([node("Gather", "x i", "y", axis=axis)], X, {"i": np.asarray([[1, -1]])})
    assert ops(agree(proto, tmp_path)) == ["gather"]


def test_gather_outside(tmp_path):
    proto = m.model([node("Gather", "x i", "y", "n")], X, {"i": np.asarray([2])})
    assert "'n' (Gather): expected indices in -2..1, got 2 in 'i'" in refusal(proto, tmp_path)


def test_gather_of_a_frozen_table_is_folded(tmp_path):
    nodes = [node("Gather", "t i", "g"), node("Add", "x g", "y")]
    tensors = {"t": weights(5, 4), "i": np.asarray([1, 3, 0])}
    proto = m.model(nodes, X, tensors)
    assert ops(agree(proto, tmp_path, trainable=frozen)) == ["add"]
    assert ops(agree(proto, tmp_path)) == ["gather", "add"]


def test_expand_and_its_view(tmp_path):
    shape = np.asarray([5, 2, 1, 4], np.int64)
    found = agree(m.model([node("Expand", "x s", "y")], X, {"s": shape}), tmp_path)
    assert ops(found) == ["expand"]


@pytest.mark.parametrize("number", [2.0, 0.5, -1.0])
def test_cheap_powers(number, tmp_path):
    nodes = [node("Abs", "x", "a"), node("Pow", "a e", "y")]
    found = agree(m.model(nodes, X, {"e": np.asarray(number, np.float32)}), tmp_path)
    assert ops(found)[1] == {2.0: "mul", 0.5: "sqrt", -1.0: "reciprocal"}[number]


def test_whole_exponents_as_integers(tmp_path):
    found = agree(m.model([node("Pow", "x e", "y")], X, {"e": np.asarray([3], np.int64)}), tmp_path)
    assert ops(found) == ["pow"]


# --- chains that exporters write ----------------------------------------------------------------


def number(value):
    return np.asarray(value, np.float32)


CHAINS = {
    "gelu": (
        [
            node("Div", "h root", "a"),
            node("Erf", "a", "b"),
            node("Add", "b one", "c"),
            node("Mul", "h c", "d"),
            node("Mul", "d half", "y"),
        ],
        {"root": number(2**0.5), "one": number(1), "half": number(0.5)},
    ),
    "gelu, another order": (
        [
            node("Mul", "h half", "s"),
            node("Mul", "inv h", "a"),
            node("Erf", "a", "b"),
            node("Add", "one b", "c"),
            node("Mul", "c s", "y"),
        ],
        {"inv": number(0.5**0.5), "one": number(1), "half": number(0.5)},
    ),
    "gelu_tanh": (
        [
            node("Pow", "h three", "p"),
            node("Mul", "p k", "q"),
            node("Add", "h q", "r"),
            node("Mul", "r c", "s"),
            node("Tanh", "s", "t"),
            node("Add", "t one", "u"),
            node("Mul", "h half", "v"),
            node("Mul", "v u", "y"),
        ],
        {
            "three": number(3), "k": number(0.044715), "c": number((2 / np.pi) ** 0.5),
            "one": number(1), "half": number(0.5),
        },
    ),
    "swish": ([node("Sigmoid", "h", "s"), node("Mul", "h s", "y")], {}),
    "mish": (
        [node("Softplus", "h", "p"), node("Tanh", "p", "t"), node("Mul", "h t", "y")],
        {},
    ),
    "hard_swish": (
        [node("HardSigmoid", "h", "s", alpha=1 / 6, beta=0.5), node("Mul", "s h", "y")],
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHAINS)
def test_chain_becomes_one_operator(case, tmp_path):
    nodes, tensors = CHAINS[case]
    first = node("Mul", "x scale", "h")
    found = agree(m.model([first, *nodes], X, {"scale": weights(4), **tensors}), tmp_path)
    assert ops(found) == ["mul", case.split(",")[0]]
    assert not found.graph.with_role(Role.CONSTANT)
    assert any("became one operator each" in note for note in found.report.notes)


def test_a_chain_somebody_else_reads_stays(tmp_path):
    nodes, tensors = CHAINS["gelu"]
    extra = [node("Add", "d y", "z"), node("Neg", "z", "out")]
    proto = m.model([node("Relu", "x", "h"), *nodes, *extra], X, tensors, out="out")
    assert "gelu" not in ops(agree(proto, tmp_path))


def test_a_chain_with_another_number_stays(tmp_path):
    nodes, tensors = CHAINS["gelu"]
    tensors = {**tensors, "half": number(0.501)}
    proto = m.model([node("Relu", "x", "h"), *nodes], X, tensors)
    assert "gelu" not in ops(agree(proto, tmp_path))


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize(
    ("module", "op"),
    [
        (torch.nn.GELU(), "gelu"),
        (torch.nn.GELU(approximate="tanh"), "gelu_tanh"),
        (torch.nn.SiLU(), "swish"),
        (torch.nn.Mish(), "mish"),
        (torch.nn.Hardswish(), "hard_swish"),
        (torch.nn.ReLU6(), "clip"),
        (torch.nn.PReLU(4), "prelu"),
        (torch.nn.Softmax(1), "softmax"),
    ],
)
def test_modules_of_torch(module, op, dynamo, tmp_path):
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), module, torch.nn.Conv2d(4, 2, 1))
    path = tmp_path / "t.onnx"
    path.write_bytes(m.torch_export(net, torch.randn(2, 2, 5, 5), dynamo=dynamo))
    found = agree(onnx.load(path), tmp_path)
    assert ops(found) == ["conv2d", op, "conv2d"]


def test_loading_twice_gives_the_same_graph(tmp_path):
    nodes, tensors = CHAINS["gelu"]
    proto = m.model([node("Relu", "x", "h"), *nodes], X, tensors)
    assert load(proto, tmp_path).graph == load(proto, tmp_path).graph


def test_one_exponent_is_not_trained_and_says_so(tmp_path):
    proto = m.model([node("Pow", "x p", "y")], [2, 3], {"p": np.float32([3])}, y=[2, 3])
    found = load(proto, tmp_path)
    assert found.graph.with_role(Role.PARAMETER) == ()
    assert found.report.notes == ("the exponent 'p' of one element is a number: it is not trained",)
