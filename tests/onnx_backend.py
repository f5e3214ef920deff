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
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_cases import Case, Runnable, cases, runnable

from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.codegen.model_view import CodeInput, model_view
from poet_mcu.codegen.render import render
from poet_mcu.codegen.views import Banner
from poet_mcu.errors import ModelError, PoetError
from poet_mcu.frontend.onnx_import import load_model
from poet_mcu.ir.graph import Graph, Role
from poet_mcu.ir.placement import CheckpointSlots
from poet_mcu.ir.program import Program
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.stepplan import StepSettings, budget_of, plan_step
from poet_mcu.toolchain import compile_flags, compiler
from poet_mcu.training.recipe import Recipe
from poet_mcu.training.training import evaluation_graph

ROOT = Path(__file__).resolve().parents[1]
REFUSED = ROOT / "tests" / "data" / "onnx_refused.txt"
_OUT = tempfile.TemporaryDirectory(prefix="poet_onnx_")


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


def graph_of(made: Runnable, folder: Path) -> Graph:
    """The evaluation graph. Raises ModelError when the model is refused."""
    path = folder / "m.onnx"
    path.write_bytes(made.model.SerializeToString())
    forward = load_model(path, None, lambda _: False, fuse_softmax=False).graph
    graph = evaluation_graph(forward, forward)
    verify_graph(graph, training=False)
    return graph


def chosen(case: Case, folder: Path) -> tuple[Runnable, Graph]:
    """The case with as many inputs given at run time as the chain takes.

    All of them, or else the first one and each further one that is not refused beside those
    before it: kernels of convolutions, scales and bounds must be stored. Raises ModelError when
    not even one will do.
    """
    try:
        return _built(case, case.floats, folder)
    except ModelError:
        first = next(name for name in case.floats if case.inputs[name].ndim)
        best = _built(case, (first,), folder)
    for name in case.floats:
        if name != first:
            try:
                best = _built(case, (*best[0].live, name), folder)
            except ModelError:
                continue
    return best


def _built(case: Case, live: Sequence[str], folder: Path) -> tuple[Runnable, Graph]:
    made = runnable(case, live)
    try:
        graph = graph_of(made, folder)
    except ModelError as error:
        if "expected at least one operator" not in str(error):
            raise
    else:
        if graph.nodes:  # an evaluation leaves Dropout out
            return made, graph
    made = runnable(case, live, negate=True)
    return made, graph_of(made, folder)


def program_of(graph: Graph) -> Program:
    """The program with everything freed as soon as it is dead."""
    board = _board()
    options = Options(Path("m.onnx"), board.name, strategy="free-early")
    budget = budget_of(board, board.sram.size_bytes)
    return plan_step(graph, board, options, budget, StepSettings("eval", "free-early")).program


def run_case(case: Case, folder: Path) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
    """What the generated C computes, and the names of the inputs that it was given at run time.

    Raises ModelError when the model is refused.
    """
    made, graph = chosen(case, folder)
    program = program_of(graph)
    banner = Banner("test", case.name, "", "host", "")
    code = CodeInput(
        banner, case.name, "host", graph, graph, program, program, program.arena_bytes,
        _board().arena.alignment_bytes, (), 0, 1, CheckpointSlots(1, 0, ()), 0.0, Recipe(),
        bytes(32), bytes(16),
    )  # fmt: skip
    view = model_view(code)
    for name in ("poet_model.h", "poet_model.c", "poet_schedule.c", "poet_weights.c"):
        (folder / name).write_text(render(f"{name}.j2", v=view), encoding="utf-8")
    # A name of its own: the loader would hand out a library of the same path again.
    out = folder / f"{hashlib.sha256(case.name.encode()).hexdigest()[:16]}.so"
    kernels = _kernels()
    names = [str(folder / f"poet_{part}.c") for part in ("model", "schedule", "weights")]
    _compile([*names, str(kernels), f"-Wl,-rpath,{kernels.parent}"], out, [f"-I{folder}", "-O0"])
    return _call(ctypes.CDLL(str(out)), graph, program, made.x), made.live


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


@dataclass(frozen=True)
class Outcome:
    """'passed', 'refused' or 'wrong', and why; ``whole`` when no float input was stored."""

    what: str
    why: str = ""
    whole: bool = False


def outcome(case: Case) -> Outcome:
    """How the case fares."""
    with tempfile.TemporaryDirectory() as name, np.errstate(all="ignore"):
        folder = Path(name)
        try:
            got, live = run_case(case, folder)
        except ModelError as error:
            return Outcome("refused", reason(error, folder))
        wanted = case.y[0] if len(case.y) == 1 else case.flat
        try:
            np.testing.assert_allclose(got, wanted, case.rtol, case.atol)
        except AssertionError as error:
            return Outcome("wrong", str(error))
        return Outcome("passed", whole=set(live) == set(case.floats))


def main(words: list[str]) -> int:
    """Count all cases; with --update take those that pass off the list, with --new write it."""
    counts: Counter[tuple[str, str]] = Counter()
    left = {}
    listed = {} if "--new" in words else refused()
    for name, case in sorted(cases().items()):
        if words and not words[0].startswith("-") and words[0] not in name:
            continue
        try:
            found = outcome(case)
        except Exception as error:  # noqa: BLE001 - a crash is a finding to print
            found = Outcome("crashed", f"{type(error).__name__}: {error}")
        what, why = found.what, found.why
        counts[name.split("/")[0], what + (", all inputs live" if found.whole else "")] += 1
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
