"""Imported graphs, run by the operators' references, give what ONNX Runtime gives."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from poet_mcu.errors import ModelError
from poet_mcu.frontend.onnx_import import check_model, load_model
from poet_mcu.ir.graph import Role
from tests import models as m
from tests.models import node, weights


def load(proto, tmp_path, batch=None, trainable=lambda _: True):
    return load_model(m.save(proto, tmp_path / "m.onnx"), batch, trainable)


def agree(proto, tmp_path, batch=None, trainable=lambda _: True, truth=None):
    """Import, run both, compare within 1e-5; the imported model."""
    found = load(proto, tmp_path, batch, trainable)
    (value,) = found.graph.with_role(Role.INPUT)
    x = weights(*value.shape, seed=99, scale=1.0)
    y = m.run_graph(found.graph, x)[0]
    if found.has_softmax:
        y = m.softmax(y)
    expected = m.run_onnx(proto, x) if truth is None else truth(x)
    assert found.report.output_shape == expected.shape
    np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)
    assert [v.id for v in found.graph.values] == list(range(len(found.graph.values)))
    assert [n.id for n in found.graph.nodes] == list(range(len(found.graph.nodes)))
    assert len({v.name for v in found.graph.values}) == len(found.graph.values)
    return found


def ops(found):
    return [item.op for item in found.graph.nodes]


def frozen(_name):
    return False


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


# --- A1: Gemm ---------------------------------------------------------------------------------

N, K, M = 3, 5, 4
C_SHAPES = {"absent": None, "scalar": (), "[1]": (1,), "[M]": (M,), "[1,M]": (1, M)}


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
    ("alpha", "beta", "trans_b"), itertools.product((1.0, 0.5), (1.0, 2.0), (0, 1))
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


@pytest.mark.parametrize("c", ["scalar", "[1]"])
def test_gemm_trained_broadcast_bias_is_refused(c, tmp_path):
    shape = list(C_SHAPES[c])
    with pytest.raises(ModelError) as error:
        load(gemm(C_SHAPES[c]), tmp_path)
    assert str(error.value).endswith(
        f"m.onnx: node 0 'first' (Gemm): expected the trained tensor 'c' as it is stored, got it "
        f"repeated from {shape} to 4 outputs; fold this into the tensor before export, or freeze "
        "it (--freeze 'c')"
    )


@pytest.mark.parametrize(
    ("attrs", "name", "how"),
    [({"alpha": 0.5}, "w", "scaled by alpha 0.5"), ({"beta": 2.0}, "c", "scaled by beta 2")],
)
def test_gemm_trained_factor_is_refused(attrs, name, how, tmp_path):
    with pytest.raises(ModelError, match=rf"trained tensor '{name}' as it is stored, got it {how}"):
        load(gemm((M,), **attrs), tmp_path)
    agree(gemm((M,), **attrs), tmp_path, trainable=lambda n: n != name)


def test_gemm_bias_per_row_is_refused(tmp_path):
    with pytest.raises(
        ModelError,
        match=r"\(Gemm\): expected a bias of shape \[4\], \[1, 4\] or one element for an output "
        r"of shape \[3, 4\], got 'c' of shape \[3, 1\]; a bias per row of the batch is not",
    ):
        load(gemm((N, 1)), tmp_path)


def test_gemm_trans_a(tmp_path):
    with pytest.raises(
        ModelError,
        match=r"node 0 'first' \(Gemm\): expected transA=0, got 1 with A of shape \[5, 3\]; "
        r"transpose before export",
    ):
        load(gemm((M,), transA=1), tmp_path)
    agree(gemm((M,), transA=1, batch=1), tmp_path)


def test_gemm_with_computed_c(tmp_path):
    tensors = {"w": weights(K, K)}
    proto = m.model([node("Gemm", "x w x", "y", "g")], [N, K], tensors)
    assert ops(agree(proto, tmp_path)) == ["dense", "add"]
    proto = m.model([node("Gemm", "x w x", "y", "g", beta=2.0)], [N, K], tensors)
    with pytest.raises(ModelError, match="expected beta=1 with a computed C, got 2"):
        load(proto, tmp_path)


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


def test_bias_of_a_product_with_two_readers_is_refused(tmp_path):
    nodes = [node("MatMul", "x w", "h"), node("Add", "h b", "s", "bias"), node("Add", "h s", "y")]
    proto = m.model(nodes, [N, K], {"w": weights(K, M), "b": weights(M)})
    with pytest.raises(
        ModelError,
        match=r"node 1 'bias' \(Add\): expected two operands of one shape, got 'h' \[3, 4\] and "
        r"'b' \[4\]; only the bias of a Conv, Gemm or MatMul may broadcast",
    ):
        load(proto, tmp_path)


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


# --- A5, A9: windows --------------------------------------------------------------------------


def conv(size, kernel, group=1, opset=17, bias=True, **attrs):
    tensors = {"w": weights(4, 4 // group, *kernel)}
    names = "x w b" if bias else "x w"
    tensors |= {"b": weights(4)} if bias else {}
    nodes = [node("Conv", names, "y", "conv", group=group, **attrs)]
    return m.model(nodes, [2, 4, *size], tensors, opset=opset)


@pytest.mark.parametrize("mode", ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 2), (4, 4), (2, 3)])
@pytest.mark.parametrize("stride", [1, 2])
def test_conv_auto_pad(mode, kernel, stride, tmp_path):
    agree(conv((5, 6), kernel, auto_pad=mode, strides=[stride, stride]), tmp_path)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_conv_auto_pad_with_dilation(mode, tmp_path):
    """Padding of the widened kernel; explicit pads are the truth."""
    proto = conv((7, 7), (3, 3), auto_pad=mode, dilations=[2, 2])
    explicit = conv((7, 7), (3, 3), pads=[2, 2, 2, 2], dilations=[2, 2])
    agree(proto, tmp_path, truth=lambda x: m.run_onnx(explicit, x))


@pytest.mark.parametrize(
    "attrs",
    [
        {"pads": [1, 0, 2, 3]},
        {"strides": [2, 3], "pads": [1, 1, 1, 1]},
        {"dilations": [2, 1]},
        {"group": 2},
        {"group": 4},
        {"bias": False},
        {"kernel_shape": [3, 2]},
    ],
)
def test_conv_attributes(attrs, tmp_path):
    agree(conv((8, 7), (3, 2), **attrs), tmp_path)


def pool(size, kernel, opset=17, **attrs):
    nodes = [node("MaxPool", "x", "y", "pool", kernel_shape=list(kernel), **attrs)]
    return m.model(nodes, [2, 3, *size], opset=opset)


@pytest.mark.parametrize("mode", ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (3, 2)])
@pytest.mark.parametrize("stride", [1, 2])
def test_max_pool_auto_pad(mode, kernel, stride, tmp_path):
    agree(pool((5, 6), kernel, auto_pad=mode, strides=[stride, stride]), tmp_path)


@pytest.mark.parametrize(
    "attrs",
    [
        {"strides": [2, 2], "ceil_mode": 0},
        {"strides": [2, 2], "ceil_mode": 1},
        {"strides": [3, 2], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
        {"pads": [0, 1, 1, 0]},
        {"dilations": [2, 2]},
        {"strides": [2, 1], "dilations": [1, 2]},
        {"storage_order": 1},
    ],
)
def test_max_pool_attributes(attrs, tmp_path):
    # Since opset 22 a window may not begin in the trailing padding; ONNX Runtime always said so.
    agree(pool((5, 5), (2, 2), opset=22, **attrs), tmp_path)


def test_max_pool_valid_with_ceil_mode_is_refused(tmp_path):
    with pytest.raises(
        ModelError,
        match=r"node 0 'pool' \(MaxPool\): expected ceil_mode=0 with auto_pad=VALID, got 1, which "
        r"runtimes read differently; export with explicit pads",
    ):
        load(pool((5, 5), (2, 2), auto_pad="VALID", strides=[2, 2], ceil_mode=1), tmp_path)


def test_relu_moves_behind_max_pool_only_when_alone(tmp_path):
    def with_relu(*tail):
        nodes = [node("Relu", "x", "r"), *tail]
        return agree(m.model(nodes, [1, 2, 4, 4]), tmp_path)

    shape = {"kernel_shape": [2, 2], "strides": [2, 2]}
    once = with_relu(node("MaxPool", "r", "y", **shape))
    assert ops(once) == ["maxpool2d", "relu"]
    assert any("1 Relu moved behind MaxPool" in note for note in once.report.notes)
    twice = with_relu(node("MaxPool", "r", "p", **shape), node("MaxPool", "p", "y", **shape))
    assert ops(twice) == ["maxpool2d", "maxpool2d", "relu"]
    dropped = with_relu(node("Dropout", "r", "d"), node("MaxPool", "d", "y", **shape))
    assert ops(dropped) == ["maxpool2d", "relu"]
    shared = with_relu(
        node("MaxPool", "r", "p", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), node("Add", "p r", "y")
    )
    assert ops(shared) == ["relu", "maxpool2d", "add"]


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
    found = agree(m.model(nodes, [N, K], {w: weights(K, M)}), tmp_path)
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


@pytest.mark.parametrize("opset", [7, 10, 12, 13, 22])
def test_dropout_in_evaluation_mode(opset, tmp_path):
    if opset < 12:
        tail, tensors = node("Dropout", "r", "y mask", ratio=0.5), {}
    else:
        tail = node("Dropout", "r ratio mode", "y mask")
        tensors = {"ratio": np.float32(0.5), "mode": np.bool_(0)}
    nodes = [node("Relu", "x", "r"), tail]
    tensors = {k: np.asarray(v) for k, v in tensors.items()}
    proto = m.model(nodes, [2, 3], tensors, opset=opset)
    assert ops(agree(proto, tmp_path)) == ["relu"]


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
    onnx.save_model(
        proto, path, save_as_external_data=True, location="big.data", size_threshold=0
    )
    found = load_model(path, None, lambda _: True)
    assert (tmp_path / "big.data").stat().st_size > 0
    for i, array in expected.graph.initial.items():
        np.testing.assert_array_equal(found.graph.initial[i], array)
    before = found.report.sha256
    data = bytearray((tmp_path / "big.data").read_bytes())
    data[0] ^= 1
    (tmp_path / "big.data").write_bytes(bytes(data))
    assert load_model(path, None, lambda _: True).report.sha256 != before
