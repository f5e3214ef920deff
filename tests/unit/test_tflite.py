"""Reading .tflite: operator by operator against the interpreter, refusals, damage."""

from __future__ import annotations

import sys

import eco
import lite_files as lf
import models
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lite_files import Op, T

from poet_mcu.errors import InternalError, ModelError, PoetError, ToolMissing
from poet_mcu.frontend.onnx_import import check_model, load_model
from poet_mcu.frontend.tflite_file import read_tflite
from poet_mcu.frontend.tflite_import import _RULES

#: exp, log and pow of TensorFlow's kernels differ from numpy's by some ulp
LIMIT = 1e-5
OPS = sorted({key.partition("/")[0] for key in eco.results("ops")})
ROWS = (1, 3, 4)


def written(tmp_path, data):
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    return path


def refusal(path):
    with pytest.raises(ModelError) as error:
        load_model(path, None, lambda _: True)
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def used_rules(path):
    return {op.name for op in read_tflite(path, path.read_bytes()).ops}


# --- operator by operator -------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPS)
def test_operator_gives_the_interpreters_output(name, tmp_path):
    """One sample as in the file, and three at once."""
    stored = eco.results("ops")
    path = written(tmp_path, stored[f"{name}/model"].tobytes())
    assert check_model(path) == []
    for batch in (1, 3):
        found = load_model(path, batch, lambda _: True)
        wanted = stored[f"{name}/y"][:batch]
        assert found.report.output_shape == wanted.shape
        assert eco.relative(eco.forward(found, stored[f"{name}/x"][:batch]), wanted) <= LIMIT


def one(op, options=None, data=None, y=ROWS, kind="float32"):
    """x [1, 3, 4] through one operator with an optional second operand."""
    tensors = [T("x", ROWS), T("y", y, kind)]
    if data is not None:
        tensors.append(T("w", data.shape, str(data.dtype), data))
    return lf.made(tensors, [Op(op, [0, *range(2, len(tensors))], [1], options)], [0], [1])


def behind(op, extra, rest):
    """Other operators around one that does not give floats."""
    return lf.made([T("x", ROWS), T("y", ROWS), *extra], [op, *rest], [0], [1])


