"""ONNX's own backend tests through the generated C, compiled for this computer.

A case is built the short way: evaluation alone, everything freed early, no solver, no serial
line; the kernels are compiled once and shared by all cases. Run as a program this counts all
cases and shortens the list of refused ones: ``python tests/onnx_backend.py --update``.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.version_converter
from onnx import TensorProto, numpy_helper

from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.codegen.model_view import CodeInput, model_view
from poet_mcu.codegen.render import render
from poet_mcu.codegen.views import Banner
from poet_mcu.errors import ModelError, PoetError
from poet_mcu.frontend.model_file import OLDEST_OPSET
from poet_mcu.frontend.onnx_import import load_model
from poet_mcu.ir.graph import Graph, Role
from poet_mcu.ir.program import Program
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.stepplan import StepSettings, budget_of, plan_step
from poet_mcu.toolchain import compile_flags, compiler
from poet_mcu.training.recipe import Recipe
from poet_mcu.training.training import evaluation_graph

ROOT = Path(__file__).resolve().parents[1]
REFUSED = ROOT / "tests" / "data" / "onnx_refused.txt"
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
#: the operators of the plan; cases of others are not counted
_NAMES = """
    Abs Add AveragePool BatchNormalization Cast Celu Clip Concat Constant
    ConstantOfShape Conv ConvTranspose DepthToSpace Div Dropout Elu Erf Exp Expand Flatten Gather
    Gelu Gemm GlobalAveragePool GlobalMaxPool GroupNormalization GRU HardSigmoid HardSwish Identity
    InstanceNormalization LayerNormalization LeakyRelu Log LogSoftmax LSTM MatMul Max MaxPool Mean
    Min Mish Mul Neg Pad Pow PRelu Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare Relu Reshape Resize RNN Selu Shape
    Shrink Sigmoid Slice Softmax Softplus Softsign Split Sqrt Squeeze Sub Sum Swish Tanh
    ThresholdedRelu Transpose Unsqueeze Where
"""
OPERATORS = frozenset(_NAMES.split())
Arrays = list[npt.NDArray[Any]]
_OUT = tempfile.TemporaryDirectory(prefix="poet_onnx_")


@dataclass(frozen=True)
class Case:
    """One test: a model whose only real input is ``x``, and what it must give."""

    name: str
    model: onnx.ModelProto
    x: npt.NDArray[Any]
    y: Arrays
    rtol: float
    atol: float


@cache
def cases() -> Mapping[str, Case]:
    """Every case with float32 outputs, static shapes and operators of the plan."""
    found = {}
    for case in _loaded():
        if not {node.op_type for node in case.model.graph.node} <= OPERATORS:
            continue
        made = _one_input(case)
        if made is not None:
            found[made.name] = made
    return found


def _loaded() -> Iterator[Any]:
    from onnx.backend.test.loader import load_model_tests  # noqa: PLC0415 - takes seconds

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        tests = [(kind, t) for kind in KINDS for t in load_model_tests(kind=kind)]
    for kind, test in tests:
        name = f"{kind}/{test.name.removeprefix('test_')}"
        model = test.model or _recent(onnx.load(Path(test.model_dir) / "model.onnx"))
        data = test.data_sets or [_stored_data(Path(test.model_dir))]
        yield replace(test, name=name, model=model, data_sets=data)


def _recent(model: onnx.ModelProto) -> onnx.ModelProto:
    """Models before opset 7 by onnx's own converter, as our refusal of them advises."""
    if all(item.version >= OLDEST_OPSET for item in model.opset_import if not item.domain):
        return model
    try:
        return onnx.version_converter.convert_version(model, OLDEST_OPSET)
    except (RuntimeError, ValueError, onnx.version_converter.ConvertError):
        return model


def _stored_data(folder: Path) -> tuple[Arrays, Arrays]:
    sides = []
    for side in ("input", "output"):
        files = sorted(
            (folder / "test_data_set_0").glob(f"{side}_*.pb"),
            key=lambda path: int(path.stem.rsplit("_", 1)[1]),
        )
        sides.append([numpy_helper.to_array(onnx.load_tensor(path)) for path in files])
    return sides[0], sides[1]


