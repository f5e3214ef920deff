"""Generates a small model's C, and compiles it with the runtime and a test port for here."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

import models
import numpy as np
import onnx

from poet_mcu import resources
from poet_mcu.pipeline import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import Plan, plan
from poet_mcu.toolchain.flags import LANGUAGE, WARNINGS

HERE = Path(__file__).with_name("power")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
BOARD = "qemu-lm3s6965evb"
KERNELS = (
    "accumulate", "activations", "adam", "add", "conv2d", "dense", "dropout", "ended",
    "fused_update", "math", "momentum", "product", "relu", "rmsprop", "sgd", "softmax_xent",
)  # fmt: skip
RUNTIME = ("checkpoint", "crc", "page_store", "status")


def generate(
    folder: Path,
    sizes: tuple[int, ...],
    *,
    dropout: bool = False,
    board: str = BOARD,
    **options: object,
) -> Plan:
    """The generated files of ``models.mlp`` in ``folder``, with ``dropout`` in it; its plan."""
    proto = models.mlp("N", sizes)
    if dropout:
        _drop(proto)
    path = models.save(proto, folder / "mlp.onnx")
    planned = plan(Options(path, board, batch=2, time_limit_s=5.0, **options))
    code = build._code_input(planned, planned.prepared.board)
    _, texts = build._with_build_id(code, planned.prepared.board)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return planned


def _drop(proto: onnx.ModelProto) -> None:
    """A Dropout behind the first Relu, which is the second node."""
    ratio = onnx.numpy_helper.from_array(np.asarray(0.4, np.float32), "ratio")
    mode = onnx.numpy_helper.from_array(np.asarray(True), "mode")
    proto.graph.initializer.extend([ratio, mode])
    relu, gemm = proto.graph.node[1], proto.graph.node[2]
    drop = models.node("Dropout", f"{relu.output[0]} ratio mode", "dropped")
    gemm.input[0] = "dropped"
    proto.graph.node.insert(2, drop)


@functools.cache
def kernels() -> tuple[Path, ...]:
    """What the models of ``generate`` call, compiled once and without sanitizers.

    The kernels have tests of their own, and take long to compile.
    """
    folder = Path(tempfile.mkdtemp(prefix="poet-mcu-power-"))
    firmware = resources.root() / "firmware" / "kernels"
    for name in KERNELS:
        run_gcc(folder, [firmware / f"{name}.c"], folder / f"{name}.o", "-c")
    return tuple(folder / f"{name}.o" for name in KERNELS)


def runtime(folder: Path, storage: tuple[str, ...]) -> list[Path]:
    """Trainer, link and storage of the firmware, the model, and the host's side of the line."""
    firmware = resources.root() / "firmware"
    sources = [firmware / "storage" / f"{name}.c" for name in storage]
    sources += [p for p in sorted((firmware / "train").glob("*.c")) if p.name != "main.c"]
    sources += [firmware / "link/link.c", HERE / "host_session.c", *sorted(folder.glob("*.c"))]
    return sources


def compile_test(folder: Path) -> Path:
    """The sweeps of power_test.c over the model in ``folder``, with sanitizers."""
    sources = [HERE / "power_test.c", HERE / "cache_card.c", *runtime(folder, RUNTIME)]
    program = folder / "power_test"
    run_gcc(folder, [*sources, *kernels()], program, *SANITIZE, "-lm")
    return program


def compile_faults(folder: Path) -> Path:
    """card_fault_test.c: the same model over the SD driver and the model of a card."""
    sources = [HERE.with_name("faults") / f"{name}.c" for name in ("card_fault_test", "scenario")]
    sources += [HERE.with_name("storage") / f"sd_card_{part}.c" for part in ("bus", "model")]
    sources += runtime(folder, (*RUNTIME, "sd_bus", "sd_csd", "sd_spi"))
    program = folder / "card_fault_test"
    run_gcc(folder, [*sources, *kernels()], program, *SANITIZE, "-lm")
    return program


def run_gcc(folder: Path, sources: list[Path], target: Path, *flags: str) -> None:
    strict = [*(flag for flag in LANGUAGE if flag != "-ffreestanding"), *WARNINGS]
    command = ["gcc", *strict, "-O1", f"-I{resources.root() / 'firmware' / 'include'}"]
    command += [f"-I{folder}", "-DPOET_FMA_FUSED=0", *map(str, sources), "-o", str(target), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