SLOPE = np.float32([0.5, -0.25, 2, 0.1])
MADE = {
    "PRELU": one("PRELU", data=SLOPE.reshape(1, 4)),
    "RELU6": one("RELU6"),
    "RELU_N1_TO_1": one("RELU_N1_TO_1"),
    "SQUEEZE": lf.made(
        [T("x", (1, 3, 4)), T("m", (1, 3, 1, 4)), T("z", (1, 3, 4)), T("y", (1, 3, 4)),
         T("axis", (), "int32", np.int32(2))],
        [Op("EXPAND_DIMS", [0, 4], [1], ("ExpandDimsOptions", {})),
         Op("SQUEEZE", [1], [2], ("SqueezeOptions", {})), Op("RELU", [2], [3])],
        [0], [3],
    ),
    "EQUAL": behind(
        Op("EQUAL", [0, 2], [3]),
        [T("w", (4,), data=SLOPE), T("m", ROWS, "bool"), T("v", ROWS, data=models.weights(*ROWS))],
        [Op("SELECT_V2", [3, 0, 4], [1])],
    ),
    "LESS_EQUAL": behind(
        Op("LESS_EQUAL", [0, 2], [3]),
        [T("w", (4,), data=SLOPE), T("m", ROWS, "bool"), T("v", ROWS, data=models.weights(*ROWS))],
        [Op("SELECT_V2", [3, 0, 4], [1])],
    ),
    "CAST": lf.made(
        [T("x", ROWS), T("c", ROWS), T("y", ROWS)],
        [Op("CAST", [0], [1]), Op("RELU", [1], [2])],
        [0],
        [2],
    ),
    "fused activations": lf.made(
        [T("x", ROWS), T("a", ROWS), T("b", ROWS), T("c", ROWS), T("w", (4,), data=SLOPE)],
        [Op("ADD", [0, 4], [1], ("AddOptions", {"FusedActivationFunction": 2})),
         Op("MUL", [1, 4], [2], ("MulOptions", {"FusedActivationFunction": 3})),
         Op("SUB", [4, 2], [3], ("SubOptions", {"FusedActivationFunction": 1}))],
        [0], [3],
    ),
    "FULLY_CONNECTED of rows": lf.made(
        [T("x", ROWS), T("w", (2, 4), data=models.weights(2, 4)), T("b", (2,),
         data=models.weights(2)), T("y", (1, 3, 2))],
        [Op("FULLY_CONNECTED", [0, 1, 2], [3],
            ("FullyConnectedOptions", {"KeepNumDims": True, "FusedActivationFunction": 3}))],
        [0], [3],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_operator_the_converter_does_not_write(name, tmp_path):
    path = written(tmp_path, MADE[name])
    x = models.weights(*ROWS, seed=3, scale=3.0)
    x[0, 0] = SLOPE
    found = load_model(path, None, lambda _: True)
    assert eco.relative(eco.forward(found, x), lf.interpreted(MADE[name], x)) <= LIMIT


def test_every_rule_is_tested(tmp_path):
    seen = set()
    for name in OPS:
        seen |= used_rules(written(tmp_path, eco.results("ops")[f"{name}/model"].tobytes()))
    for data in (*MADE.values(), QUANTIZED, EMBEDDING):
        seen |= used_rules(written(tmp_path, data))
    for path in eco.FOLDER.glob("*.tflite"):
        seen |= used_rules(path)
    assert sorted(set(_RULES) - seen) == []


EMBEDDING = lf.made(
    [T("ids", (3,), "int32"), T("table", (5, 4), data=models.weights(5, 4)), T("y", (3, 4))],
    [Op("EMBEDDING_LOOKUP", [0, 1], [2])],
    [0],
    [2],
)


def test_embedding(tmp_path):
    ids = np.int32([4, 0, 2])
    found = load_model(written(tmp_path, EMBEDDING), None, lambda _: True)
    y = models.run_graph(found.graph, ids)[0]
    assert np.array_equal(y, lf.interpreted(EMBEDDING, ids))


# --- quantized ------------------------------------------------------------------------------------

_ROWS_OF = np.int8([[10, -20, 30, 127], [-128, 5, 0, 1]])
QUANTIZED = lf.made(
    [
        T("x", (1, 4)),
        T("q", (1, 4), "int8", scale=[0.05], zero=[3]),
        T("w", (2, 4), "int8", _ROWS_OF, [0.01, 0.02], [0, 0]),
        T("b", (2,), "int32", np.int32([100, -2_000_000_003]), [0.0005, 0.001], [0, 0]),
        T("h", (1, 2), "int8", scale=[8000.0], zero=[-5]),
        T("y", (1, 2)),
    ],
    [
        Op("QUANTIZE", [0], [1]),
        Op("FULLY_CONNECTED", [1, 2, 3], [4], ("FullyConnectedOptions", {})),
        Op("DEQUANTIZE", [4], [5]),
    ],
    [0],
    [5],
)


def test_stored_integers_stand_for_real_numbers(tmp_path):
    """A scale for each row of the weight; a bias too large for float32 is rounded once."""
    found = load_model(written(tmp_path, QUANTIZED), None, lambda _: True)
    initial = {v.origin: found.graph.initial[v.id] for v in found.graph.values if v.origin and
               v.id in found.graph.initial}  # fmt: skip
    scale = np.float32([0.01, 0.02]).astype(np.float64)[:, None]
    assert np.array_equal(initial["w"], (scale * _ROWS_OF).astype(np.float32))
    bias = np.float32([0.0005, 0.001]).astype(np.float64) * [100, -2_000_000_003]
    assert np.array_equal(initial["b"], bias.astype(np.float32))
    x = np.float32([[1, -1, 0.5, 2]])
    y = models.run_graph(found.graph, x)[0]
    assert eco.relative(y, x @ initial["w"].T + initial["b"]) <= LIMIT
    assert found.report.notes == (
        "2 quantized tensors were dequantized: training is in float32",
        (
            "the quantization of 2 activations is left out: "
            "outputs differ from the int8 model's by its rounding"
        ),
    )


def test_scale_along_another_axis_with_zero_points(tmp_path):
    w = np.int8([[1, 2, 3], [4, 5, 6]])
    data = lf.made(
        [T("x", (1, 3)), T("y", (2, 3)), T("w", w.shape, "int8", w, [1, 2, 4], [1, 0, -1], 1)],
        [Op("ADD", [0, 2], [1], ("AddOptions", {}))],
        [0],
        [1],
    )
    found = load_model(written(tmp_path, data), None, lambda _: True)
    y = models.run_graph(found.graph, np.zeros((1, 3), np.float32))[0]
    assert np.array_equal(y, [[0, 4, 16], [3, 10, 28]])


# --- the batch ------------------------------------------------------------------------------------


def test_a_batch_that_an_operator_mixes_stays_as_it_is(tmp_path):
    axes = T("axes", (1,), "int32", np.int32([0]))
    data = lf.made(
        [T("x", ROWS), T("m", ROWS), T("y", ROWS), axes],
        [Op("MEAN", [0, 3], [1], ("ReducerOptions", {"KeepDims": True})),
         Op("ADD", [0, 1], [2], ("AddOptions", {}))],
        [0], [2],
    )  # fmt: skip
    path = written(tmp_path, data)
    found = load_model(path, None, lambda _: True)
    assert found.report.output_shape == ROWS
    assert found.report.notes[0] == (
        "the batch stays as in the file: MEAN 'm' does not keep samples apart"
    )
    with pytest.raises(ModelError, match="expected the batch 1 that the model fixes, got --batch"):
        load_model(path, 4, lambda _: True)


# --- refusals -------------------------------------------------------------------------------------


def test_every_unsupported_operator_is_named(tmp_path):
    data = lf.made(
        [T("x", ROWS), T("a", ROWS), T("b", ROWS), T("c", ROWS), T("y", ROWS)],
        [
            Op("SIN", [0], [1]),
            Op("CUSTOM", [1], [2], custom="FlexErf"),
            Op("RELU", [2], [3]),
            Op("UNIDIRECTIONAL_SEQUENCE_LSTM", [3], [4]),
        ],
        [0],
        [4],
    )
    path = written(tmp_path, data)
    problems = check_model(path)
    assert [(p.node, p.op) for p in problems] == [
        ("node 0 -> 'a'", "SIN"),
        ("node 1 -> 'b'", "custom 'FlexErf'"),
        ("node 3 -> 'y'", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    ]
    assert problems[0].message.startswith(
        "expected a supported operator, got SIN; replace it before conversion; supported are ABS,"
    )
    assert problems[1].message.endswith("; convert without SELECT_TF_OPS")
    assert problems[2].message.endswith("; convert the Keras model to ONNX with tf2onnx instead")
    assert refusal(path).startswith("expected a supported model, got 3 problems; change these")


KERNEL = T("w", (2, 4), data=models.weights(2, 4))
REFUSED = {
    "version": (
        lf.made([T("x", ROWS), T("y", ROWS)], [Op("RELU", [0], [1])], [0], [1], version=2),
        "expected schema version 3, got 2; convert again",
    ),
    "subgraphs": (
        lf.made([T("x", ROWS), T("y", ROWS)], [Op("RELU", [0], [1])], [0], [1], subgraphs=2),
        "expected one subgraph, got 2; convert without control flow",
    ),
    "variable": (
        lf.made([T("x", ROWS), T("y", ROWS, variable=True)], [Op("RELU", [0], [1])], [0], [1]),
        "tensor 'y': expected a dense tensor without state, got a variable; convert without them",
    ),
    "shuffled": (
        lf.made(
            [T("x", (1, 4)), KERNEL, T("y", (1, 2))],
            [Op("FULLY_CONNECTED", [0, 1, -1], [2],
                ("FullyConnectedOptions", {"WeightsFormat": 1}))],
            [0], [2],
        ),
        ("node 0 -> 'y' (FULLY_CONNECTED): expected weights in default order, got them shuffled; "
        "convert again"),
    ),
    "sign bit": (
        one("ADD", ("AddOptions", {"FusedActivationFunction": 5}), SLOPE),
        "node 0 -> 'y' (ADD): expected Relu or Relu6 as fused activation, got 5",
    ),
    "cast": (
        one("CAST", kind="int32"),
        ("node 0 -> 'y' (CAST): expected a cast between real numbers or between integers, got "
        "FLOAT32 to INT32; replace it before conversion"),
    ),
    "no such operand": (
        lf.made([T("x", ROWS), T("y", ROWS)], [Op("ADD", [0, 7], [1])], [0], [1]),
        ("expected a TensorFlow Lite file, got a damaged or truncated one (ADD reads a tensor that "
        "nothing made); copy or convert it again"),
    ),
    "no output": (
        lf.made([T("x", ROWS), T("y", ROWS)], [Op("RELU", [0], [1])], [0], []),
        "expected an input and an output, got none; convert again",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case, tmp_path):
    data, words = REFUSED[case]
    assert refusal(written(tmp_path, data)) == words


def test_one_kernel_in_two_layouts(tmp_path):
    k = models.weights(1, 2, 2, 3)
    data = lf.made(
        [T("x", (1, 4, 4, 3)), T("k", k.shape, data=k), T("a", (1, 3, 3, 3)), T("y", (1, 3, 3, 3)),
         T("b", (1, 3, 3, 1))],
        [Op("CONV_2D", [0, 1, -1], [4], ("Conv2DOptions",
            {"Padding": 1, "StrideW": 1, "StrideH": 1})),
         Op("DEPTHWISE_CONV_2D", [0, 1, -1], [2], ("DepthwiseConv2DOptions",
            {"Padding": 1, "StrideW": 1, "StrideH": 1, "DepthMultiplier": 1})),
         Op("ADD", [2, 4], [3], ("AddOptions", {}))],
        [0], [3],
    )  # fmt: skip
    assert refusal(written(tmp_path, data)) == (
        "node 1 -> 'a' (DEPTHWISE_CONV_2D): expected 'k' to be read in one layout, got it as OIHW "
        "and as CIHW; store it twice"
    )


def test_the_package_is_named_where_it_is_missing(tmp_path, monkeypatch):
    path = written(tmp_path, MADE["RELU6"])
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(ToolMissing) as error:
        load_model(path, None, lambda _: True)
    assert str(error.value) == (
        f"{path}: expected the Python package 'tflite' to read a TensorFlow Lite file, got none; "
        "install poet-mcu[tflite]"
    )


# --- damage ---------------------------------------------------------------------------------------


def outcome(path):
    """The refusal, or '' when it loads; PoetError is the only exception that may come out."""
    try:
        load_model(path, None, lambda _: True)
    except PoetError as error:
        return sound(path, error)
    return ""


def sound(path, error):
    assert str(error).startswith(f"{path}: ")
    assert "expected" in str(error)
    assert not isinstance(error, InternalError)
    return str(error)


def sample():
    return (eco.FOLDER / "mlp_int8.tflite").read_bytes()


def test_truncated_anywhere(tmp_path):
    data = sample()
    lengths = [*range(64), *range(64, len(data), 53)]
    loaded = [n for n in lengths if not outcome(written(tmp_path, data[:n]))]
    # A flatbuffer grows downwards: what is cut off at the end is weights' bytes or a name.
    assert not [n for n in loaded if n < len(data) // 2]


@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_random_damage(tmp_path, data):
    content = bytearray(sample())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(8, len(content) - 1))
        patch = data.draw(
            st.one_of(st.binary(min_size=1, max_size=4), st.just(b"\xff\xff\xff\x7f"))
        )
        content[at : at + len(patch)] = patch
    outcome(written(tmp_path, bytes(content)))  # it asserts
