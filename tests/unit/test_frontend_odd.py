"""Odd models: strange numbers, every opset, unused tensors, functions, other floats."""

from __future__ import annotations

import eco
import models as m
import numpy as np
import onnx
import pytest
from models import node, refusal, weights
from onnx import TensorProto, helper, numpy_helper

from poet_mcu.frontend.export import save_with_weights
from poet_mcu.frontend.onnx_import import load_model, weight_names

NEWEST = onnx.defs.onnx_opset_version()


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("train", [True, False])
def test_numbers_that_are_none_are_refused(bad, train, tmp_path):
    w = weights(3, 2)
    w[1, 1] = w[2, 0] = bad
    proto = m.model([node("Gemm", "x w", "y", transB=1)], [1, 2], {"w": w})
    path = m.save(proto, tmp_path / "m.onnx")
    with pytest.raises(m.ModelError) as error:
        load_model(path, None, lambda _: train)
    assert str(error.value).removeprefix(f"{path}: ") == (
        "node 0 'gemm_y' (Gemm): expected finite numbers in tensor 'w', got 2 NaN or infinite "
        "elements; repair or retrain the model"
    )


@pytest.mark.parametrize(
    "tensor",
    [
        helper.make_tensor("w", TensorProto.FLOAT, [2, 2], [0.0, -0.0, 1e-45, -3e-39]),
        helper.make_tensor("w", TensorProto.FLOAT, [2, 2], [3.4e38, -3.4e38, 1.0, 1e-38]),
        helper.make_tensor(
            "w", TensorProto.FLOAT, [2, 2], np.float32([1, 2, 3, 4]).tobytes(), raw=True
        ),
    ],
    ids=["zeros and subnormals", "largest", "raw"],
)
def test_odd_numbers_arrive_to_the_bit_and_go_back(tensor, tmp_path):
    proto = m.model([node("MatMul", "x w", "y")], [1, 2], {"w": weights(2, 2)})
    proto.graph.initializer[0].CopyFrom(tensor)
    found = m.load(proto, tmp_path)
    (w,) = [v for v in found.graph.values if v.origin == "w"]
    stored = numpy_helper.to_array(tensor)
    assert found.graph.initial[w.id].tobytes() == stored.tobytes()
    target = tmp_path / "trained.onnx"
    save_with_weights(tmp_path / "m.onnx", {"w": stored}, target)
    again = numpy_helper.to_array(onnx.load(target).graph.initializer[0])
    assert again.tobytes() == stored.tobytes()


def test_nan_in_a_tensor_that_nobody_reads(tmp_path):
    w, lost = weights(2, 3), np.float32([np.nan])
    proto = m.model([node("MatMul", "x w", "y")], [1, 2], {"w": w, "lost": lost})
    m.agree(proto, tmp_path)
    assert weight_names(tmp_path / "m.onnx").every == ("w",)


# --- opsets ---------------------------------------------------------------------------------------


def network(opset):
    """Operators whose form changes: Clip, Pad, Reshape, Squeeze, ReduceSum, Softmax, Dropout."""
    i = {"pads": [0, 0, 1, 1, 0, 0, 1, 1], "flat": [2, -1], "axes": [2], "last": [1]}
    tensors = {name: np.asarray(v, np.int64) for name, v in i.items()}
    tensors |= {"lo": np.float32(0), "hi": np.float32(0.75)}
    tensors |= {"k": weights(3, 2, 3, 3), "w": weights(27, 5), "b": weights(5)}
    tensors |= {"s": weights(3, seed=1), "t": weights(3, seed=2), "mean": weights(3, seed=3)}
    tensors |= {"var": np.float32([0.5, 1, 2])}
    clip, pad, squeeze, total = (
        (node("Clip", "n", "c", min=0.0, max=0.75), node("Clip", "n lo hi", "c")),
        (node("Pad", "x", "p", pads=i["pads"]), node("Pad", "x pads", "p")),
        (node("Squeeze", "u", "q", axes=[2]), node("Squeeze", "u axes", "q")),
        (node("ReduceSum", "e", "z", axes=[1]), node("ReduceSum", "e last", "z")),
    )
    nodes = [
        pad[opset >= 11],
        node("Conv", "p k", "a"),
        node("BatchNormalization", "a s t mean var", "n"),
        clip[opset >= 11],
        node("MaxPool", "c", "m", kernel_shape=[2, 2], strides=[1, 1]),
        node("Reshape", "m flat", "f"),
        node("Dropout", "f", "d"),
        node("Gemm", "d w b", "g"),
        node("Unsqueeze", "g", "u", axes=[2]) if opset < 13 else node("Unsqueeze", "g axes", "u"),
        squeeze[opset >= 13],
        node("Softmax", "q", "e", axis=1),
        total[opset >= 13],
        node("Sub", "e z", "y"),
    ]
    return m.model(nodes, [2, 2, 4, 4], tensors, y=[2, 5], opset=opset, ir=3 if opset < 9 else 8)


