"""Everything that is refused says where, what and what to do; check lists all at once."""

import models as m
import numpy as np
import onnx
import pytest
from models import node, refusal, weights
from onnx import TensorProto, helper

from poet_mcu.errors import InputError
from poet_mcu.frontend.handlers import HANDLERS
from poet_mcu.frontend.onnx_import import Problem, check_model, load_model


def relu(x=(1, 3), y=(1, 3), **kind):
    return m.model([node("Relu", "x", "y", "r")], x, y=y, **kind)


# --- A10: inputs ------------------------------------------------------------------------------


def test_symbolic_batch_needs_a_number(tmp_path):
    assert refusal(m.cnn("N"), tmp_path) == (
        "input 'x': expected a fixed dimension 0, got 'N'; say which batch to use: --batch N"
    )
    assert "got unknown; say which batch" in refusal(relu([None, 3], [None, 3]), tmp_path)


def test_symbolic_dimension_elsewhere(tmp_path):
    assert refusal(relu(["N", "H"], ["N", "H"]), tmp_path, 1) == (
        "input 'x': expected a fixed dimension 1, got 'H'; only the batch (dimension 0) may be "
        "symbolic: export with a fixed size"
    )


@pytest.mark.parametrize("dim", [0, -1])
def test_zero_or_negative_dimension(dim, tmp_path):
    proto = relu((1, 3), (1, 3))
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = dim
    assert refusal(proto, tmp_path) == (
        f"input 'x': expected dimension 1 of 1 or more, got {dim}; export with a fixed size"
    )


def test_batch_against_a_fixed_one(tmp_path):
    assert refusal(relu(), tmp_path, 4) == (
        "input 'x': expected the batch 1 that the model fixes, got --batch 4; export with a "
        "symbolic batch dimension or leave the option out"
    )
    assert load_model(tmp_path / "m.onnx", 1, lambda _: True).report.output_shape == (1, 3)
    with pytest.raises(InputError, match="--batch: expected 1 or more, got 0"):
        load_model(tmp_path / "m.onnx", 0, lambda _: True)


def test_number_of_inputs_and_outputs(tmp_path):
    two = m.model([node("Add", "x b", "y")], [1, 3])
    two.graph.input.append(m.info("b", [1, 3]))
    assert refusal(two, tmp_path) == (
        "model: expected exactly one input, got 'x', 'b'; "
        "export with constants in place of the others"
    )
    none = m.model([node("Relu", "c", "y")], [1, 3], {"c": weights(1, 3)})
    del none.graph.input[:]
    assert "model: expected exactly one input, got none; export it again" in refusal(none, tmp_path)
    outs = m.model([node("Relu", "x", "y"), node("Relu", "x", "z")], [1, 3])
    outs.graph.output.append(m.info("z", [1, 3]))
    assert refusal(outs, tmp_path) == (
        "model: expected exactly one output, got 'y', 'z'; export only the logits"
    )


