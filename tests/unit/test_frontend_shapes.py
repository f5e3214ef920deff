"""Views, Softmax of every opset, and the shape arithmetic that exporters leave behind."""

import models as m
import numpy as np
import pytest
from models import agree, load, node, ops, weights
from onnx import TensorProto, helper, numpy_helper

from poet_mcu.errors import ModelError
from poet_mcu.frontend.fold import RULES, fold
from poet_mcu.ir.graph import Role


def ints(*values):
    return np.asarray(values, np.int64)


# --- A4: Softmax ------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [7, 11, 12])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3])
def test_softmax_before_13_flattens(opset, axis, tmp_path):
    attrs = {} if axis is None else {"axis": axis}
    nodes = [node("Relu", "x", "r"), node("Softmax", "r", "y", **attrs)]
    found = agree(m.model(nodes, [1, 2, 3, 4], opset=opset), tmp_path)
    rows = int(np.prod((1, 2, 3, 4)[: 1 if axis is None else axis]))
    assert found.graph.values[found.graph.outputs[0]].shape == (rows, 24 // rows)


@pytest.mark.parametrize("axis", [None, -1, 3])
def test_softmax_since_13_is_the_last_axis(axis, tmp_path):
    attrs = {} if axis is None else {"axis": axis}
    nodes = [node("Relu", "x", "r"), node("Softmax", "r", "y", **attrs)]
    found = agree(m.model(nodes, [1, 2, 3, 4], opset=13), tmp_path)
    assert found.graph.values[found.graph.outputs[0]].shape == (6, 4)
    assert found.report.output_shape == (1, 2, 3, 4)


def test_softmax_before_ones(tmp_path):
    nodes = [node("Relu", "x", "r"), node("Softmax", "r", "y", axis=1)]
    found = agree(m.model(nodes, [2, 3, 1, 1]), tmp_path, truth=_softmax1)
    assert found.has_softmax


def _softmax1(x):
    return np.moveaxis(m.softmax(np.moveaxis(np.maximum(x, 0), 1, -1)), -1, 1)


def test_softmax_over_another_axis_is_computed(tmp_path):
    nodes = [node("Relu", "x", "r"), node("Softmax", "r", "y", "soft", axis=1)]
    found = agree(m.model(nodes, [2, 3, 4]), tmp_path)
    assert ops(found) == ["relu", "softmax"]
    assert not found.has_softmax


def test_softmax_in_the_middle_is_computed(tmp_path):
    nodes = [node("Softmax", "x", "s", "soft"), node("Relu", "s", "y", "after")]
    found = agree(m.model(nodes, [2, 3]), tmp_path)
    assert ops(found) == ["softmax", "relu"]


def test_softmax_through_identity(tmp_path):
    nodes = [node("Relu", "x", "r"), node("Softmax", "r", "s"), node("Identity", "s", "y")]
    assert agree(m.model(nodes, [2, 3]), tmp_path).has_softmax


# --- views ------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1, 2, 4, -1])
def test_flatten(axis, tmp_path):
    attrs = {} if axis is None else {"axis": axis}
    nodes = [node("Flatten", "x", "f", **attrs), node("Relu", "f", "y")]
    agree(m.model(nodes, [2, 3, 1, 4]), tmp_path)


@pytest.mark.parametrize("shape", [(2, 12), (0, -1), (-1, 4), (0, 0, 4), (24,), (1, 2, 3, 4)])
def test_reshape(shape, tmp_path):
    nodes = [node("Reshape", "x s", "v"), node("Relu", "v", "y")]
    agree(m.model(nodes, [2, 3, 4], {"s": ints(*shape)}), tmp_path)


def test_reshape_of_a_view_has_the_root_as_base(tmp_path):
    nodes = [
        node("Relu", "x", "r"),
        node("Reshape", "r s", "v"),
        node("Flatten", "v", "f"),
        node("Relu", "f", "y"),
    ]
    found = agree(m.model(nodes, [2, 3, 4], {"s": ints(4, 3, 2)}), tmp_path)
    root = found.graph.nodes[0].outputs[0]
    assert {v.base for v in found.graph.values if v.base is not None} == {root}


def test_relu_seen_through_a_view_does_not_move(tmp_path):
    nodes = [
        node("Relu", "x", "r"),
        node("Reshape", "r s", "v"),
        node("MaxPool", "v", "y", kernel_shape=[2, 2]),
    ]
    found = agree(m.model(nodes, [1, 2, 4, 2], {"s": ints(1, 1, 4, 4)}), tmp_path)
    assert ops(found) == ["relu", "maxpool2d"]


@pytest.mark.parametrize(
    ("shape", "attrs"), [((5, -1), {}), ((-1, -1), {}), ((0, 24), {"allowzero": 1}), ((-2, 3), {})]
)
def test_reshape_that_does_not_fit(shape, attrs, tmp_path):
    nodes = [node("Reshape", "x s", "v", "re", **attrs), node("Relu", "v", "y")]
    with pytest.raises(ModelError) as error:
        load(m.model(nodes, [2, 3, 4], {"s": ints(*shape)}), tmp_path)
    assert (
        "node 0 're' (Reshape): expected a shape of 24 elements for the input [2, 3, 4], "
        f"got {list(shape)}; if it holds a fixed batch, export it with -1 in that place"
    ) in str(error.value)


def test_reshape_with_a_fixed_batch_names_the_node(tmp_path):
    nodes = [node("Reshape", "x s", "v", "re"), node("Relu", "v", "y")]
    proto = m.model(nodes, ["N", 3, 4], {"s": ints(1, 12)})
    agree(proto, tmp_path, 1)
    with pytest.raises(ModelError, match=r"'re' \(Reshape\).*got \[1, 12\]; if it holds a fixed"):
        load(proto, tmp_path, 2)


def test_computed_reshape_shape_is_refused(tmp_path):
    nodes = [
        node("Relu", "x", "r"),
        node("Cast", "r", "s", "cast", to=TensorProto.INT64),
        node("Reshape", "x s", "y", "re"),
    ]
    with pytest.raises(
        ModelError,
        match=r"node 1 'cast' \(Cast\): expected activations in float32, got Cast to int64",
    ):
        load(m.model(nodes, [2]), tmp_path)
    nodes = [node("Relu", "x", "r"), node("Reshape", "x r", "y", "re")]
    with pytest.raises(ModelError, match="expected the shape as an init"):
        load(m.model(nodes, [2]), tmp_path)


@pytest.mark.parametrize("where", ["attribute", "initializer", "constant"])
@pytest.mark.parametrize("op", ["Squeeze", "Unsqueeze"])
def test_axes_as_attribute_or_input(op, where, tmp_path):
    """A3: axes moved from attribute to input at opset 13."""
    axes, opset, tensors, extra = [1, -1], 13, {}, []
    if where == "attribute":
        middle, opset = node(op, "r", "v", axes=axes), 11
    else:
        middle = node(op, "r axes", "v")
    if where == "initializer":
        tensors = {"axes": ints(*axes)}
    if where == "constant":
        stored = numpy_helper.from_array(ints(*axes), "")
        extra = [helper.make_node("Constant", [], ["axes"], value=stored)]
    nodes = [*extra, node("Relu", "x", "r"), middle, node("Relu", "v", "y")]
    agree(m.model(nodes, [2, 1, 3, 1], tensors, opset=opset), tmp_path)


@pytest.mark.parametrize(
    ("op", "axes", "words"),
    [
        ("Squeeze", (0,), r"expected axes of size 1, got \[0\] of \[2, 1, 3\]"),
        ("Squeeze", (5,), r"expected axes in -3\.\.2, got 5"),
        ("Unsqueeze", (1, 1), r"expected different axes, got \[1, 1\]"),
    ],
)
def test_bad_axes(op, axes, words, tmp_path):
    nodes = [node(op, "x axes", "v", "ax"), node("Relu", "v", "y")]
    with pytest.raises(ModelError, match=words):
        load(m.model(nodes, [2, 1, 3], {"axes": ints(*axes)}), tmp_path)


def test_squeeze_without_axes(tmp_path):
    nodes = [node("Squeeze", "x", "v"), node("Relu", "v", "y")]
    agree(m.model(nodes, [2, 1, 3, 1]), tmp_path)


def test_transpose_of_an_activation(tmp_path):
    nodes = [node("Transpose", "x", "v", "tr", perm=[0, 3, 1, 2]), node("Relu", "v", "y")]
    agree(m.model(nodes, [2, 4, 4, 1]), tmp_path)
    moved = agree(m.model(nodes, [2, 4, 4, 3]), tmp_path)
    assert [item.op for item in moved.graph.nodes] == ["transpose", "relu"]


def test_reshaped_weight_is_still_the_initializer(tmp_path):
    nodes = [node("Reshape", "w s", "v"), node("MatMul", "x v", "y")]
    found = agree(m.model(nodes, [2, 3], {"w": weights(12), "s": ints(3, 4)}), tmp_path)
    assert [v.origin for v in found.graph.values if v.id in found.graph.initial] == ["w"]


def test_weight_in_two_shapes_is_refused_unless_frozen(tmp_path):
    nodes = [
        node("MatMul", "x w", "h"),
        node("Reshape", "w s", "v"),
        node("MatMul", "h v", "y", "again"),
    ]
    proto = m.model(nodes, [2, 6], {"w": weights(6, 3), "s": ints(3, 6)})
    with pytest.raises(
        ModelError,
        match=r"'again' \(MatMul\): expected the trained tensor 'w' in one shape, got \[3, 6\] "
        r"here and \[6, 3\] before; store it twice or freeze it \(--freeze 'w'\)",
    ):
        load(proto, tmp_path)
    agree(proto, tmp_path, trainable=lambda _: False)


@pytest.mark.parametrize("trainable", [m.every, m.frozen])
@pytest.mark.parametrize(
    ("nodes", "x", "tensors"),
    [
        ([node("Mul", "w two", "v"), node("MatMul", "x v", "y")], [2, 3], {"w": (3, 4)}),
        ([node("Slice", "w one two", "v"), node("MatMul", "x v", "y")], [2, 1], {"w": (3, 4)}),
        ([node("Concat", "w u", "v", axis=1), node("Gemm", "x v", "y")], [2, 3],
         {"w": (3, 4), "u": (3, 2)}),
        ([node("Expand", "w s", "v"), node("Add", "x v", "y")], [4, 3], {"w": (1, 3)}),
        ([node("Relu", "w", "v"), node("Conv", "x v", "y")], [1, 2, 4, 4], {"w": (3, 2, 2, 2)}),
        ([node("Transpose", "w", "v", perm=[1, 0, 2]), node("Conv", "x v", "y")], [1, 2, 4],
         {"w": (2, 3, 2)}),
        ([node("Tanh", "w", "v"), node("ConvTranspose", "x v", "y")], [1, 2, 4], {"w": (2, 3, 2)}),
        ([node("Conv", "x x", "y")], [1, 1, 3, 3], {}),
        ([node("Neg", "w", "v"), node("InstanceNormalization", "x u v", "y")], [1, 2, 4],
         {"w": (2,), "u": (2,)}),
    ],
)  # fmt: skip
def test_a_weight_may_be_computed(nodes, x, tensors, trainable, tmp_path):
    """From stored tensors, trained or frozen, or from the input; gradients: test_exporters."""
    stored = {name: weights(*shape, seed=i) for i, (name, shape) in enumerate(tensors.items())}
    extra = {"one": ints(1), "two": ints(2), "s": ints(4, 3)}
    if nodes[0].op_type == "Mul":
        extra["two"] = np.float32([2])
    used = {name for n in nodes for name in n.input}
    proto = m.model(nodes, x, stored | {k: v for k, v in extra.items() if k in used})
    found = agree(proto, tmp_path, trainable=trainable)
    trained = {v.origin for v in found.graph.with_role(Role.PARAMETER)}
    assert trained >= set(tensors) if trainable is m.every else not trained


# --- folding ----------------------------------------------------------------------------------


def test_shape_chain_of_the_exporters(tmp_path):
    """Shape, Gather, Unsqueeze, Concat, Reshape: x.view(x.size(0), -1)."""
    nodes = [
        node("Relu", "x", "r"),
        node("Shape", "r", "shape"),
        node("Gather", "shape zero", "n", axis=0),
        node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "target", axis=0),
        node("Reshape", "r target", "v"),
        node("MatMul", "v w", "y"),
    ]
    tensors = {"zero": np.asarray(0), "axis": ints(0), "rest": ints(-1), "w": weights(12, 2)}
    for batch in (1, 3):
        assert ops(agree(m.model(nodes, ["N", 3, 4], tensors), tmp_path, batch)) == [
            "relu",
            "dense",
        ]


