"""Counts the instructions of every kernel on emulated Cortex-M cores.

``-icount shift=0`` makes QEMU take 1 ns per instruction; SysTick (25 MHz, 32 MHz on the AN547)
then tells the count, divided by enough repeats to be exact to one instruction. QEMU has no caches
and no wait states: these are instructions, not cycles of silicon.

``--check`` compares with tools/bench_kernels.json and fails when a kernel needs over 2 % more;
``--update`` rewrites that file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from poet_mcu.ops import conv_packed
from poet_mcu.ops.window import Window

ROOT = Path(__file__).resolve().parents[1]
BASELINE = ROOT / "tools" / "bench_kernels.json"
TOLERANCE = 0.02
SMALL = 200_000  # expected instructions up to which a kernel is repeated

CONV = "n c h w m oh ow kh kw stride_h stride_w pad_top pad_left dilation_h dilation_w groups"
POOL = "planes h w oh ow kh kw stride_h stride_w pad_top pad_left dilation_h dilation_w"


@dataclass(frozen=True)
class Core:
    """One emulated machine. ``fused`` is the target's POET_FMA_FUSED."""

    name: str
    machine: str
    flags: tuple[str, ...]
    fused: int
    tick_ns: float
    ram: str = "0x20000000"


HARD = "-mfloat-abi=hard"
CORES = (
    Core("m7", "mps2-an500", ("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", HARD), 1, 40.0),
    Core("m4f", "mps2-an386", ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", HARD), 1, 40.0),
    Core("m55", "mps3-an547", ("-mcpu=cortex-m55", HARD), 1, 31.25, "0x31000000"),
    Core("m3", "mps2-an385", ("-mcpu=cortex-m3", "-mfloat-abi=soft"), 0, 40.0),
)


@dataclass(frozen=True)
class Case:
    """One kernel call: C function without prefix, descriptor fields, work done."""

    name: str
    family: str
    function: str
    args: str
    shape: tuple[int, ...]
    macs: int = 0
    elements: int = 0

    @property
    def work(self) -> int:
        return self.macs or self.elements

    @property
    def floats(self) -> int:
        """No buffer of the call is larger; a multiple of 4, with some guard behind."""
        s = self.shape
        if self.function.startswith("conv2d"):
            sizes = [s[0] * s[1] * s[2] * s[3], s[0] * s[4] * s[5] * s[6]]
            sizes += [s[4] * s[1] // s[15] * s[7] * s[8]]
        elif self.function.startswith("dense"):
            sizes = [s[0] * s[1], s[1] * s[2], s[0] * s[2]]
        elif self.function.startswith("maxpool"):
            sizes = [s[0] * s[1] * s[2], s[0] * s[3] * s[4]]
        else:
            sizes = [self.elements]
        return max(sizes) // 4 * 4 + 64


def overlap(outs: int, size: int, kernel: int, stride: int, pad: int) -> int:
    """Pairs of (output, tap) along one axis whose input is no padding."""
    return sum(0 <= o * stride - pad + k < size for o in range(outs) for k in range(kernel))


def conv(
    label: str, n: int, c: int, size: int, m: int, k: int, stride: int = 1, groups: int = 1
) -> list[Case]:
    """Forward and both gradients of a square convolution with 'same' padding."""
    pad = k // 2
    out = (size + 2 * pad - k) // stride + 1
    shape = (n, c, size, size, m, out, out, k, k, stride, stride, pad, pad, 1, 1, groups)
    macs = n * m * (c // groups) * overlap(out, size, k, stride, pad) ** 2
    elements = n * m * out * out
    blocks = conv_packed.has_blocks(Window(*shape))
    fwd, bwd_x = ("conv_fwd", "conv_bwd_x") if blocks else ("conv_general", "conv_general")
    return [
        Case(f"{label}_fwd", fwd, "conv2d_fwd", "BIAS", shape, macs, elements),
        Case(f"{label}_bwd_x", bwd_x, "conv2d_bwd_x", "THREE", shape, macs, n * c * size**2),
        Case(f"{label}_bwd_w", "conv_bwd_w", "conv2d_bwd_w", "THREE", shape, macs, c * m * k * k),
        Case(f"{label}_bias", "conv_bwd_w", "channel_sum", "TWO", (n, m, out * out), 0, elements),
    ]


def packed(case: Case) -> list[Case]:
    """The packed forms of a convolution's case, with each workspace that they can have."""
    window = Window(*case.shape)
    back = case.function.endswith("bwd_x")
    packing = (conv_packed.back if back else conv_packed.forward)(window)
    return [
        Case(
            f"{case.name}_{variant}",
            "conv_packed",
            f"{case.function}_packed",
            "PACKED" if back else "PACKED_BIAS",
            (*case.shape, packing.work_floats(variant)),
            case.macs,
            case.elements,
        )
        for variant in conv_packed.useful(window, packing)
    ]


def dense(label: str, n: int, k: int, m: int, rows: int = 1) -> list[Case]:
    shape = (n, k, m, rows)
    macs = n * k * m
    return [
        Case(f"{label}_fwd", "dense_fwd", "dense_fwd", "BIAS", shape, macs, n * m),
        Case(f"{label}_bwd_x", "dense_bwd", "dense_bwd_x", "THREE", shape, macs, n * k),
        Case(f"{label}_bwd_w", "dense_bwd", "dense_bwd_w", "THREE", shape, macs, k * m),
    ]


def pool(label: str, planes: int, size: int, kernel: int = 2, stride: int = 2) -> list[Case]:
    out = (size - kernel) // stride + 1
    shape = (planes, size, size, out, out, kernel, kernel, stride, stride, 0, 0, 1, 1)
    outs = planes * out * out
    return [
        Case(f"{label}_fwd", "pool", "maxpool2d_fwd", "POOL", shape, 0, outs),
        Case(f"{label}_bwd", "pool", "maxpool2d_bwd", "POOL_BACK", shape, 0, outs),
    ]


def vectors(label: str, count: int) -> list[Case]:
    shape = (count,)
    return [
        Case(f"{label}_relu_fwd", "elementwise", "relu_fwd", "TWO", shape, 0, count),
        Case(f"{label}_relu_bwd", "elementwise", "relu_bwd", "THREE", shape, 0, count),
        Case(f"{label}_add", "elementwise", "add_fwd", "THREE", shape, 0, count),
        Case(f"{label}_mse", "loss", "mse", "LOSS", shape, 0, count),
        Case(f"{label}_sgd", "update", "sgd", "SGD", shape, 0, count),
    ]


def all_cases() -> list[Case]:
    cases: list[Case] = []
    for n in (1, 16):
        cases += conv(f"digits1_n{n}", n, 1, 8, 8, 3)
        cases += pool(f"digits_pool1_n{n}", n * 8, 8)
        cases += conv(f"digits2_n{n}", n, 8, 4, 16, 3)
        cases += pool(f"digits_pool2_n{n}", n * 16, 4)
        cases += dense(f"digits_fc_n{n}", n, 64, 10)
        shape = (n, 10)
        cases.append(Case(f"xent10_n{n}", "loss", "softmax_xent", "LOSS", shape, 0, n * 10))
    cases += conv("c16x32x16", 1, 16, 16, 32, 3)
    cases += conv("c16x32x8", 1, 16, 8, 32, 3)
    cases += conv("c3x16x32", 1, 3, 32, 16, 3)
    cases += conv("s2_16x32x16", 1, 16, 16, 32, 3, 2)
    cases += conv("k5_6x16x12", 1, 6, 12, 16, 5)
    cases += conv("pw32x64x8", 1, 32, 8, 64, 1)
    cases += conv("dw32x16", 1, 32, 16, 32, 3, 1, 32)
    cases += conv("dw32x16s2", 1, 32, 16, 32, 3, 2, 32)
    cases += conv("s2_32x64x8", 1, 32, 8, 64, 3, 2)
    cases += conv("pws2_16x32x16", 1, 16, 16, 32, 1, 2)
    cases += dense("fc256x64_n1", 1, 256, 64)
    cases += dense("fc256x64_n16", 16, 256, 64)
    cases += dense("fct256x64_n1", 1, 256, 64, 0)
    cases += dense("mm64", 64, 64, 64)
    cases += dense("mmt64", 64, 64, 64, 0)
    cases += vectors("v1024", 1024)
    cases += vectors("v10", 10)
    general = [case for case in cases if case.family == "conv_general"]
    return cases + [one for case in general for one in packed(case)]


def repeats_of(case: Case) -> int:
    """Enough for exact counts, too few for SysTick's 24 bits to run over, even in soft float."""
    expected = case.work * 12
    return 40 if expected < SMALL else 4 if expected < 10 * SMALL else 1


def case_table(cases: list[Case], prefix: str, *, verify: bool) -> str:
    rows = []
    for case in cases:
        values = ", ".join(map(str, case.shape))
        plain = f"(any_kernel *)plain_{case.function}_f32" if verify else "0"
        rows.append(
            f'    {{"{case.name}", (any_kernel *){prefix}_{case.function}_f32, {plain}, '
            f"ARGS_{case.args}, {repeats_of(case)}, {case.floats}, "
            f"{{{values}}}}},\n"
        )
    return "static const bench_case bench_cases[] = {\n" + "".join(rows) + "};\n"


LINKER = """ENTRY(reset)
SECTIONS {{
    . = 0;
    .text : {{ KEEP(*(.vectors)) *(.text*) *(.rodata*) *(.ARM.*) }}
    . = {ram};
    .data : {{ *(.data*) }}
    .bss : {{ *(.bss*) *(COMMON) }}
    . = ALIGN(8) + 0x4000;
    stack_top = .;
}}
"""


def build(core: Core, table: str, where: Path) -> Path:
    (where / "bench_cases.h").write_text(table, encoding="utf-8")
    script = where / "bench.ld"
    script.write_text(LINKER.format(ram=core.ram), encoding="utf-8")
    elf = where / "bench.elf"
    sources = sorted((ROOT / "firmware" / "kernels").glob("*.c"))
    sources += [ROOT / "tests/host/reference_kernels.c", ROOT / "tools/bench_kernels.c"]
    flags = ["-std=c11", "-O2", "-ffp-contract=off", "-ffreestanding", "-mthumb", *core.flags]
    include = [f"-I{ROOT / 'firmware' / 'include'}", f"-I{where}"]
    link = ["-nostartfiles", "-ffunction-sections", "-Wl,--gc-sections", f"-Wl,-T,{script}"]
    define = f"-DPOET_FMA_FUSED={core.fused}"
    command = ["arm-none-eabi-gcc", *flags, *include, define, *link, "-Wl,--no-warn-rwx-segments"]
    subprocess.run([*command, "-o", str(elf), *map(str, sources)], check=True)
    return elf


def answers(core: Core, cases: list[Case], prefix: str, *, verify: bool) -> dict[str, int]:
    """What the firmware prints for each case: SysTick ticks, or 1 when the bits agree."""
    with tempfile.TemporaryDirectory() as where:
        elf = build(core, case_table(cases, prefix, verify=verify), Path(where))
        command = ["qemu-system-arm", "-M", core.machine, "-nographic", "-monitor", "none"]
        command += ["-serial", "none", "-icount", "shift=0", "-kernel", str(elf)]
        command += ["-semihosting-config", "enable=on,target=native"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    lines = (done.stdout + done.stderr).split("\n")
    printed = dict(line.rsplit(" ", 1) for line in lines if line.count(" ") == 1)
    missing = [case.name for case in cases if case.name not in printed]
    if missing:
        sys.exit(f"{core.machine}: {missing[0]}: expected an answer, got none\n{done.stderr}")
    return {case.name: int(printed[case.name]) for case in cases}


def count(core: Core, cases: list[Case], prefix: str) -> dict[str, int]:
    """Instructions of one call of each case."""
    ticks = answers(core, cases, prefix, verify=False)
    return {case.name: round(ticks[case.name] * core.tick_ns / repeats_of(case)) for case in cases}


def differing(core: Core, cases: list[Case]) -> list[str]:
    """Names of the cases whose results on the core are not bit for bit the plain kernel's."""
    return [name for name, same in answers(core, cases, "poet", verify=True).items() if same != 1]


def table(core: Core, cases: list[Case], fast: dict[str, int], plain: dict[str, int]) -> str:
    head = f"{core.name} ({core.machine})"
    lines = [f"{head:28}{'instr':>10}{'MAC|elem':>10}{'per':>8}{'plain':>11}{'per':>8}{'x':>7}"]
    for case in cases:
        mine, other = fast[case.name], plain[case.name]
        per, plain_per = mine / case.work, other / case.work
        numbers = f"{mine:>10}{case.work:>10}{per:>8.2f}{other:>11}{plain_per:>8.2f}"
        lines.append(f"{case.name:28}{numbers}{other / mine:>7.2f}")
    return "\n".join(lines)


def digits_step(fast: dict[str, int], n: int) -> int:
    """Instructions of a training step of the digits CNN: conv-pool-conv-pool-dense, no dx of x."""
    skip = f"digits1_n{n}_bwd_x"
    names = [name for name in fast if name.startswith("digits") and f"_n{n}_" in name]
    return sum(fast[name] for name in names if name != skip) + fast[f"xent10_n{n}"]


def regressions(now: dict[str, dict[str, int]], then: dict[str, dict[str, int]]) -> list[str]:
    """One message for each kernel that needs over TOLERANCE more than the baseline."""
    found = []
    for core, counts in now.items():
        for name, value in counts.items():
            limit = then.get(core, {}).get(name)
            if limit is not None and value > limit * (1 + TOLERANCE) + 1:
                found.append(
                    f"{BASELINE.name}: {core} {name}: expected at most {limit} instructions, "
                    f"got {value}; make it faster or run --update"
                )
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--core", action="append", choices=[core.name for core in CORES])
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    parser.add_argument("--check", action="store_true", help="fail on a regression over 2 %%")
    parser.add_argument("--update", action="store_true", help="rewrite the committed counts")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    cases = [case for case in all_cases() if options.only in case.name]
    wanted = [core for core in CORES if options.core is None or core.name in options.core]
    results: dict[str, dict[str, int]] = {}
    plain: dict[str, dict[str, int]] = {}
    for core in wanted:
        results[core.name] = count(core, cases, "poet")
        if not options.check and not options.update:
            plain[core.name] = count(core, cases, "plain")
            print(table(core, cases, results[core.name], plain[core.name]), file=sys.stderr)
        if not options.only:
            steps = ", ".join(f"batch {n} {digits_step(results[core.name], n)}" for n in (1, 16))
            print(f"digits CNN step: {steps} instructions\n", file=sys.stderr)
    if options.json:
        print(json.dumps({"instructions": results, "plain": plain}, indent=1))
    if options.update:
        kept = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.is_file() else {}
        BASELINE.write_text(json.dumps(kept | results, indent=1) + "\n", encoding="utf-8")
    if options.check:
        found = regressions(results, json.loads(BASELINE.read_text(encoding="utf-8")))
        print("\n".join(found), file=sys.stderr)
        return 1 if found else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
