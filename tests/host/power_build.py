"""Generates a small model's C, and compiles it with the runtime and a test port for here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import models

from poet_mcu import resources
from poet_mcu.pipeline import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import Plan, plan
from poet_mcu.toolchain.flags import LANGUAGE, WARNINGS

HERE = Path(__file__).with_name("power")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
BOARD = "qemu-lm3s6965evb"
RUNTIME = ("checkpoint", "crc", "page_store", "status")


def generate(folder: Path, sizes: tuple[int, ...], **options: object) -> Plan:
    """The generated files of ``models.mlp`` in ``folder``; its plan."""
    path = models.save(models.mlp("N", sizes), folder / "mlp.onnx")
    planned = plan(Options(path, BOARD, batch=2, time_limit_s=5.0, **options))
    code = build._code_input(planned, planned.prepared.board)
    _, texts = build._with_build_id(code, planned.prepared.board)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return planned


def kernels(planned: Plan) -> list[Path]:
    """The files that define what both steps call, and the functions those share."""
    called = {
        i.call.function
        for step in (planned.train, planned.evaluation)
        for i in step.program.instructions
        if i.call is not None
    }
    files = sorted((resources.root() / "firmware" / "kernels").glob("*.c"))
    defined = {path: path.read_text("utf-8") for path in files}
    return [
        path
        for path, text in defined.items()
        if path.name in ("math.c", "product.c") or any(f"\nvoid {name}(" in text for name in called)
    ]


def compile_test(folder: Path, planned: Plan) -> Path:
    """The sweeps of power_test.c over the model in ``folder``.

    With sanitizers, but for the kernels: those have tests of their own, and take long to compile.
    """
    firmware = resources.root() / "firmware"
    sources = [firmware / "storage" / f"{name}.c" for name in RUNTIME]
    sources += [p for p in sorted((firmware / "train").glob("*.c")) if p.name != "main.c"]
    sources += [firmware / "link/link.c", *sorted(HERE.glob("*.c")), *sorted(folder.glob("*.c"))]
    objects = [folder / f"{path.stem}.o" for path in kernels(planned)]
    for path, target in zip(kernels(planned), objects, strict=True):
        run_gcc(folder, [path], target, "-c")
    program = folder / "power_test"
    run_gcc(folder, [*sources, *objects], program, *SANITIZE, "-lm")
    return program


def run_gcc(folder: Path, sources: list[Path], target: Path, *flags: str) -> None:
    strict = [*(flag for flag in LANGUAGE if flag != "-ffreestanding"), *WARNINGS]
    command = ["gcc", *strict, "-O1", f"-I{resources.root() / 'firmware' / 'include'}"]
    command += [f"-I{folder}", "-DPOET_FMA_FUSED=0", *map(str, sources), "-o", str(target), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
