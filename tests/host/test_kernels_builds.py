"""The kernels compile without a warning for every core and run clean under sanitizers."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import kernel_build as kb
import numpy as np
import pytest

sys.path.insert(0, str(kb.ROOT / "tools"))
import bench_figures
import bench_kernels as bench

from poet_mcu.bench import cases as bench_cases
from poet_mcu.bench.recurrent import every_case
from poet_mcu.ir.graph import DType
from poet_mcu.ops.table import OPERATORS

HARD = "-mfloat-abi=hard"
TARGETS = {
    "m0plus": ["-mcpu=cortex-m0plus"],
    "m3": ["-mcpu=cortex-m3"],
    "m4f": ["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", HARD],
    "m7": ["-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", HARD],
    "m33": ["-mcpu=cortex-m33", "-mfpu=fpv5-sp-d16", HARD],
    "m55": ["-mcpu=cortex-m55", HARD],
}
#: libgcc or newlib functions the kernels may need; nothing of double precision
ALLOWED = {"memset", "memcpy"}
SOFT_FLOAT = """__aeabi_fadd __aeabi_fsub __aeabi_fmul __aeabi_fdiv __aeabi_fcmpeq __aeabi_fcmplt
    __aeabi_fcmple __aeabi_fcmpge __aeabi_fcmpgt __aeabi_fcmpun __aeabi_i2f __aeabi_f2iz
    __aeabi_uidiv __aeabi_idiv __aeabi_idivmod __aeabi_uidivmod"""


@pytest.mark.parametrize("level", ["-O2", "-Os"])
@pytest.mark.parametrize("fused", [0, 1])
@pytest.mark.parametrize("target", TARGETS)
def test_cross_build_is_clean(tmp_path, target, fused, level):
    hard = HARD in TARGETS[target]
    if fused and not hard:
        fused = 0  # a core without FPU has no fused multiply-add
    command = ["arm-none-eabi-gcc", *kb.BASE, *kb.WARNINGS, level, "-mthumb", *TARGETS[target]]
    command += [f"-DPOET_FMA_FUSED={fused}", "-fstack-usage", "-c"]
    subprocess.run([*command, *map(str, kb.KERNELS)], check=True, cwd=tmp_path)
    objects = sorted(map(str, tmp_path.glob("*.o")))
    assert len(objects) == len(kb.KERNELS)
    names = subprocess.run(
        ["arm-none-eabi-nm", "-u", *objects], check=True, capture_output=True, text=True
    ).stdout
    needed = {line.split()[-1] for line in names.splitlines() if line.strip().startswith("U ")}
    outside = {name for name in needed if not name.startswith("poet_")}
    assert outside <= ALLOWED | (set() if hard else set(SOFT_FLOAT.split())), outside
    sizes = subprocess.run(
        ["arm-none-eabi-size", "-t", *objects], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    text, data, bss = map(int, sizes[-1].split()[:3])
    assert text < 128 * 1024  # all kernels; a firmware links what it calls
    assert (data, bss) == (0, 0)
    frames = [line.split("\t") for path in tmp_path.glob("*.su") for line in path.open()]
    # The largest is that of the packed convolution and its 4 x 4 sums; boards have 2 KiB and more.
    assert max(int(frame[1]) for frame in frames) <= 640
    assert {frame[2].strip() for frame in frames} <= {"static", "dynamic,bounded"}


@pytest.mark.parametrize("fused", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_sanitizers_find_nothing(tmp_path, fused):
    program = tmp_path / "sanitize"
    source = kb.ROOT / "tests" / "host" / "kernels_sanitize.c"
    command = ["gcc", "-std=c11", "-ffp-contract=off", f"-I{kb.ROOT / 'firmware' / 'include'}"]
    command += ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command += [*kb.WARNINGS, f"-DPOET_FMA_FUSED={fused}", "-o", str(program)]
    files = [str(source), *map(str, [*kb.KERNELS, kb.REFERENCE])]
    subprocess.run([*command, *files, "-lm"], check=True)
    done = subprocess.run([str(program), "400"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "400 rounds\n"), done.stdout + done.stderr


def lopsided(size: int, c: int, m: int, stride: int, groups: int) -> list[bench_cases.Case]:
    """3 x 3 convolutions without padding, with padding at the end only, at the start only."""
    cases = []
    for before, after in ((0, 0), (0, 1), (1, 0)):
        out = (size + before + after - 3) // stride + 1
        x, w, y = (2, c, size, size), (m, c // groups, 3, 3), (2, m, out, out)
        attrs = {
            "pads": (before, before, after, after), "strides": (stride,) * 2,
            "dilations": (1, 1), "group": groups,
        }  # fmt: skip
        back = {**attrs, "x_shape": x, "w_shape": w}
        label = f"p{size}_{c}_{stride}_{groups}_{before}{after}"
        cases += [
            bench_cases.Case(f"{label}_fwd", "conv2d", bench_cases.floats(x, w, (m,)), attrs),
            bench_cases.Case(f"{label}_bwd_x", "conv2d_bwd_x", bench_cases.floats(y, w), back),
            bench_cases.Case(f"{label}_bwd_w", "conv2d_bwd_w", bench_cases.floats(x, y), back),
        ]
    return cases


def awkward_cases() -> list[bench_cases.Case]:
    """Shapes that end in the middle of a block, for the cores whose code the host cannot run."""
    cases = []
    for size in (1, 2, 3, 4, 5, 6, 7, 9):
        for c, m, k, stride, groups in (
            (1, 5, 3, 1, 1), (6, 7, 3, 1, 1), (5, 3, 3, 2, 1), (3, 6, 5, 1, 3), (4, 4, 2, 1, 4),
            (7, 9, 1, 1, 1), (6, 6, 3, 1, 6), (6, 6, 3, 2, 6),
        ):  # fmt: skip
            label = f"a{size}_{c}_{m}_{k}_{stride}_{groups}"
            cases += bench_cases.conv(label, 2, c, size, m, k, stride, groups)
    for size in (3, 4, 5, 8, 13):
        for c, m, stride, groups in ((5, 6, 1, 1), (3, 4, 2, 1), (7, 7, 1, 7), (7, 7, 2, 7)):
            cases += lopsided(size, c, m, stride, groups)
    for n, k, m, rows in ((1, 9, 7, 1), (3, 6, 10, 0), (7, 33, 5, 1), (6, 5, 9, 0)):
        cases += bench_cases.dense(f"d{n}_{k}_{m}_{rows}", n, k, m, rows)
    cases += bench_cases.pool("p7_3_2", 3, 7, 3, 2) + bench_cases.pool("p5_2_1", 2, 5, 2, 1)
    for count in (1, 3, 8, 21):
        cases += bench_cases.vectors(f"v{count}_odd", count)
    odd = [case for case in cases if case.op in ("maxpool2d", "relu", "relu_bwd")]
    odd += [case for size in (4, 6, 9) for case in bench_cases.pool(f"square{size}", 5, size)[:2]]
    cases += [replace(case, name=f"{case.name}_nan", odd=True) for case in odd]
    return cases + every_case()


@pytest.mark.qemu
@pytest.mark.parametrize("core", [core.name for core in bench.CORES])
def test_bits_on_the_core(core):
    """In the emulator the fast kernels give the bits of the plain ones: vector lanes included."""
    target = next(c for c in bench.CORES if c.name == core)
    cases = awkward_cases()
    assert bench.differing(target, cases) == []


def test_every_kernel_has_a_row():
    """A kernel of poet/kernels.h that the benchmark does not call would not be watched.

    Those that make some rows of a gradient are parts of the kernels that end in an update.
    """
    command = ["gcc", "-E", "-P", f"-I{kb.ROOT / 'firmware' / 'include'}", "-xc", "-"]
    text = '#include "poet/kernels.h"\n'
    done = subprocess.run(command, input=text, check=True, capture_output=True, text=True)
    declared = set(re.findall(r"\bpoet_\w+_f32\b", done.stdout))
    declared -= {name for name in declared if name.endswith("_rows_f32")}
    assert set(bench_cases.functions(every_case())) == declared


def test_rows_are_legal_calls():
    """The operators' own references take the shapes and give finite numbers."""
    rng = np.random.default_rng(0)
    for case in every_case():
        inputs = [
            (rng.random(kind.shape) * (1 - case.low) + case.low).astype(np.float32)
            if kind.dtype is DType.F32
            else (np.arange(kind.elements) % case.below)
            .reshape(kind.shape)
            .astype(kind.dtype.numpy)
            for kind in case.inputs
        ]
        operator = OPERATORS[case.op]
        found = operator.reference(inputs, {**case.attrs, "lr": 0.01, "updates": 0})
        assert len(found) == len(operator.mutates) + len(case.outputs), case.name
        for array, kind in zip(found[len(operator.mutates) :], case.outputs, strict=True):
            assert (array.shape, np.isfinite(array).all()) == (kind.shape, True), case.name


@pytest.mark.qemu
def test_instruction_counts_hold(capsys):
    """The committed counts of the Cortex-M7 are not exceeded by more than 2 %."""
    core = next(c for c in bench.CORES if c.name == "m7")
    counts = bench.count(core, every_case())
    now = {"m7": bench.rows_of(counts)}
    assert set(counts) == set(bench_figures.load(bench.FIGURES)["m7"])
    assert bench_figures.check(now, bench.FIGURES) == 0, capsys.readouterr().err
