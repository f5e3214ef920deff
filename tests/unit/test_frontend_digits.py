"""The digits example: the committed model is the one the script makes, and its data."""

import importlib.util
import sys
from pathlib import Path

import models as m
import numpy as np
import pytest

from poet_mcu.frontend.onnx_import import load_model
from poet_mcu.ir.graph import Role

ROOT = Path(__file__).resolve().parents[2]


def load_tool():
    spec = importlib.util.spec_from_file_location("make_digits", ROOT / "tools" / "make_digits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


digits = load_tool()


def test_committed_model_is_the_one_the_script_makes():
    made = digits.make_model().SerializeToString(deterministic=True)
    assert digits.MODEL.read_bytes() == made
    assert len(made) < 16384


def test_model_imports_and_agrees():
    found = load_model(digits.MODEL, 4, lambda _: True)
    assert [n.op for n in found.graph.nodes] == [
        "conv2d", "maxpool2d", "relu", "conv2d", "maxpool2d", "relu", "dense",
    ]  # fmt: skip
    assert {v.origin: v.shape for v in found.graph.with_role(Role.PARAMETER)} == {
        "conv1.weight": (8, 1, 3, 3),
        "conv1.bias": (8,),
        "conv2.weight": (16, 8, 3, 3),
        "conv2.bias": (16,),
        "fc.weight": (10, 64),
        "fc.bias": (10,),
    }
    x = digits.make_data()[0]["x"][:4]
    expected = m.run_onnx(digits.MODEL, x)
    np.testing.assert_allclose(m.run_graph(found.graph, x)[0], expected, rtol=1e-5, atol=1e-5)


def test_data(tmp_path):
    paths = digits.write_data(tmp_path / "data")
    assert [path.name for path in paths] == ["digits_train.npz", "digits_test.npz"]
    train, test = (dict(np.load(path)) for path in paths)
    assert (train["x"].shape, test["x"].shape) == ((1437, 1, 8, 8), (360, 1, 8, 8))
    for part in (train, test):
        assert part["x"].dtype == np.float32
        assert part["y"].dtype == np.int64
        assert (part["x"].min(), part["x"].max()) == (0.0, 1.0)
        assert set(part["y"]) == set(range(10))
    again = digits.make_data()[0]
    np.testing.assert_array_equal(again["x"], train["x"])
    assert not np.array_equal(digits.make_data(seed=1)[0]["y"], train["y"])


def test_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(digits, "MODEL", tmp_path / "new" / "digits_cnn.onnx")
    monkeypatch.setattr(digits, "ROOT", tmp_path)
    digits.main(["--model", str(tmp_path)])
    assert capsys.readouterr().out.splitlines() == [
        str(Path("new") / "digits_cnn.onnx"),
        str(tmp_path / "digits_train.npz"),
        str(tmp_path / "digits_test.npz"),
    ]
    assert digits.MODEL.read_bytes() == digits.make_model().SerializeToString(deterministic=True)
    with pytest.raises(SystemExit):
        digits.main([])
    assert "expected FOLDER, --model or both" in capsys.readouterr().err


def test_script_does_not_need_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert load_tool().make_model().graph.name == "digits_cnn"
