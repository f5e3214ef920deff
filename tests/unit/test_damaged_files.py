"""Files with contradictions in them are refused with a message: families that fuzzing has found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import models as m
import numpy as np
import onnx
import pytest
from models import node, weights
from onnx import TensorProto, helper

from poet_mcu.board.load import board_text, load_board
from poet_mcu.codegen.bundle import BOARD_FILE, MANIFEST
from poet_mcu.errors import BoardError, InputError
from poet_mcu.frontend.onnx_import import check_model
from poet_mcu.pipeline.options import Options, graph_options, options_from
from poet_mcu.pipeline.problem_file import ProblemOptions, read_problem
from poet_mcu.pipeline.target import open_folder

FITS = "expected attributes and operands that fit"
I64 = np.int64


def resize(**tensors: Any) -> onnx.ModelProto:
    """Linear with scales, or nearest with sizes."""
    mode = "linear" if "scales" in tensors else "nearest"
    inputs = "x - scales" if "scales" in tensors else "x - - sizes"
    return m.model([node("Resize", inputs, "y", "r", mode=mode)], [1, 1, 2, 2], tensors, opset=19)


def constant_of_another_shape() -> onnx.ModelProto:
    tensor = helper.make_tensor("c", TensorProto.FLOAT, [2], [1.0, 2.0])
    tensor.ClearField("dims")
    made = m.model([node("Relu", "x", "y", "r")], [1, 2], y=[1, 2])
    made.graph.node.insert(0, helper.make_node("Constant", [], ["c"], "c", value=tensor))
    made.graph.node[1].CopyFrom(node("Add", "x c", "y", "add"))
    return made


def split(parts: int) -> onnx.ModelProto:
    nodes = [
        node("Split", "x", "a b c", "split", axis=1, num_outputs=parts),
        node("Concat", "a b c", "j", "joined", axis=1),
        node("Gemm", "j w", "y", "fc"),
    ]
    return m.model(nodes, [1, 6], {"w": weights(6, 2)}, y=[1, 2], opset=18)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (resize(scales=np.array([1, 1, 2], np.float32)), FITS),
        (resize(scales=np.array([1, 1, 2, 2, 2], np.float32)), FITS),
        (resize(scales=np.array([1, 1, 2, np.nan], np.float32)), FITS),
        (resize(sizes=np.array([1, 1, 2**45, 7], I64)), "expected sizes of"),
        (resize(sizes=np.array([1, 1, 2**62, 2**62], I64)), "expected sizes of"),
        (constant_of_another_shape(), FITS),
        (split(2), "expected"),
        (split(0), "expected"),
        (split(2**40), "expected"),
    ],
)
@pytest.mark.damaged_model
def test_contradictions_within_a_node(made: onnx.ModelProto, words: str, tmp_path: Path) -> None:
    problems = check_model(m.save(made, tmp_path / "m.onnx"))
    assert problems
    assert words in problems[0].message


def test_split_into_as_many_parts_as_outputs_is_none(tmp_path: Path) -> None:
    assert not check_model(m.save(split(3), tmp_path / "m.onnx"))


def test_an_input_too_large_is_refused_before_onnx_counts_through_it(tmp_path: Path) -> None:
    layer = node("LayerNormalization", "x w b", "y", "ln", axis=-1)
    made = m.model([layer], [2, 2, 5], {"w": weights(5), "b": weights(5)}, y=[2, 2, 5])
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2**31
    problems = check_model(m.save(made, tmp_path / "m.onnx"))
    assert [p.node for p in problems] == ["input 'x'"]
    assert "2 GiB" in problems[0].message


def test_a_long_vector_costs_no_memory(tmp_path: Path) -> None:
    """onnx's propagation of values made an object of each element: 24 GB for this one."""
    ends = {"c": weights(3), "at": np.array([0], I64)}
    layers = [
        *(node(op, "x c", "y", "n") for op in ("Mul", "Add", "Sub")),
        *(node(op, "x", "y", "n") for op in ("Identity", "Squeeze", "Neg", "Relu")),
        node("Unsqueeze", "x at", "y", "n"),
        node("Concat", "x c", "y", "n", axis=0),
    ]
    for i, layer in enumerate(layers):
        made = m.model([layer], [3], ends, y=[3])
        made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2**31 - 1
        m.save(made, tmp_path / f"{i}.onnx")
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from poet_mcu.frontend.onnx_import import check_model\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "assert all(check_model(path) for path in Path(sys.argv[1]).glob('*.onnx'))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)