def test_shape_arithmetic(tmp_path):
    """Shape, Slice, ReduceProd, Mul, Div, Cast, Concat."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape one three", "inner"),
        node("ReduceProd", "inner", "count", keepdims=1),
        node("Mul", "count two", "double"),
        node("Div", "double two", "half"),
        node("Cast", "half", "as_int", to=TensorProto.INT32),
        node("Cast", "as_int", "back", to=TensorProto.INT64),
        node("Concat", "minus back", "target", axis=0),
        node("Reshape", "x target", "v"),
        node("Relu", "v", "y"),
    ]
    tensors = {"one": ints(1), "three": ints(3), "two": ints(2), "minus": ints(-1)}
    agree(m.model(nodes, [2, 3, 4], tensors), tmp_path)


def run_fold(op, arrays, opset=17, **attrs):
    names = " ".join(f"i{i}" for i in range(len(arrays))) or "-"
    return fold(node(op, names, "o", **attrs), arrays, opset)


@pytest.mark.parametrize("steps", [(1,), (-1,), (2,)])
@pytest.mark.parametrize(("start", "end"), [(0, 3), (-1, -100), (4, 0), (1, 100)])
def test_fold_slice(steps, start, end):
    data = np.arange(6)
    found = run_fold("Slice", [data, ints(start), ints(end), ints(0), ints(*steps)])
    proto = m.model([node("Slice", "x s e a t", "y")], [6], _slice(start, end, steps))
    expected = m.run_onnx(proto, data.astype(np.float32))
    np.testing.assert_array_equal(found.astype(np.float32), expected)


def _slice(start, end, steps):
    return {"s": ints(start), "e": ints(end), "a": ints(0), "t": ints(*steps)}


def test_fold_old_forms():
    data = np.arange(6).reshape(2, 3)
    old = run_fold("Slice", [data], 9, starts=[1], ends=[3], axes=[1])
    np.testing.assert_array_equal(old, data[:, 1:3])
    np.testing.assert_array_equal(run_fold("Squeeze", [data[None]], 11, axes=[0]), data)
    np.testing.assert_array_equal(run_fold("Unsqueeze", [data], 11, axes=[0]), data[None])
    np.testing.assert_array_equal(run_fold("ReduceProd", [data], 17, axes=[1], keepdims=0), [0, 60])
    np.testing.assert_array_equal(run_fold("ReduceProd", [data, ints(0)], 18), [[0, 4, 10]])


def test_fold_divides_towards_zero():
    a, b = ints(7, -7, 7, -7, 0), ints(2, 2, -2, -2, 5)
    np.testing.assert_array_equal(run_fold("Div", [a, b]), [3, -3, -3, 3, 0])
    np.testing.assert_array_equal(run_fold("Sub", [a, b]), a - b)
    np.testing.assert_array_equal(run_fold("Add", [a, b]), a + b)
    assert run_fold("Div", [np.float32([1]), np.float32([4])]) == 0.25


def test_fold_constant_of_shape():
    fill = numpy_helper.from_array(ints(7), "")
    np.testing.assert_array_equal(run_fold("ConstantOfShape", [ints(2, 1)], value=fill), [[7], [7]])
    assert run_fold("ConstantOfShape", [ints(2)]).dtype == np.float32


@pytest.mark.parametrize(
    ("op", "arrays", "words"),
    [
        ("ConstantOfShape", [ints(2**20, 2**20)], "a result of 1099511627776 elements"),
        ("Div", [ints(1), ints(0)], "an integer division by zero"),
        ("Add", [ints(1), np.float32([1])], "operands of types int64 and float32"),
        ("Gather", [ints(1), ints(5)], "out of bounds"),
        ("Concat", [ints(1), None], "input 1 is missing"),
    ],
)
def test_fold_refuses(op, arrays, words):
    with pytest.raises(ModelError, match=f"expected constants that can be folded, got: .*{words}"):
        run_fold(op, arrays)


def test_every_rule_has_a_schema():
    from onnx import defs  # noqa: PLC0415 - one use

    assert all(defs.has(op) for op in RULES)