def _one_input(test: Any) -> Case | None:
    """The case with all inputs but the first float32 one stored; None when it is not float32."""
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    graph = model.graph
    inputs, outputs = test.data_sets[0]
    arrays = [a for a in (*inputs, *outputs) if isinstance(a, np.ndarray | np.generic)]
    if len(arrays) < len(inputs) + len(outputs):
        return None
    if any(np.asarray(y).dtype != np.float32 for y in outputs):
        return None
    stored = {tensor.name for tensor in graph.initializer}
    names = [info.name for info in graph.input if info.name not in stored]
    named = dict(zip(names, inputs, strict=False))
    live = [n for n, a in named.items() if np.asarray(a).dtype == np.float32 and np.ndim(a)]
    if not live:
        return None
    for name in names:
        if name != live[0] and name in named:
            graph.initializer.append(numpy_helper.from_array(np.asarray(named[name]), name))
    for info in graph.input:
        if info.name == live[0]:
            _fix(info, np.shape(named[live[0]]))
    y = [np.asarray(array) for array in outputs]
    return Case(test.name, model, np.asarray(named[live[0]]), y, test.rtol, test.atol)


def negated(case: Case) -> Case:
    """The case with a Neg before it: for models that only give their input another shape."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    stored = {tensor.name for tensor in graph.initializer}
    (name,) = (info.name for info in graph.input if info.name not in stored)
    for node in graph.node:
        node.input[:] = ["negated" if n == name else n for n in node.input]
    rest = list(graph.node)
    del graph.node[:]
    graph.node.append(onnx.helper.make_node("Neg", [name], ["negated"]))
    graph.node.extend(rest)
    return replace(case, model=model, y=[-array for array in case.y])


def _fix(info: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    info.type.tensor_type.elem_type = TensorProto.FLOAT
    info.type.tensor_type.ClearField("shape")
    for size in shape:
        info.type.tensor_type.shape.dim.add().dim_value = size


# --- building and running -----------------------------------------------------------------------


@cache
def _board() -> Board:
    return load_board("host")


@cache
def _kernels() -> Path:
    """All kernels as one library."""
    path = Path(_OUT.name) / "libkernels.so"
    sources = sorted((ROOT / "firmware" / "kernels").glob("*.c"))
    _compile([*map(str, sources)], path, [])
    return path


def _compile(arguments: list[str], out: Path, extra: list[str]) -> None:
    import subprocess  # noqa: PLC0415 - here alone

    include = f"-I{ROOT / 'firmware' / 'include'}"
    command = [str(compiler(_board())), *compile_flags(_board()), include, "-fPIC", "-shared"]
    subprocess.run([*command, *extra, *arguments, "-lm", "-o", str(out)], check=True)


def graph_of(case: Case, folder: Path) -> Graph:
    """The evaluation graph. Raises ModelError when the model is refused."""
    path = folder / "m.onnx"
    path.write_bytes(case.model.SerializeToString())
    forward = load_model(path, None, lambda _: False, fuse_softmax=False).graph
    graph = evaluation_graph(forward, forward)
    verify_graph(graph, training=False)
    return graph


def program_of(graph: Graph) -> Program:
    """The program with everything freed as soon as it is dead."""
    board = _board()
    options = Options(Path("m.onnx"), board.name, strategy="free-early")
    budget = budget_of(board, board.sram.size_bytes)
    return plan_step(graph, board, options, budget, StepSettings("eval", "free-early")).program


def run_case(case: Case, folder: Path) -> npt.NDArray[np.float32]:
    """The output that the generated C computes. Raises ModelError when the model is refused."""
    graph = graph_of(case, folder)
    program = program_of(graph)
    banner = Banner("test", case.name, "", "host", "")
    code = CodeInput(
        banner, case.name, "host", graph, graph, program, program, program.arena_bytes,
        _board().arena.alignment_bytes, 0, 1, 0.0, Recipe(), bytes(32), bytes(16),
    )  # fmt: skip
    view = model_view(code)
    for name in ("poet_model.h", "poet_model.c", "poet_schedule.c", "poet_weights.c"):
        (folder / name).write_text(render(f"{name}.j2", v=view), encoding="utf-8")
    # A name of its own: the loader would hand out a library of the same path again.
    out = folder / f"{hashlib.sha256(case.name.encode()).hexdigest()[:16]}.so"
    kernels = _kernels()
    names = [str(folder / f"poet_{part}.c") for part in ("model", "schedule", "weights")]
    _compile([*names, str(kernels), f"-Wl,-rpath,{kernels.parent}"], out, [f"-I{folder}", "-O0"])
    return _call(ctypes.CDLL(str(out)), graph, program, case.x)


def _call(
    library: ctypes.CDLL, graph: Graph, program: Program, x: npt.NDArray[Any]
) -> npt.NDArray[np.float32]:
    arena = (ctypes.c_uint8 * program.arena_bytes).in_dll(library, "poet_arena")
    memory = np.ctypeslib.as_array(arena)
    memory[:] = 0xFF
    for home in program.homes:
        if graph.values[home.value].role is Role.INPUT:
            raw = np.ascontiguousarray(x, np.float32).reshape(-1).view(np.uint8)
            memory[home.offset : home.offset + raw.size] = raw
    run = (ctypes.c_uint64 * 32)()  # poet_run: no pages, no hook
    assert library.poet_generated_eval_step(ctypes.byref(run)) == 0
    (result,) = program.results
    value = graph.values[graph.outputs[0]]
    raw = memory[result.offset : result.offset + value.type.nbytes].copy()
    return raw.view(np.float32).reshape(value.shape)


def refused() -> dict[str, str]:
    """The listed cases and why."""
    lines = REFUSED.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def reason(error: PoetError, folder: Path) -> str:
    """The first line of the refusal, without the path."""
    text = str(error).replace(f"{folder / 'm.onnx'}: ", "")
    lines = text.splitlines()
    return " ".join((lines[1] if len(lines) > 1 else lines[0]).split())


def outcome(case: Case) -> tuple[str, str]:
    """('passed', ''), ('refused', reason) or ('wrong', how)."""
    with tempfile.TemporaryDirectory() as name, np.errstate(all="ignore"):
        folder = Path(name)
        try:
            got = run_case(case, folder)
        except ModelError as error:
            if "expected at least one operator" in str(error) and "Neg" not in str(case.model):
                return outcome(negated(case))
            return "refused", reason(error, folder)
        try:
            np.testing.assert_allclose(got, case.y[0], case.rtol, case.atol)
        except AssertionError as error:
            return "wrong", str(error)
        return "passed", ""


def main(words: list[str]) -> int:
    """Count all cases; with --update take those that pass off the list, with --new write it."""
    counts: Counter[tuple[str, str]] = Counter()
    left = {}
    listed = {} if "--new" in words else refused()
    for name, case in cases().items():
        if words and not words[0].startswith("-") and words[0] not in name:
            continue
        try:
            what, why = outcome(case)
        except Exception as error:  # noqa: BLE001 - a crash is a finding to print
            what, why = "crashed", f"{type(error).__name__}: {error}"
        counts[name.split("/")[0], what] += 1
        if what == "refused" and ("--new" in words or name in listed):
            left[name] = why
        elif what != "passed":
            print(f"{what}: {name}: {why}")  # noqa: T201
    if words and words[0] in ("--update", "--new"):
        head = "# Cases of onnx.backend.test that are refused, and why. This list only shrinks.\n"
        body = "".join(f"{name}: {why}\n" for name, why in sorted(left.items()))
        REFUSED.write_text(head + body, encoding="utf-8")
    for key, count in sorted(counts.items()):
        print(*key, count)  # noqa: T201
    return int(any(what in ("wrong", "crashed") for _, what in counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
