"""Files that are no models, damaged ones, and external data that must not leave the folder."""

import json

import models as m
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models import node, weights
from onnx import TensorProto, helper

from poet_mcu.errors import InternalError, ModelError, PoetError
from poet_mcu.frontend.onnx_import import check_model, load_model


def refusal(path):
    with pytest.raises(ModelError) as error:
        load_model(path, 1, lambda _: True)
    return str(error.value).removeprefix(f"{path}: ")


def written(tmp_path, data):
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    return path


# --- not a model ------------------------------------------------------------------------------


def test_missing_directory_empty(tmp_path):
    assert refusal(tmp_path / "no.onnx") == (
        "expected an ONNX file, got no such file; check the path"
    )
    assert refusal(tmp_path) == "expected an ONNX file, got a directory; name the .onnx file"
    assert refusal(written(tmp_path, b"")) == (
        "expected an ONNX file, got an empty file; export it again"
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            b"import torch\nmodel = 1\n",
            "text that begins with 'import torch\\nmodel ='; give the binary .onnx file",
        ),
        (json.dumps({"a": 1}).encode(), "text that begins with '{\"a\": 1}'; give the binary"),
        (b"PK\x03\x04rest", "a zip archive (PyTorch or Keras); export it to ONNX first"),
        (b"\x89HDF\r\n", "an HDF5 file (Keras); convert it with tf2onnx first"),
        (b"\x1c\0\0\0ORTM", "an ONNX Runtime .ort file; give the .onnx file it was made from"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "a Git LFS pointer; run 'git lfs pull' first",
        ),
        (bytes(range(200, 256)), "a damaged or truncated file; copy or export it again"),
    ],
)
def test_foreign_files(data, words, tmp_path):
    assert refusal(written(tmp_path, data)).startswith(f"expected an ONNX file, got {words}")


def test_another_protobuf(tmp_path):
    data = helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, 2.0]).SerializeToString()
    assert refusal(written(tmp_path, data)).startswith("expected an ONNX")
    assert refusal(written(tmp_path, m.mlp().graph.SerializeToString())).startswith("expected an")
    empty = onnx.ModelProto(ir_version=8).SerializeToString()
    assert refusal(written(tmp_path, empty)) == (
        "expected an ONNX model, got another protobuf (no graph or no IR version); "
        "export the model again"
    )


def test_unreadable_file(tmp_path, monkeypatch):
    path = written(tmp_path, b"x")

    def refuse(_self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "read_bytes", refuse)
    assert refusal(path) == "expected a readable file, got: Permission denied"


def test_versions(tmp_path):
    proto = m.mlp()
    proto.ir_version = onnx.IR_VERSION + 1
    assert refusal(m.save(proto, tmp_path / "m.onnx")) == (
        f"ir_version: expected at most {onnx.IR_VERSION}, got {onnx.IR_VERSION + 1}; "
        "upgrade the onnx package or export with an older one"
    )
    proto = m.mlp()
    del proto.opset_import[:]
    assert refusal(m.save(proto, tmp_path / "m.onnx")) == (
        "opset_import: expected one opset of domain 'ai.onnx', got 0; export the model again"
    )


def test_invalid_graph(tmp_path):
    proto = m.model([node("Relu", "ghost", "y")], [1, 3], y=[1, 3])
    text = refusal(m.save(proto, tmp_path / "m.onnx"))
    assert text.startswith("expected a valid model, got: Nodes in a graph must be topologically")
    assert text.endswith("; export the model again")


def test_damaged_initializer(tmp_path):
    proto = m.mlp()
    proto.graph.initializer[0].raw_data = b"1234"
    assert refusal(m.save(proto, tmp_path / "m.onnx")).startswith("expected a valid model, got: ")


def test_name_with_nul(tmp_path):
    proto = m.model([node("Relu", "x", "y", "a\0b")], [1, 3])
    assert refusal(m.save(proto, tmp_path / "m.onnx")) == (
        r"name: expected a name without NUL, got 'a\x00b'; rename it"
    )


def test_name_that_is_not_text(tmp_path):
    data = m.model([node("Relu", "x", "y", "QQQQ")], [1, 3]).SerializeToString()
    assert refusal(written(tmp_path, data.replace(b"QQQQ", b"\xff\xfe\xfd\xfc"))) == (
        r"name: expected text in UTF-8, got b'\xff\xfe\xfd\xfc'; export the model again"
    )


def test_local_functions_are_inlined(tmp_path):
    body = [node("Relu", "a", "t"), node("Add", "t a", "b")]
    imports = [helper.make_opsetid("", 17)]
    function = helper.make_function("local", "Twist", ["a"], ["b"], body, imports)
    proto = m.model([helper.make_node("Twist", ["x"], ["y"], domain="local")], [1, 3], y=[1, 3])
    proto.opset_import.append(helper.make_opsetid("local", 1))
    proto.functions.append(function)
    found = load_model(m.save(proto, tmp_path / "m.onnx"), 1, lambda _: True)
    assert [n.op for n in found.graph.nodes] == ["relu", "add"]


# --- external data ----------------------------------------------------------------------------


def external(tmp_path, location, **entries):
    """An MLP whose first tensor lies in ``location``."""
    proto = m.mlp()
    tensor = proto.graph.initializer[0]
    data = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    return m.save(proto, folder / "m.onnx"), data


