"""Convolution and pooling of any geometry agree with ONNX Runtime, or are refused by both."""

import models as m
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models import agree, load, node, ops, weights

from poet_mcu.errors import ModelError
from poet_mcu.frontend.onnx_import import load_model

relaxed = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
modes = st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])


def no_output(error):
    assert "onnxruntime" in f"{type(error).__module__}{error}".lower()


def sound(error):
    assert "node 0" in str(error)
    assert ": expected " in str(error)


def by_runtime(proto, x):
    """ONNX Runtime's output, or None when it refuses the model."""
    try:
        return m.run_onnx(proto, x)
    except Exception as error:  # noqa: BLE001 - its classes differ by version
        return no_output(error)


def compare(proto, tmp_path, size):
    x = weights(2, 4, *size, seed=7, scale=1.0)
    try:
        found = load_model(m.save(proto, tmp_path / "m.onnx"), None, lambda _: True)
    except ModelError as error:
        sound(error)
        return
    y = m.run_graph(found.graph, x)[0]
    expected = by_runtime(proto, x)
    if expected is not None:
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def attributes(draw, mode):
    attrs = {"auto_pad": mode, "strides": draw(pairs), "dilations": draw(pairs)}
    if mode == "NOTSET":
        attrs["pads"] = draw(st.lists(st.integers(0, 2), min_size=4, max_size=4))
    return attrs


@relaxed
@given(data=st.data())
def test_conv_geometry(tmp_path, data):
    size = data.draw(st.tuples(st.integers(3, 9), st.integers(3, 9)))
    kernel, mode = data.draw(pairs), data.draw(modes)
    group = data.draw(st.sampled_from([1, 2, 4]))
    attrs = attributes(data.draw, mode)
    tensors = {"w": weights(4, 4 // group, *kernel), "b": weights(4)}
    nodes = [node("Conv", "x w b", "y", group=group, **attrs)]
    compare(m.model(nodes, [2, 4, *size], tensors, y=list("abcd")), tmp_path, size)


@relaxed
@given(data=st.data())
def test_pool_geometry(tmp_path, data):
    size = data.draw(st.tuples(st.integers(3, 9), st.integers(3, 9)))
    kernel, mode = data.draw(pairs), data.draw(modes)
    attrs = attributes(data.draw, mode)
    attrs |= {"kernel_shape": kernel, "ceil_mode": data.draw(st.integers(0, 1))}
    nodes = [node("MaxPool", "x", "y", **attrs)]
    compare(m.model(nodes, [2, 4, *size], y=list("abcd"), opset=22), tmp_path, size)


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


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_max_pool_same_with_dilation_is_refused(mode, tmp_path):
    with pytest.raises(
        ModelError,
        match=rf"node 0 'pool' \(MaxPool\): expected dilations \[1, 1\] with auto_pad={mode}, got "
        r"\[2, 1\], which runtimes read differently; export with explicit pads",
    ):
        load(pool((5, 5), (2, 2), auto_pad=mode, dilations=[2, 1]), tmp_path)


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