def test_an_axis_that_ends_onnx_does_not_end_us(tmp_path: Path) -> None:
    """Its shape inference writes out of bounds here, and counts on and on where a shape is open."""
    layers = [
        node("LayerNormalization", "x w", "n mean deviation", "norm", axis=2**31),
        node("Relu", "n", "r", "relu"),
        node("Det", "x", "u", "det"),
        node("Add", "r u", "y", "add"),
    ]
    made = m.model(layers, [2, 5], {"w": weights(5)}, y=[2, 5])
    problems = check_model(m.save(made, tmp_path / "m.onnx"))
    assert [p.op for p in problems][:2] == ["LayerNormalization", "Det"]


@pytest.mark.parametrize("dim", [-1, -(2**31), -(2**63)])
def test_a_negative_dimension_is_refused_before_onnx_asserts_there_is_none(
    dim: int, tmp_path: Path
) -> None:
    bounds = {"starts": np.array([0, 0], I64), "ends": np.array([2, 4], I64)}
    made = m.model([node("Slice", "x starts ends", "y", "cut")], [2, 5], bounds, y=[2, 4])
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = dim
    problems = check_model(m.save(made, tmp_path / "m.onnx"))
    assert problems[0].node == "input 'x'"
    assert f"got {dim}" in problems[0].message


def test_an_output_that_no_operator_makes(tmp_path: Path) -> None:
    made = m.model([node("Mean", "- c", "y", "mean")], [1, 3], {"c": weights(3)}, y=[1, 3])
    problems = check_model(m.save(made, tmp_path / "m.onnx"))
    assert [p.node for p in problems] == ["output 'y'"]
    assert "expected an operator that makes it" in problems[0].message


# --- problems of the planner ------------------------------------------------------------------

OP = {
    "id": 0, "name": "op", "inputs": [], "outputs": [0], "compute_s": 1.0, "compute_j": 1.0,
    "workspace_bytes": 0, "recomputable": True, "backward": False, "in_place": [], "mutates": [],
}  # fmt: skip
COSTS = {f"page_{way}_{unit}": 1.0 for way in ("in", "out") for unit in "sj"}
TENSOR = {"id": 0, "name": "t", "nbytes": 4, "pageable": True, **COSTS}
PROBLEM = {
    "name": "p", "tensors": [TENSOR], "ops": [OP], "memory_bytes": 64, "deadline_s": None,
    "alignment_bytes": 1, "overlap": False, "wait_w": 0.0, "max_write_bytes": None,
}  # fmt: skip


def read(problem: Any, folder: Path) -> Any:
    path = folder / "p.json"
    path.write_text(json.dumps({"format": "poet-mcu problem 1", "problem": problem}))
    return read_problem(ProblemOptions(path))


def test_the_problem_before_it_is_damaged(tmp_path: Path) -> None:
    assert read(PROBLEM, tmp_path).memory_bytes == 64


def damages() -> list[tuple[str, Any]]:
    """(where, a problem with one field that is not of its type or out of range)."""
    wrong: dict[str, list[Any]] = {
        "int": [None, "1", 1.5, True, [1], 10**400],
        "amount": [None, "1", True, -1.0, float("nan"), float("inf"), 10**400],
        "flag": [None, 0, "true"],
        "text": [None, 1, ["x"]],
        "ids": [None, 0, ["x"], [True], [0.5], [{}]],
        "pairs": [None, [0], [[0]], [[0, 0, 0]], [["x", 0]]],
    }
    kinds = {
        "int": ("id", "nbytes", "workspace_bytes", "memory_bytes", "alignment_bytes"),
        "amount": ("compute_s", "compute_j", *COSTS, "wait_w"),
        "flag": ("pageable", "recomputable", "backward", "overlap"),
        "text": ("name",),
        "ids": ("inputs", "outputs", "mutates"),
        "pairs": ("in_place",),
    }
    found = []
    for kind, names in kinds.items():
        for name in names:
            for value in wrong[kind]:
                if name in TENSOR:
                    found.append((name, PROBLEM | {"tensors": [TENSOR | {name: value}]}))
                if name in OP:
                    found.append((name, PROBLEM | {"ops": [OP | {name: value}]}))
                if name in PROBLEM:
                    found.append((name, PROBLEM | {name: value}))
    return found