@pytest.mark.parametrize("opset", range(7, NEWEST + 1))
def test_every_opset_from_seven_on(opset, tmp_path):
    """One network in the form of each opset, trained and frozen, against ONNX Runtime in 17."""
    proto = network(opset)
    if opset < 9:  # before IR 4 every tensor is an input as well
        proto.graph.input.extend(
            m.info(t.name, t.dims, t.data_type) for t in proto.graph.initializer
        )
    path = m.save(proto, tmp_path / "m.onnx")
    x = weights(2, 2, 4, 4, seed=8, scale=1.0)
    # Dropout of opsets below 12 has no mode of its own: here the model is one for evaluation.
    for train in (True, False):
        found = load_model(path, None, lambda _, t=train: t, batchnorm="frozen", dropout="off")
        y = m.run_graph(found.graph, x)[0]
        assert eco.relative(y, m.run_onnx(network(17), x)) <= 1e-5


# --- tensors that are listed oddly ----------------------------------------------------------------


def test_tensors_that_are_inputs_too_or_unused(tmp_path):
    proto = m.mlp()
    proto.graph.input.extend(m.info(t.name, t.dims) for t in proto.graph.initializer)
    proto.graph.initializer.append(numpy_helper.from_array(weights(4), "unused"))
    found = m.agree(proto, tmp_path)
    assert "unused" not in found.report.weights
    save_with_weights(tmp_path / "m.onnx", {"fc1.bias": np.zeros(8)}, tmp_path / "t.onnx")
    kept = {t.name for t in onnx.load(tmp_path / "t.onnx").graph.initializer}
    assert "unused" in kept


def test_a_tensor_twice_is_refused(tmp_path):
    proto = m.mlp()
    proto.graph.initializer.append(proto.graph.initializer[0])
    assert refusal(proto, tmp_path).startswith("expected a valid model, got: ")


def test_sparse_tensors_are_refused(tmp_path):
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    indices = helper.make_tensor("w_at", TensorProto.INT64, [2], [1, 4])
    sparse = helper.make_sparse_tensor(values, indices, [2, 3])
    proto = m.model([node("MatMul", "x w", "y")], [1, 2], y=[1, 3])
    proto.graph.sparse_initializer.append(sparse)
    assert "model: expected dense initializers, got sparse; store them dense" in refusal(
        proto, tmp_path
    )
    constant = helper.make_node("Constant", [], ["w"], sparse_value=sparse)
    proto = m.model([constant, node("MatMul", "x w", "y")], [1, 2], y=[1, 3])
    assert refusal(proto, tmp_path).startswith(
        "node 0 -> 'w' (Constant): expected a dense constant of numbers, got another; store it"
    )


# --- other floats ---------------------------------------------------------------------------------

OTHER = [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.INT8]


@pytest.mark.parametrize("kind", OTHER, ids=TensorProto.DataType.Name)
def test_weights_of_another_type_behind_a_cast(kind, tmp_path):
    """Frozen they are the numbers they stand for; trained they cannot be written back."""
    tensor = helper.make_tensor("w", kind, [2, 3], [1.0, -2.0, 3.0, 0.0, 5.0, -6.0])
    nodes = [
        node("Cast", "w", "wide", to=TensorProto.FLOAT),
        node("MatMul", "x wide", "h"),
        node("Add", "h b", "y"),
    ]
    proto = m.model(nodes, [1, 2], {"b": weights(3)}, y=[1, 3], opset=19, ir=9)
    proto.graph.initializer.append(tensor)
    path = m.save(proto, tmp_path / "m.onnx")
    found = load_model(path, None, lambda name: name == "b")
    x = np.float32([[1, 2]])
    wanted = x @ np.float32([[1, -2, 3], [0, 5, -6]]) + weights(3)
    assert eco.relative(m.run_graph(found.graph, x)[0], wanted) <= 1e-5
    if kind in (TensorProto.FLOAT16, TensorProto.DOUBLE):
        assert refusal(proto, tmp_path) == (
            "node 1 'matmul_h' (MatMul): expected the trained tensor 'w' as it is stored, got it "
            "changed by Cast; fold this into the tensor before export, or freeze it (--freeze 'w')"
        )