def test_external_data_with_offset(tmp_path):
    path, data = external(tmp_path, "sub/w.bin", offset=8, length=192)
    (path.parent / "sub").mkdir()
    (path.parent / "sub" / "w.bin").write_bytes(bytes(8) + data + bytes(100))
    found = load_model(path, None, lambda _: True)
    (weight,) = [v for v in found.graph.values if v.origin == "fc1.weight"]
    assert found.graph.initial[weight.id].tobytes() == data


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/hostname", "a/../../secret.bin", "", "..\\secret", "C:\\x"]
)
def test_external_data_may_not_leave_the_folder(location, tmp_path):
    (tmp_path / "secret.bin").write_bytes(bytes(192))
    path, _ = external(tmp_path, location)
    assert refusal(path) == (
        f"tensor 'fc1.weight': expected external data beside the model, got '{location}'; "
        "export with a plain file name as location"
    )


def test_external_data_through_a_link(tmp_path):
    (tmp_path / "secret.bin").write_bytes(bytes(192))
    path, _ = external(tmp_path, "w.bin")
    (path.parent / "w.bin").symlink_to(tmp_path / "secret.bin")
    assert refusal(path) == (
        "tensor 'fc1.weight': expected external data beside the model, got 'w.bin', a link that "
        "leaves the folder; copy the file there"
    )


def test_external_data_missing_short_or_nonsense(tmp_path):
    path, data = external(tmp_path, "w.bin")
    assert refusal(path) == (
        "tensor 'fc1.weight': expected external data in 'w.bin', got no such file; "
        "copy it beside the model"
    )
    (path.parent / "w.bin").write_bytes(data[:-1])
    assert refusal(path).startswith("expected a valid model, got: ")
    path, _ = external(tmp_path, "w.bin", length=192)
    assert refusal(path) == (
        "tensor 'fc1.weight': expected 192 bytes at 0 in 'w.bin', got a file of 191 bytes; "
        "copy it again beside the model"
    )
    path, _ = external(tmp_path, "w.bin", offset="x")
    assert refusal(path).startswith(
        "tensor 'fc1.weight': expected offset and length of readable external data, got: "
    )
    path, _ = external(tmp_path, "w.bin", offset=-4)
    assert "expected 195 bytes at -4 in 'w.bin'" in refusal(path)


# --- fuzz -------------------------------------------------------------------------------------


def outcome(path):
    """The refusal, or '' when it loads; PoetError is the only exception that may come out."""
    try:
        load_model(path, 1, lambda _: True)
        check_model(path)
    except PoetError as error:
        return sound(path, error)
    return ""


def sound(path, error):
    text = str(error)
    assert text.startswith(f"{path}: ")
    assert "expected" in text
    assert not isinstance(error, InternalError)
    return text


def sample():
    """A small model that uses most of the importer."""
    nodes = [
        node("Identity", "cw", "cw2"),
        node("Conv", "x cw2 cb", "c", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", "c", "r", "r"),
        node("MaxPool", "r", "p", "p", kernel_shape=[2, 2], ceil_mode=1),
        node("Shape", "p", "s"),
        node("Slice", "s i0 i1", "n"),
        node("Concat", "n im", "t", axis=0),
        node("Reshape", "p t", "f", "f"),
        node("Transpose", "w", "wt", perm=[1, 0]),
        node("MatMul", "f wt", "h"),
        node("Add", "h b", "z"),
        node("Dropout", "z", "d"),
        node("Softmax", "d", "y", axis=-1),
    ]
    i = {"i0": 0, "i1": 1, "im": -1}
    tensors = {k: np.asarray([v], np.int64) for k, v in i.items()}
    tensors |= {"cw": weights(2, 1, 2, 2), "cb": weights(2), "w": weights(3, 8), "b": weights(3)}
    return m.model(nodes, ["N", 1, 4, 4], tensors, y=["N", 3]).SerializeToString()


def test_the_sample_loads(tmp_path):
    assert outcome(written(tmp_path, sample())) == ""


def test_truncated_at_every_point(tmp_path):
    data = sample()
    loaded = [n for n in range(len(data)) if not outcome(written(tmp_path, data[:n]))]
    assert loaded == []


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_every_byte_flipped(bits, tmp_path):
    data = sample()
    loaded = 0
    for i in range(len(data)):
        broken = bytearray(data)
        broken[i] ^= bits
        loaded += not outcome(written(tmp_path, bytes(broken)))
    assert 0 < loaded < len(data)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_random_damage(tmp_path, data):
    """Bytes replaced, removed, doubled in several places at once."""
    content = bytearray(sample())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.integers(0, 8))
        content[at : at + length] = data.draw(st.binary(max_size=8))
    outcome(written(tmp_path, bytes(content)))  # it asserts


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    number=st.one_of(st.integers(-3, 6), st.sampled_from([2**15, 2**31, 2**62, -(2**63)])),
    which=st.integers(0, 200),
)
def test_any_number_in_any_attribute_or_dimension(tmp_path, number, which):
    """Valid protobuf with absurd numbers: attributes, shapes and stored integers."""
    proto = onnx.ModelProto()
    proto.ParseFromString(sample())
    places = []
    for item in proto.graph.node:
        for a in item.attribute:
            places += [(a.ints, i) for i in range(len(a.ints))] + ([(a, "i")] if a.i else [])
    places += [(t.dims, i) for t in proto.graph.initializer for i in range(len(t.dims))]
    places += [(d, "dim_value") for d in proto.graph.input[0].type.tensor_type.shape.dim]
    for tensor in proto.graph.initializer:
        if tensor.data_type == TensorProto.INT64:
            places.append((tensor, "raw_data"))
    owner, key = places[which % len(places)]
    if key == "raw_data":
        owner.raw_data = np.asarray([number], np.int64).tobytes()
    elif isinstance(key, str):
        setattr(owner, key, number)
    else:
        owner[key] = number
    outcome(m.save(proto, tmp_path / "m.onnx"))  # it asserts
