"""Gemm, MatMul and Add in every form become dense layers that give ONNX Runtime's outputs."""

import itertools

import models as m
import pytest
from models import agree, frozen, load, node, ops, weights
from onnx import helper, numpy_helper

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Role

# --- A1: Gemm ---------------------------------------------------------------------------------

N, K, M = 3, 5, 4
C_SHAPES = {
    "absent": None, "scalar": (), "[1]": (1,), "[1,1]": (1, 1), "[M]": (M,), "[1,M]": (1, M),
    "[N,1]": (N, 1), "[N,M]": (N, M),
}  # fmt: skip


def gemm(c_shape, batch=N, **attrs):
    w = (M, K) if attrs.get("transB") else (K, M)
    tensors = {"w": weights(*w), "w2": weights(M, 2, seed=2)}
    names = "x w"
    if c_shape is not None:
        tensors["c"] = weights(*c_shape, seed=3)
        names += " c"
    nodes = [node("Gemm", names, "h", "first", **attrs), node("Relu", "h", "r")]
    nodes.append(node("Gemm", "r w2", "y", "second"))
    x = [K, batch] if attrs.get("transA") else [batch, K]
    return m.model(nodes, x, tensors)


@pytest.mark.parametrize("c", C_SHAPES)
@pytest.mark.parametrize(
    ("alpha", "beta", "trans_b"), list(itertools.product((1.0, 0.5), (1.0, 2.0), (0, 1)))
)
def test_gemm_frozen_takes_every_form(c, alpha, beta, trans_b, tmp_path):
    proto = gemm(C_SHAPES[c], alpha=alpha, beta=beta, transB=trans_b)
    agree(proto, tmp_path, trainable=frozen)


@pytest.mark.parametrize("c", ["absent", "[M]", "[1,M]"])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm_trained_weights_are_the_initializers(c, trans_b, tmp_path):
    proto = gemm(C_SHAPES[c], transB=trans_b)
    found = agree(proto, tmp_path)
    stored = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    for value in found.graph.with_role(Role.PARAMETER):
        initial = found.graph.initial[value.id]
        assert initial.tobytes() == stored[value.origin].tobytes()
    bias = [v.shape for v in found.graph.values if v.origin == "c"]
    assert bias == ([] if c == "absent" else [(M,)])


def test_one_frozen_tensor_changed_in_two_ways(tmp_path):
    """Scaled and repeated for the first layer, only repeated for the second."""
    nodes = [node("Gemm", "x w c", "h", beta=0.5), node("Gemm", "h w c", "y", alpha=0.25)]
    proto = m.model(nodes, [N, K], {"w": weights(K, K), "c": weights(1)})
    found = agree(proto, tmp_path, trainable=frozen)
    assert [v.name for v in found.graph.with_role(Role.CONSTANT)] == ["w", "c", "w_2", "c_2"]


def test_gemm_trans_a(tmp_path):
    assert ops(agree(gemm((M,), transA=1, batch=1), tmp_path)).count("transpose") == 0


def test_gemm_with_computed_c(tmp_path):
    tensors = {"w": weights(K, K)}
    proto = m.model([node("Gemm", "x w x", "y", "g")], [N, K], tensors)
    assert ops(agree(proto, tmp_path)) == ["dense", "add"]
    proto = m.model([node("Gemm", "x w x", "y", "g", beta=2.0)], [N, K], tensors)
    assert ops(agree(proto, tmp_path)) == ["dense", "scale", "add"]


def test_gemm_c_that_does_not_repeat(tmp_path):
    with pytest.raises(ModelError, match=r"expected a C that repeats to \[3, 4\], got 'c'"):
        load(gemm((2, M)), tmp_path)


# --- MatMul and Add ---------------------------------------------------------------------------


@pytest.mark.parametrize("b", [(M,), (1, M)])
@pytest.mark.parametrize("swap", [False, True])
def test_matmul_add_is_dense_with_bias(b, swap, tmp_path):
    names = "b h" if swap else "h b"
    nodes = [node("MatMul", "x w", "h"), node("Add", names, "y")]
    proto = m.model(nodes, [N, K], {"w": weights(K, M), "b": weights(*b)})
    assert ops(agree(proto, tmp_path)) == ["dense"]


@pytest.mark.parametrize("b", [(), (1,), (1, 1)])
def test_matmul_add_of_one_element(b, tmp_path):
    nodes = [node("MatMul", "x w", "h"), node("Add", "h b", "y")]
    proto = m.model(nodes, [N, K], {"w": weights(K, M), "b": weights(*b)})
    assert ops(agree(proto, tmp_path, trainable=lambda n: n == "w")) == ["dense"]


