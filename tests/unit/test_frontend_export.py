"""Trained weights go back under their names and shapes; the new model computes with them."""

import models as m
import numpy as np
import onnx
import pytest
from models import node, weights
from onnx import helper, numpy_helper

from poet_mcu.errors import InternalError, ModelError
from poet_mcu.frontend.export import save_with_weights
from poet_mcu.frontend.onnx_import import load_model
from poet_mcu.ir.graph import Role


def round_trip(proto, tmp_path):
    """Change every parameter, write the model, compare it with the changed graph."""
    source, target = m.save(proto, tmp_path / "m.onnx"), tmp_path / "trained.onnx"
    found = load_model(source, None, m.every)
    graph = found.graph
    changed = {v.origin: weights(*v.shape, seed=50 + v.id) for v in graph.with_role(Role.PARAMETER)}
    save_with_weights(source, changed, target)
    initial = {i: changed.get(graph.values[i].origin, array) for i, array in graph.initial.items()}
    (value,) = graph.with_role(Role.INPUT)
    x = weights(*value.shape, seed=3, scale=1.0)
    object.__setattr__(graph, "initial", initial)
    expected = m.run_graph(graph, x)[0]
    np.testing.assert_allclose(m.run_onnx(target, x), expected, rtol=1e-5, atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "trained.onnx"]
    again = load_model(target, None, m.every)
    assert set(again.report.weights) == set(found.report.weights)
    assert again.report.identity_copies == {}
    return onnx.load(target)


@pytest.mark.parametrize("ir", [3, 8])
def test_whole_model(ir, tmp_path):
    proto = m.cnn(2)
    if ir == 3:
        for tensor in proto.graph.initializer:
            proto.graph.input.append(m.info(tensor.name, list(tensor.dims)))
    proto.ir_version = ir
    made = round_trip(proto, tmp_path)
    assert [n.op_type for n in made.graph.node] == [n.op_type for n in proto.graph.node]


@pytest.mark.parametrize("ir", [3, 8])
def test_identity_copies_become_initializers(ir, tmp_path):
    nodes = [
        node("Identity", "w", "w2"),
        node("Identity", "w2", "w3"),
        node("MatMul", "x w", "h"),
        node("MatMul", "h w2", "i"),
        node("MatMul", "i w3", "y"),
    ]
    proto = m.model(nodes, [2, 3], {"w": weights(3, 3)}, y=[2, 3], ir=ir)
    if ir == 3:
        proto.graph.input.append(m.info("w", [3, 3]))
    made = round_trip(proto, tmp_path)
    assert [t.name for t in made.graph.initializer] == ["w", "w2", "w3"]
    assert [n.op_type for n in made.graph.node] == ["MatMul"] * 3


@pytest.mark.parametrize("stored", ["initializer", "constant", "copy"])
def test_shapes_in_the_file_are_kept(stored, tmp_path):
    bias = weights(4, 1, 1)
    first, tensors = [], {"w": weights(4, 2, 3, 3)}
    if stored == "constant":
        value = numpy_helper.from_array(bias, "")
        first = [helper.make_node("Constant", [], ["b"], value=value)]
    elif stored == "copy":
        first, tensors["a"] = [node("Identity", "a", "b")], bias
    else:
        tensors["b"] = bias
    nodes = [*first, node("Conv", "x w", "h"), node("Add", "h b", "y")]
    made = round_trip(m.model(nodes, [1, 2, 4, 4], tensors), tmp_path)
    assert {t.name: list(t.dims) for t in made.graph.initializer}["b"] == [4, 1, 1]


def test_floats_of_a_constant(tmp_path):
    nodes = [
        helper.make_node("Constant", [], ["b"], value_floats=[1.0, 2.0, 3.0]),
        node("Gemm", "x w b", "y"),
    ]
    made = round_trip(m.model(nodes, [1, 2], {"w": weights(2, 3)}), tmp_path)
    assert {t.name for t in made.graph.initializer} == {"w", "b"}


def test_names_that_are_no_weights(tmp_path):
    source = m.save(m.mlp(), tmp_path / "m.onnx")
    for name in ("ghost", "h1"):
        with pytest.raises(InternalError, match=rf"m\.onnx: weight '{name}' is not in the model"):
            save_with_weights(source, {name: weights(1)}, tmp_path / "t.onnx")
    assert not (tmp_path / "t.onnx").exists()
    source.write_bytes(b"text")
    with pytest.raises(ModelError, match="got text that begins with"):
        save_with_weights(source, {}, tmp_path / "t.onnx")