@pytest.mark.parametrize("kind", ["float16", "float64"])
def test_a_model_in_another_float_is_refused(kind, tmp_path):
    elem = TensorProto.FLOAT16 if kind == "float16" else TensorProto.DOUBLE
    graph = helper.make_graph(
        [node("MatMul", "x w", "y")],
        "g",
        [m.info("x", [1, 2], elem)],
        [m.info("y", [1, 3], elem)],
        [numpy_helper.from_array(weights(2, 3).astype(kind), "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    text = refusal(proto, tmp_path)
    name = "float16" if kind == "float16" else "double"
    assert f"input 'x': expected float32 (or integers for an embedding), got {name};" in text


# --- functions ------------------------------------------------------------------------------------


def function(name, inputs, outputs, nodes, attributes=(), opset=17):
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, inputs, outputs, nodes, imports, list(attributes))


def attribute_of(item, name, kind):
    """``item``'s attribute ``name`` is the function's of the same name."""
    made = onnx.AttributeProto(name=name, ref_attr_name=name, type=kind)
    item.attribute.append(made)
    return item


def test_functions_in_functions_with_attributes_and_weights(tmp_path):
    leaky = attribute_of(node("LeakyRelu", "a", "b"), "alpha", onnx.AttributeProto.FLOAT)
    inner = function("Inner", ["a"], ["b"], [leaky], ["alpha"])
    call = helper.make_node("Inner", ["h"], ["z"], domain="local", alpha=0.3)
    outer = function("Layer", ["x", "w", "b"], ["z"], [node("Gemm", "x w b", "h"), call])
    nodes = [
        helper.make_node("Layer", ["x", "w1", "b1"], ["h1"], "first", domain="local"),
        helper.make_node("Layer", ["h1", "w2", "b2"], ["y"], "second", domain="local"),
    ]
    tensors = {"w1": weights(4, 5), "b1": weights(5), "w2": weights(5, 3), "b2": weights(3)}
    proto = m.model(nodes, [2, 4], tensors, y=[2, 3])
    proto.opset_import.append(helper.make_opsetid("local", 1))
    proto.functions.extend([inner, outer])
    found = m.load(proto, tmp_path)
    assert m.ops(found) == ["dense", "leaky_relu"] * 2
    x = weights(2, 4, seed=7)
    assert eco.relative(m.run_graph(found.graph, x)[0], m.run_onnx(proto, x)) <= 1e-5
    assert found.report.weights == ("w1", "b1", "w2", "b2")
    save_with_weights(tmp_path / "m.onnx", {"b2": np.zeros(3)}, tmp_path / "t.onnx")
    y = m.run_onnx(tmp_path / "t.onnx", x)
    assert y.shape == (2, 3)


def test_a_function_that_is_not_there(tmp_path):
    call = helper.make_node("Missing", ["x"], ["y"], "lost", domain="local")
    proto = m.model([call], [1, 3], y=[1, 3])
    proto.opset_import.append(helper.make_opsetid("local", 1))
    assert refusal(proto, tmp_path) == (
        "node 0 'lost' (local.Missing): expected an operator of domain 'ai.onnx', got domain "
        "'local'; export without custom operators or contrib fusions"
    )


def test_a_function_that_calls_itself_is_refused(tmp_path):
    again = helper.make_node("Loop", ["a"], ["b"], domain="local")
    proto = m.model([helper.make_node("Loop", ["x"], ["y"], domain="local")], [1, 3], y=[1, 3])
    proto.opset_import.append(helper.make_opsetid("local", 1))
    proto.functions.append(function("Loop", ["a"], ["b"], [again]))
    assert refusal(proto, tmp_path).startswith(
        ("functions: expected local functions that can be inlined", "expected a valid model")
    )