def test_every_field_of_another_type_is_refused(tmp_path: Path) -> None:
    found = damages()
    assert len(found) > 100
    for name, problem in found:
        with pytest.raises(InputError, match=r"p\.json: problem: expected the keys") as error:
            read(problem, tmp_path)
        assert name in str(error.value) or "iterable" in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tensors": [TENSOR | {"nbytes": -1}]}, "of 0 or more"),
        ({"alignment_bytes": 0}, "of 1 or more"),
        ({"tensors": [TENSOR | {"at_end_paged": True}]}, "at_start_paged beside it"),
        ({"tensors": [TENSOR | {"at_start_paged": True, "at_end": True}]}, "no other home"),
        ({"tensors": [TENSOR | {"at_start_paged": True, "pageable": False}]}, "pageable"),
        ({"max_write_bytes": -1}, "of 0 or more"),
        ({"tensors": [TENSOR, TENSOR]}, "ids that differ"),
        ({"ops": [OP, OP | {"outputs": []}]}, "ids that differ"),
        ({"ops": [OP | {"outputs": [-1]}]}, "expected known tensors"),
        ({"ops": [OP | {"inputs": [0]}]}, "expected known tensors, each once"),
        ({"ops": [OP | {"in_place": [[0, 7]]}]}, "expected the keys"),
        ({"ops": [OP | {"unknown": 1}]}, "unknown"),
        ({"tensors": 7}, "expected the keys"),
        ({"ops": [7]}, "expected the keys"),
    ],
)
def test_numbers_that_contradict_each_other(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        read(PROBLEM | change, tmp_path)


# --- boards -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x" * 5000, "a\\u0000b", "../" * 3000 + "x", "soc/\N{SNOWMAN}"])
def test_a_parent_that_no_file_can_be_called(name: str, tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(f'extends = "{name}"\n', encoding="utf-8")
    with pytest.raises(BoardError, match=r"extends: expected (a file|the name of a file) below"):
        load_board(path)


# --- build folders ----------------------------------------------------------------------------


def kept_options() -> dict[str, Any]:
    options = graph_options(Options(Path("m.onnx"), "host", train=("*",), batch=2))
    return dict(json.loads(json.dumps(options)))


#: what the verbs read of a plan
PLAN = json.dumps(
    dict.fromkeys(
        ("sd_read_bytes", "sd_write_bytes", "page_ins", "page_outs", "peak_bytes", "ram_bytes"), 0
    )
    | {"checkpoint": {"region_first_block": 0}}
)


def build_folder(folder: Path, options: dict[str, Any]) -> None:
    manifest = {"build_id": "00" * 16, "options": options}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    (folder / "plan.json").write_text(PLAN)
    (folder / BOARD_FILE).write_text(board_text(load_board("host")))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("train", 7), ("train", [1]), ("freeze", [{}]), ("batch", "2"), ("batch", True),
        ("lr", [0.1]), ("lr", 10**400), ("fuse", 1), ("loss", 3), ("class_weights", ["x"]),
        ("train_last", 0.5), ("x", 1), ("model", "m.onnx"), ("ram_bytes", 1), ("optimizer", None),
    ],
)  # fmt: skip
def test_options_of_another_type_are_no_options_of_a_build(name: str, value: Any) -> None:
    assert options_from(kept_options(), Path("m.onnx"), "host").train == ("*",)
    with pytest.raises(TypeError, match=name):
        options_from(kept_options() | {name: value}, Path("m.onnx"), "host")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (MANIFEST, '{"build_id": "00", "options": {}}'),
        (MANIFEST, '{"build_id": 7, "options": {}}'),
        (MANIFEST, '{"build_id": "' + "00" * 16 + '"}'),
        (MANIFEST, '{"build_id": "' + "00" * 16 + '", "options": []}'),
        (MANIFEST, "[]"),
        (MANIFEST, "7"),
        ("plan.json", "[]"),
        ("plan.json", PLAN.replace('"region_first_block": 0', '"region_first_block": 1e999')),
        ("plan.json", PLAN.replace('"page_ins": 0', '"page_ins": 1e999')),
        ("plan.json", "\ufffd"),
    ],
)
def test_damaged_files_of_a_build(file: str, text: str, tmp_path: Path) -> None:
    build_folder(tmp_path, kept_options())
    assert open_folder(tmp_path).build_id == bytes(16)
    (tmp_path / file).write_text(text)
    with pytest.raises(InputError, match="expected the files of a build, got damaged ones"):
        open_folder(tmp_path)


def test_changed_options_of_a_build(tmp_path: Path) -> None:
    build_folder(tmp_path, kept_options() | {"lr": "fast"})
    with pytest.raises(InputError, match="got damaged ones \\(lr: float expected, got 'fast'"):
        open_folder(tmp_path)
