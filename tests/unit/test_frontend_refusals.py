"""Operators in a form that is refused, and the choice of what to train."""

import models as m
import numpy as np
import pytest
from models import node, refusal, weights
from onnx import helper, numpy_helper

from poet_mcu.errors import InputError, ModelError
from poet_mcu.frontend.onnx_import import load_model, weight_names
from poet_mcu.frontend.select import selector

# --- operators --------------------------------------------------------------------------------


def window(op="Conv", x=(1, 2, 5, 5), w=(3, 2, 3, 3), **attrs):
    if op == "MaxPool":
        return m.model([node(op, "x", "y", "n", **attrs)], x, y=["u"] * len(x))
    return m.model([node(op, "x w", "y", "n", **attrs)], x, {"w": weights(*w)}, y=["u"] * len(x))


@pytest.mark.parametrize(
    ("proto", "words"),
    [
        (
            window(x=(1, 2, 5, 5, 5), w=(3, 2, 3, 3, 3)),
            (
                "(Conv): expected 1-D or 2-D Conv on [N, C, L] or [N, C, H, W], got an input of "
                "shape [1, 2, 5, 5, 5]; reshape before export"
            ),
        ),
        (
            window("MaxPool", x=(1, 2, 5), kernel_shape=[2], pads=[1, 0, 0]),
            "(MaxPool): expected two pads of 0..32767, got [1, 0, 0]; ",
        ),
        (
            window(pads=[1, 1, -1, 0]),
            (
                "(Conv): expected four pads of 0..32767, got [1, 1, -1, 0]; "
                "crop with a smaller input instead of negative pads"
            ),
        ),
        (window(strides=[0, 1]), "(Conv): expected two strides of 1..32767, got [0, 1]"),
        (window(dilations=[1]), "(Conv): expected two dilations of 1..32767, got [1]"),
        (window(group=0), "(Conv): expected group 1..32767, got 0"),
        (window(group=2), "(Conv): expected 4 input channels for w (3, 2, 3, 3), got 2"),
        (
            window(kernel_shape=[2, 2]),
            "(Conv): expected kernel_shape [3, 3] as in 'w', got [2, 2]",
        ),
        (
            window(auto_pad="SAME"),
            (
                "(Conv): expected auto_pad NOTSET, VALID, SAME_UPPER or SAME_LOWER, got SAME; "
                "export with explicit pads"
            ),
        ),
        (window(x=(1, 2, 2, 2)), "(Conv): expected a kernel that fits the padded input, got w "),
        (
            window("MaxPool", kernel_shape=[1, 300], x=(1, 1, 2, 400)),
            "(MaxPool): expected a window of at most 255 elements, got (1, 300)",
        ),
    ],
)
def test_window_refusals(proto, words, tmp_path):
    assert f"node 0 'n' {words}" in refusal(proto, tmp_path)


def test_max_pool_indices(tmp_path):
    proto = m.model([node("MaxPool", "x", "y i", "n", kernel_shape=[2, 2])], [1, 1, 4, 4])
    assert refusal(proto, tmp_path) == (
        "node 0 'n' (MaxPool): expected MaxPool with one output, got Indices 'i'; "
        "export without return_indices"
    )


@pytest.mark.parametrize(
    ("names", "x", "words"),
    [
        ("x v", (2, 3, 2), "expected as many columns as rows, got [2, 3, 2] and [2, 3, 3]; "),
        ("x v", (3, 3, 3), "expected shapes that broadcast, got [3] and [2]; export again"),
    ],
)
def test_matmul_refusals(names, x, words, tmp_path):
    tensors = {"w": weights(3, 3), "v": weights(2, 3, 3)}
    proto = m.model([node("MatMul", names, "y", "n")], x, tensors, y=list("abc"))
    assert refusal(proto, tmp_path).startswith(f"node 0 'n' (MatMul): {words}")


def test_add_of_shapes_that_do_not_broadcast(tmp_path):
    nodes = [node("Relu", "x", "r"), node("Add", "r b", "y", "n")]
    proto = m.model(nodes, [2, 3, 4, 4], {"b": weights(3, 1, 3)}, y=[2, 3, 4, 4])
    assert refusal(proto, tmp_path) == (
        "node 1 'n' (Add): expected shapes that broadcast against each other, got [2, 3, 4, 4] "
        "and [3, 1, 3]"
    )


def test_relu_of_a_constant(tmp_path):
    """A constant node of a single number is no weight, see ``lower_constant``."""
    value = numpy_helper.from_array(np.float32([2]))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=value),
        node("Relu", "c", "r", "n"),
        node("Add", "x r", "y"),
    ]
    assert refusal(m.model(nodes, [1, 3]), tmp_path) == (
        "node 1 'n' (Relu): expected a value that depends on the input or a weight, got the "
        "constant 'c'; fold it before export"
    )


@pytest.mark.parametrize(("value", "count"), [(np.nan, 1), (np.inf, 2)])
def test_weights_that_are_not_finite(value, count, tmp_path):
    w = weights(3, 2)
    w.ravel()[:count] = value
    proto = m.model([node("MatMul", "x w", "y", "n")], [1, 3], {"w": w})
    assert refusal(proto, tmp_path) == (
        f"node 0 'n' (MatMul): expected finite numbers in tensor 'w', got {count} NaN or infinite "
        "elements; repair or retrain the model"
    )


