"""Imported graphs, run by the operators' references, give what ONNX Runtime gives."""

import models as m
import numpy as np
import onnx
import pytest
from models import agree, load, node, ops, weights
from onnx import TensorProto

from poet_mcu.frontend.onnx_import import check_model, load_model
from poet_mcu.ir.graph import Role

# --- whole models -----------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("make", [m.mlp, m.cnn, m.residual])
def test_whole_models(make, batch, tmp_path):
    agree(make("N"), tmp_path, batch)
    agree(make(batch), tmp_path)


def test_final_softmax_is_left_to_the_loss(tmp_path):
    found = agree(m.cnn(2, softmax=True), tmp_path)
    assert found.has_softmax
    assert ops(found)[-1] == "dense"
    assert any("Softmax 'softmax' is left to the loss" in note for note in found.report.notes)


def test_roles_and_origins(tmp_path):
    found = load(m.mlp(2), tmp_path, trainable=lambda name: name.startswith("fc2"))
    roles = {v.origin: v.role for v in found.graph.values if v.origin and v.id in _initial(found)}
    assert roles == {
        "fc1.weight": Role.CONSTANT,
        "fc1.bias": Role.CONSTANT,
        "fc2.weight": Role.PARAMETER,
        "fc2.bias": Role.PARAMETER,
    }
    (x,) = found.graph.with_role(Role.INPUT)
    assert (x.name, x.origin, x.shape) == ("x", "x", (2, 6))
    assert [n.origin for n in found.graph.nodes] == ["fc1", "relu1", "fc2"]


def _initial(found):
    return set(found.graph.initial)


def test_report(tmp_path):
    proto = m.mlp(1)
    proto.producer_name, proto.producer_version = "maker", "1.2"
    report = load(proto, tmp_path).report
    assert (report.input_name, report.output_name, report.output_shape) == ("x", "y", (1, 4))
    assert (report.opset, report.ir_version, report.producer) == (17, 8, "maker 1.2")
    assert report.weights == ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
    assert len(report.sha256) == 64


# --- A10, A11, A12, A17, A20 ------------------------------------------------------------------


@pytest.mark.parametrize("ir", [3, 8])
def test_initializers_listed_as_inputs_are_not_inputs(ir, tmp_path):
    proto = m.mlp(1)
    for tensor in proto.graph.initializer:
        proto.graph.input.append(m.info(tensor.name, list(tensor.dims)))
    proto.ir_version = ir
    found = agree(proto, tmp_path)
    assert len(found.graph.with_role(Role.INPUT)) == 1
    assert len(found.graph.with_role(Role.PARAMETER)) == 4


@pytest.mark.parametrize(
    "names",
    [
        ("int", "main"),
        ("1x", "2x"),
        ("a/b", "a_b"),
        ("a:b", "a.b"),
        ("x*/y", "a\nb"),
        ("n" * 300, "n" * 299 + "m"),
        ("schicht_\u00e4\u00f6", "\u5c64"),
        ("value", "value_1"),
    ],
)
def test_names_are_kept(names, tmp_path):
    w, h = names
    nodes = [node("MatMul", "x w", "h"), node("Relu", "h", "y")]
    nodes[0].input[1], nodes[0].output[0], nodes[1].input[0] = w, h, h
    found = agree(m.model(nodes, [3, 5], {w: weights(5, 4)}), tmp_path)
    assert [v.origin for v in found.graph.with_role(Role.PARAMETER)] == [w]
    assert h in {v.name for v in found.graph.values}


def test_name_of_a_view_that_is_taken_is_made_unique(tmp_path):
    nodes = [node("Softmax", "x", "y", name="")]
    nodes.insert(0, node("Relu", "x", "y_logits", name=""))
    nodes[1].input[0] = "y_logits"
    found = agree(m.model(nodes, [2, 2, 3], opset=11), tmp_path)
    assert found.graph.nodes[0].origin == "y_logits"


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 14, 18, 19, 21, 22, 23, 24, 25, 26])
def test_opsets(opset, tmp_path):
    proto = m.cnn(2)
    proto.opset_import[0].version = opset
    proto.ir_version = 8 if opset < 20 else 10
    found = load(proto, tmp_path)
    x = weights(2, 2, 8, 8, seed=1)
    expected = m.run_onnx(m.cnn(2), x)
    np.testing.assert_allclose(m.run_graph(found.graph, x)[0], expected, rtol=1e-5, atol=1e-5)


def test_identity_chains_and_unused_outputs(tmp_path):
    nodes = [
        node("Identity", "x", "a"),
        node("Identity", "a", "b"),
        node("Relu", "b", "r"),
        node("Sigmoid", "b", "unused", "dead"),
        node("Identity", "r", "y"),
    ]
    found = agree(m.model(nodes, [2, 3]), tmp_path)
    assert ops(found) == ["relu"]
    assert found.report.notes == ("1 nodes do not reach the output: left out node 3 'dead'",)
    assert check_model(tmp_path / "m.onnx") == []


def test_cast_to_float_is_nothing(tmp_path):
    nodes = [node("Cast", "x", "c", to=TensorProto.FLOAT), node("Relu", "c", "y")]
    assert ops(agree(m.model(nodes, [2, 3]), tmp_path)) == ["relu"]


def test_external_data_beside_the_model(tmp_path):
    proto, path = m.mlp(2), tmp_path / "big.onnx"
    expected = load(m.mlp(2), tmp_path)
    onnx.save_model(proto, path, save_as_external_data=True, location="big.data", size_threshold=0)
    found = load_model(path, None, lambda _: True)
    assert (tmp_path / "big.data").stat().st_size > 0
    for i, array in expected.graph.initial.items():
        np.testing.assert_array_equal(found.graph.initial[i], array)
    before = found.report.sha256
    data = bytearray((tmp_path / "big.data").read_bytes())
    data[0] ^= 1
    (tmp_path / "big.data").write_bytes(bytes(data))
    assert load_model(path, None, lambda _: True).report.sha256 != before