def test_transposed_weight_stays_the_initializer(tmp_path):
    """A15: the dynamo exporter's Transpose, MatMul, Add; the parameter is the initializer."""
    nodes = [
        node("Transpose", "w", "wt", perm=[1, 0]),
        node("MatMul", "x wt", "h"),
        node("Add", "h b", "y"),
    ]
    proto = m.model(nodes, [N, K], {"w": weights(M, K), "b": weights(M)})
    found = agree(proto, tmp_path)
    (item,) = found.graph.nodes
    assert item.attrs["w_rows_are_outputs"] == 1
    assert found.graph.values[item.inputs[1]].shape == (M, K)
    nodes[1] = node("Gemm", "x wt", "h", transB=1)
    square = m.model(nodes, [N, M], {"w": weights(M, M), "b": weights(M)})
    assert agree(square, tmp_path).graph.nodes[0].attrs["w_rows_are_outputs"] == 0


def test_twice_transposed_weight(tmp_path):
    nodes = [node("Transpose", "w", "t"), node("Transpose", "t", "u"), node("MatMul", "x u", "y")]
    found = agree(m.model(nodes, [N, K], {"w": weights(K, M)}), tmp_path)
    assert found.graph.nodes[0].attrs["w_rows_are_outputs"] == 0


def test_matmul_on_rows_of_three_dimensions(tmp_path):
    nodes = [node("MatMul", "x w", "h"), node("Add", "h b", "y")]
    proto = m.model(nodes, [2, N, K], {"w": weights(K, M), "b": weights(M)})
    assert ops(agree(proto, tmp_path)) == ["dense"]


def test_bias_of_a_product_with_two_readers_is_added(tmp_path):
    nodes = [node("MatMul", "x w", "h"), node("Add", "h b", "s", "bias"), node("Add", "h s", "y")]
    proto = m.model(nodes, [N, K], {"w": weights(K, M), "b": weights(M)})
    assert ops(agree(proto, tmp_path)) == ["dense", "add", "add"]


@pytest.mark.parametrize("b", [(3, 1, 1), (1, 3, 1, 1)])
def test_conv_add_is_conv_with_bias(b, tmp_path):
    nodes = [node("Conv", "x w", "h"), node("Add", "h b", "y")]
    proto = m.model(nodes, [2, 2, 5, 5], {"w": weights(3, 2, 3, 3), "b": weights(*b)})
    assert ops(agree(proto, tmp_path)) == ["conv2d"]


def test_add_of_activations_and_of_a_stored_tensor(tmp_path):
    nodes = [
        node("Relu", "x", "r"),
        node("Add", "x r", "s"),
        node("Add", "s s", "d"),
        node("Add", "t d", "y"),
    ]
    found = agree(m.model(nodes, [2, 3], {"t": weights(2, 3)}), tmp_path)
    assert ops(found) == ["relu", "add", "add", "add"]
    assert found.report.weights == ("t",)


def test_product_then_add_of_a_full_tensor(tmp_path):
    nodes = [node("MatMul", "x w", "h"), node("Add", "h t", "y")]
    proto = m.model(nodes, [N, K], {"w": weights(K, M), "t": weights(N, M)})
    assert ops(agree(proto, tmp_path)) == ["dense", "add"]


def test_a_tied_weight_is_one_parameter(tmp_path):
    nodes = [node("MatMul", "x w", "h"), node("Relu", "h", "r"), node("MatMul", "r w", "y")]
    found = agree(m.model(nodes, [N, K], {"w": weights(K, K)}), tmp_path)
    assert len(found.graph.with_role(Role.PARAMETER)) == 1


def test_identity_copies_are_parameters_of_their_own(tmp_path):
    nodes = [
        node("Identity", "w", "w_copy"),
        node("MatMul", "x w", "h"),
        node("Relu", "h", "r"),
        node("MatMul", "r w_copy", "y"),
    ]
    found = agree(m.model(nodes, [N, K], {"w": weights(K, K)}), tmp_path)
    origins = [v.origin for v in found.graph.with_role(Role.PARAMETER)]
    assert origins == ["w", "w_copy"]
    assert found.report.identity_copies == {"w_copy": "w"}
    assert found.report.weights == ("w", "w_copy")


def test_constant_nodes_as_weights(tmp_path):
    stored = numpy_helper.from_array(weights(K, M), "")
    nodes = [helper.make_node("Constant", [], ["w"], value=stored), node("MatMul", "x w", "y")]
    found = agree(m.model(nodes, [N, K]), tmp_path)
    assert [v.origin for v in found.graph.with_role(Role.PARAMETER)] == ["w"]