@pytest.mark.parametrize("kind", ["float16", "float64"])
def test_weights_of_another_type(kind, tmp_path):
    proto = m.model([node("MatMul", "x w", "y", "n")], [1, 3], {"w": weights(3, 2).astype(kind)})
    assert refusal(proto, tmp_path) == (
        f"node 0 'n' (MatMul): expected float32 in tensor 'w', got {kind}; "
        "convert the model to float32 before export"
    )


def test_empty_weight(tmp_path):
    proto = m.model([node("MatMul", "x w", "y", "n")], [1, 3], {"w": weights(3, 0)}, y=[1, 0])
    assert "expected elements in tensor 'w', got shape [3, 0]" in refusal(proto, tmp_path)


def test_sparse_initializer(tmp_path):
    proto = m.model([node("Relu", "x", "y", "r")], [1, 3])
    values = numpy_helper.from_array(np.float32([1]), "sp")
    index = numpy_helper.from_array(np.int64([0]), "sp_i")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, index, [3]))
    assert "model: expected dense initializers, got sparse; store them dense" in refusal(
        proto, tmp_path
    )


def test_types_that_do_not_fit(tmp_path):
    proto = m.model([node("Reshape", "x x", "y", "n")], [1, 3], y=[1, 3])
    assert "expected" in refusal(proto, tmp_path)
    assert "(Reshape): expected the shape as an initializer or constant" in refusal(proto, tmp_path)


# --- B7: selection ----------------------------------------------------------------------------

NAMES = ["conv1.weight", "conv1.bias", "fc.weight", "a[0].w"]


def test_selector():
    assert selector([], [], NAMES) == frozenset(NAMES)
    assert selector(["*.weight"], [], NAMES) == {"conv1.weight", "fc.weight"}
    assert selector([], ["conv1.*"], NAMES) == {"fc.weight", "a[0].w"}
    assert selector(["conv1.*", "fc.*"], ["*.bias"], NAMES) == {"conv1.weight", "fc.weight"}
    assert selector(["a[0].w"], [], NAMES) == {"a[0].w"}
    assert selector(["*"], ["*"], NAMES) == frozenset()


def test_misspelt_pattern_names_the_nearest():
    with pytest.raises(InputError) as error:
        selector([], ["conv1.wieght"], NAMES)
    assert str(error.value) == (
        "--freeze 'conv1.wieght': expected a pattern that matches a weight, got no match; "
        "did you mean 'conv1.weight' or 'fc.weight' or 'conv1.bias'?"
    )
    with pytest.raises(InputError, match=r"--train 'zzz'.*; the weights are 'conv1\.weight', "):
        selector(["zzz"], [], NAMES)
    with pytest.raises(InputError, match="no match; the model has none"):
        selector(["*"], [], [])
    with pytest.raises(InputError, match=r"'n7' and 2 more$"):
        selector(["zzz"], [], [f"n{i}" for i in range(10)])


def test_weight_names_are_float_weights_only(tmp_path):
    """B5: shapes and other integers are never trainable."""
    nodes = [node("Reshape", "x s", "v"), node("Gemm", "v w b", "y")]
    tensors = {"s": np.asarray([1, 6], np.int64), "w": weights(6, 2), "b": weights(2)}
    path = m.save(m.model(nodes, ["N", 2, 3], tensors), tmp_path / "m.onnx")
    assert weight_names(path).every == ("w", "b")
    with pytest.raises(ModelError, match="expected a supported operator, got Acos"):
        weight_names(m.save(m.model([node("Acos", "x", "y")], [1]), path))


NUMBERS = [
    node("Gemm", "x w b", "h", transB=1),
    node("Mul", "h scale", "m"),
    node("PRelu", "m slope", "p"),
    node("Add", "p offset", "y"),
]
NUMBER_TENSORS = {
    "w": weights(3, 2),
    "b": weights(3),
    "scale": weights(1),
    "slope": weights(1, seed=1),
    "offset": weights(1, 1, seed=2),
}


def test_numbers_of_a_formula_are_trained_by_name_only(tmp_path):
    """Exporters write 1 / sqrt(d) and the 3 of a hard sigmoid with axes, like a learned factor."""
    path = m.save(m.model(NUMBERS, [2, 2], NUMBER_TENSORS), tmp_path / "m.onnx")
    names = weight_names(path)
    assert names.every == ("w", "b", "scale", "slope", "offset")
    assert names.numbers == {"scale", "offset"}
    assert selector([], [], names.every, names.numbers) == {"w", "b", "slope"}
    assert selector(["scale", "w"], [], names.every, names.numbers) == {"scale", "w"}
    assert selector([], ["w"], names.every, names.numbers) == {"b", "slope"}
    # y = a x + b has nothing else to train.
    assert selector([], [], ["scale"], frozenset({"scale"})) == {"scale"}
    chosen = selector([], [], names.every, names.numbers)
    notes = load_model(path, None, chosen.__contains__).report.notes
    assert "2 numbers in formulas stay as they are: 'offset', 'scale'" in notes


def test_a_weight_read_twice_is_said_to_be_one(tmp_path):
    nodes = [node("Add", "x b", "h"), node("Relu", "h", "r"), node("Add", "r b", "y")]
    path = m.save(m.model(nodes, [2, 3], {"b": weights(3)}), tmp_path / "m.onnx")
    (note,) = load_model(path, None, m.every).report.notes
    assert note.startswith("1 weights are read by several operators, each is trained as one: 'b';")
    assert load_model(path, None, m.frozen).report.notes == ()