@pytest.mark.parametrize(
    ("elem", "name"),
    [
        (TensorProto.FLOAT16, "float16"),
        (TensorProto.DOUBLE, "double"),
        (TensorProto.BOOL, "bool"),
    ],
)
def test_input_type(elem, name, tmp_path):
    graph = helper.make_graph(
        [node("Identity", "x", "y")], "g", [m.info("x", [1], elem)], [m.info("y", [1], elem)]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert refusal(proto, tmp_path).startswith(
        f"input 'x': expected float32 (or integers for an embedding), got {name}; export in float32"
    )


def test_input_without_dimensions(tmp_path):
    assert refusal(relu([], []), tmp_path) == (
        "input 'x': expected a shape with a batch dimension, got none; export with one"
    )


def test_output_without_an_operator(tmp_path):
    proto = m.model([node("Identity", "x", "y")], [1, 3])
    assert refusal(proto, tmp_path) == (
        "output 'y': expected at least one operator before it, got none"
    )
    proto = m.model([node("Identity", "c", "y")], [1, 3], {"c": weights(1, 3)})
    assert refusal(proto, tmp_path) == "output 'y': expected a computed output, got a constant"


def test_output_of_another_shape_than_stated(tmp_path):
    assert refusal(relu(["N", 3], [1, 3]), tmp_path, 2) == (
        "output 'y': expected the shape the model states, [1, 3], got [2, 3]; export with a "
        "symbolic batch dimension throughout, or run shape inference again"
    )


def test_absurd_sizes(tmp_path):
    assert refusal(relu((1, 2**31), (1, 2**31)), tmp_path) == (
        "input 'x': expected tensors below 2 GiB, got 8589934592 bytes for 'x' of shape "
        "[1, 2147483648]; use a smaller model or batch"
    )
    proto = m.model(
        [node("Conv", "x w", "y", "c")], [1, 1, 30000, 1], {"w": weights(20000, 1, 1, 1)}
    )
    assert "'c' (Conv): expected tensors below 2 GiB, got 2400000000 bytes" in refusal(
        proto, tmp_path
    )


# --- A17: opsets and domains ------------------------------------------------------------------


def test_opset_out_of_range(tmp_path):
    newest = onnx.defs.onnx_opset_version()
    for opset in (6, newest + 1):
        proto = relu()
        proto.opset_import[0].version = opset
        assert refusal(proto, tmp_path) == (
            f"node 0 'r' (Relu): expected opset 7..{newest}, got {opset}; export with another "
            "opset or use onnx.version_converter"
        )


def test_unknown_domain_names_the_node(tmp_path):
    proto = m.model(
        [helper.make_node("Fused", ["x"], ["y"], "f", domain="com.acme")], [1, 3], y=[1, 3]
    )
    proto.opset_import.append(helper.make_opsetid("com.acme", 1))
    assert refusal(proto, tmp_path) == (
        "node 0 'f' (com.acme.Fused): expected an operator of domain 'ai.onnx', got domain "
        "'com.acme'; export without custom operators or contrib fusions"
    )


def test_a_definition_newer_than_ours_is_refused(tmp_path, monkeypatch):
    from poet_mcu.frontend import handlers  # noqa: PLC0415 - the table is patched

    old = handlers.Lowering(handlers.HANDLERS["Relu"].handler, 6)
    monkeypatch.setattr(handlers, "HANDLERS", {**handlers.HANDLERS, "Relu": old})
    assert refusal(relu(), tmp_path) == (
        "node 0 'r' (Relu): expected Relu as defined up to opset 6, got its version 14 "
        "(opset 17); export with an older opset"
    )


# --- A19: all problems at once ----------------------------------------------------------------


def many_problems():
    nodes = [
        node("Conv", "x w", "c", "conv1"),
        node("Acos", "c", "s", "act"),
        node("MaxPool", "s", "p", "pool", kernel_shape=[2, 2], auto_pad="VALID", ceil_mode=1),
        node("Sin", "p", "a", ""),
        node("Flatten", "a", "f", "flat"),
        node("Gemm", "f fw fc", "g", "fc"),
        node("Hardmax", "g", "y", "log"),
    ]
    tensors = {"w": weights(2, 1, 3, 3), "fw": weights(18, 3), "fc": weights(2)}
    return m.model(nodes, ["N", 1, 6, 6], tensors, y=["N", 3])


def test_check_lists_every_problem(tmp_path):
    path = m.save(many_problems(), tmp_path / "m.onnx")
    found = check_model(path)
    assert [(p.node, p.op) for p in found] == [
        ("node 1 'act'", "Acos"),
        ("node 2 'pool'", "MaxPool"),
        ("node 3 -> 'a'", "Sin"),
        ("node 5 'fc'", "Gemm"),
        ("node 6 'log'", "Hardmax"),
    ]
    assert str(found[4]).startswith(
        "node 6 'log' (Hardmax): expected a supported operator, got Hardmax; replace it before "
        "export; supported are Abs, Add, "
    )
    assert found[0].message.endswith(", ".join(sorted(HANDLERS)))


def test_load_raises_every_problem(tmp_path):
    lines = refusal(many_problems(), tmp_path, 1).splitlines()
    assert lines[0] == "expected a supported model, got 5 problems; change these first:"
    assert [line.split(":")[0] for line in lines[1:]] == [
        "  node 1 'act' (Acos)",
        "  node 2 'pool' (MaxPool)",
        "  node 3 -> 'a' (Sin)",
        "  node 5 'fc' (Gemm)",
        "  node 6 'log' (Hardmax)",
    ]


def test_problem_of_the_model_has_no_operator():
    assert str(Problem("model", "", "expected a, got b")) == "model: expected a, got b"


@pytest.mark.parametrize(
    ("op", "advice"),
    [
        ("QuantizeLinear", "export the float model: training needs float32"),
    ],
)
def test_advice(op, advice, tmp_path):
    nodes = [node(op, "x s", "q", "n"), node("DequantizeLinear", "q s", "y")]
    proto = m.model(nodes, [1, 2, 4, 4], {"s": np.float32(0.1)}, y=[1, 2, 4, 4])
    assert f"node 0 'n' ({op}): expected a supported operator, got {op}; " in refusal(
        proto, tmp_path
    )
    assert advice in refusal(proto, tmp_path)


def test_folding_operator_on_an_activation(tmp_path):
    proto = m.model([node("ReduceProd", "x", "y", "sq")], [1, 3])
    assert refusal(proto, tmp_path) == (
        "node 0 'sq' (ReduceProd): expected ReduceProd of constants only, got an operand "
        "that depends on the "
        "input; only shape arithmetic is folded: change the model before export"
    )
