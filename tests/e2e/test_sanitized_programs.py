"""Whole programs under ASan and UBSan with a poisoned arena: train, evaluate, page, checkpoint.

Two plans of each model, one that keeps everything and one that pages all it may: a value used
after its end, or before it is back, shows as a difference of bits, a stray access as a report.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import models
import numpy as np
import onnx
import pytest
from models import node, weights

from poet_mcu import resources, toolchain
from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board as BoardFile
from poet_mcu.codegen.bundle import write_card
from poet_mcu.link.client import Board, open_board
from poet_mcu.link.emulator import run_host
from poet_mcu.pipeline import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import Plan, plan
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.validate import batches

BOARD = "qemu-m7-sd"
SANITIZE = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
#: With all checks of UBSan in line gcc takes a minute for conv2d.c. The four that are left out are
#: about pointers, which ASan watches; host/test_kernels_builds.py runs the kernels with them.
KERNELS = (
    *SANITIZE, "-fno-sanitize=null,alignment,object-size,pointer-overflow",
    "--param", "asan-instrumentation-with-call-threshold=0",
)  # fmt: skip
STEPS = 4
DIGITS = resources.root() / "examples" / "digits" / "digits_cnn.onnx"


def lstm() -> onnx.ModelProto:
    """[T, N, I] = [5, 2, 8], the last state, a layer behind it."""
    tensors = {
        "w": weights(1, 48, 8, seed=1),
        "r": weights(1, 48, 12, seed=2),
        "b": weights(1, 96, seed=3),
        "fc": weights(12, 3, seed=4),
        "row": np.asarray([2, 12], np.int64),
    }
    cell = node("LSTM", "x w r b", "", hidden_size=12)
    cell.output[:] = ["", "last"]
    nodes = [cell, node("Reshape", "last row", "flat"), node("MatMul", "flat fc", "y")]
    return models.model(nodes, [5, 2, 8], tensors, y=[2, 3])


MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, object]]] = {
    "digits": (
        lambda: onnx.load(DIGITS),
        {"batch": 4, "optimizer": "momentum", "home_parameters": "card"},
    ),
    "residual": (
        lambda: models.residual("N", 8, 8),
        {"batch": 2, "optimizer": "adam", "accumulate": 2, "clip_norm": 1.0},
    ),
    "lstm": (lstm, {"optimizer": "adamw", "home_parameters": "card"}),
}


def planned(name: str, strategy: str, folder: Path) -> Plan:
    make, options = MODELS[name]
    path = models.save(make(), folder / "model.onnx")
    return plan(Options(path, BOARD, strategy=strategy, time_limit_s=5.0, **options))


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Everything but the generated files, as objects that all programs share."""
    twin = toolchain.host_twin(load_board(BOARD))
    folder = tmp_path_factory.mktemp("runtime")
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(partial(compiled, twin, folder), build.runtime_sources(twin)))


def compiled(twin: BoardFile, folder: Path, name: str) -> Path:
    source, out = resources.root() / name, folder / (name.replace("/", "_") + ".o")
    flags = KERNELS if "kernels" in source.parts else SANITIZE
    gcc(twin, ["-c", str(source), "-o", str(out), *flags])
    return out


def gcc(twin: BoardFile, arguments: list[str]) -> None:
    include = f"-I{resources.root() / 'firmware' / 'include'}"
    flags = [*toolchain.compile_flags(twin), "-DPOET_POISON=1", include]
    done = subprocess.run(["gcc", *flags, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def program(made: Plan, folder: Path, runtime: list[Path]) -> tuple[Path, Path, bytes]:
    """The program, its card and its build id."""
    board = made.prepared.board
    code, texts = build._with_build_id(build._code_input(made, board), board)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    out, card = folder / "firmware", folder / "card.img"
    files = [str(folder / name) for name in texts if name.endswith(".c")]
    files += [*map(str, runtime), f"-I{folder}", "-o", str(out), *SANITIZE, "-lm"]
    gcc(toolchain.host_twin(board), files)
    write_card(card, code.build_id, code.region_block, code.region_blocks, code.slots)
    return out, card, code.build_id


def state(board: Board) -> dict[str, bytes]:
    kept = [t.name for t in board.tensors() if t.role.name in ("PARAMETER", "STATE", "CONSTANT")]
    return {name: board.read_tensor(name).tobytes() for name in kept}


def used(made: Plan, folder: Path, runtime: list[Path]) -> dict[str, object]:
    """All that a host can do with the program, and what it told."""
    out, card, build_id = program(made, folder, runtime)
    with run_host(out, card) as url, open_board(url, build_id=build_id) as board:
        session, told = Session(board), {}
        data = list(batches(made.prepared, None, STEPS))
        told["losses"] = [session.train_step(x, y).loss for x, y in data[:2]]
        board.checkpoint()
        told["saved"] = state(board)
        told["losses"] += [session.train_step(x, y).loss for x, y in data[2:]]
        told["trained"] = state(board)
        session.evaluate(data[0][0])
        output = next(t.name for t in board.tensors() if t.role.name == "EVAL_OUTPUT")
        told["output"] = board.read_tensor(output).tobytes()
        told["after evaluation"] = state(board)
        assert board.restore().step == 2
        assert state(board) == told["saved"]
        told["again"] = [session.train_step(x, y).loss for x, y in data[2:]]
        assert state(board) == told["trained"]
        told["moved"] = board.counters().sd_writes
    return told


@pytest.mark.parametrize("name", MODELS)
def test_no_report_and_the_same_bits_from_both_plans(
    name: str, tmp_path: Path, runtime: list[Path]
) -> None:
    told = {}
    for strategy in ("keep-all", "page-all"):
        (tmp_path / strategy).mkdir()
        made = planned(name, strategy, tmp_path / strategy)
        told[strategy] = used(made, tmp_path / strategy, runtime)
    kept, paged = told["keep-all"], told["page-all"]
    assert paged.pop("moved") > kept.pop("moved")
    assert kept == paged
    assert len(set(kept["losses"])) == STEPS
    assert kept["again"] == kept["losses"][2:]
    assert kept["after evaluation"] == kept["trained"] != kept["saved"]
