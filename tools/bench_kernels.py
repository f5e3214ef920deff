"""Counts the instructions of every kernel on emulated Cortex-M cores, and its bytes of code.

    python tools/bench_kernels.py --only mm64 --core m7   a table of some rows
    python tools/bench_kernels.py --check          fails on a regression over 2 %
    python tools/bench_kernels.py --update         rewrites the committed figures

``-icount shift=0`` makes QEMU take 1 ns per instruction; SysTick (25 MHz, 32 MHz on the AN547)
then tells the count, divided by enough repeats to be exact to one instruction. QEMU has no caches
and no wait states: these are instructions, not cycles of silicon. The plain kernels of
tests/host/reference_kernels.c are counted in the same run where a kernel has one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bench_figures

from poet_mcu.bench.case import Case
from poet_mcu.bench.cases import functions
from poet_mcu.bench.recurrent import every_case
from poet_mcu.bench.table import ALIGNMENT, ARENA, GUARD, arena_bytes, calls, repeats_of, rows
from poet_mcu.toolchain.elf import measure

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "tools" / "bench_kernels.json"
SIZES = ROOT / "tools" / "bench_sizes.json"
KERNELS = ROOT / "firmware" / "kernels"
PLAIN = ROOT / "tests" / "host" / "reference_kernels.c"
PLAIN_NAMES = ROOT / "tests" / "host" / "plain_names.h"


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
SOFT = "-mfloat-abi=soft"
CORES = (
    Core("m7", "mps2-an500", ("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", HARD), 1, 40.0),
    Core("m4f", "mps2-an386", ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", HARD), 0, 40.0),
    Core("m55", "mps3-an547", ("-mcpu=cortex-m55", HARD), 1, 31.25, "0x31000000"),
    Core("m3", "mps2-an385", ("-mcpu=cortex-m3", SOFT), 0, 40.0),
    # Armv6-M code on a Cortex-M3, which runs it as it stands: the AN385 has the memory for it.
    Core("m0plus", "mps2-an385", ("-mcpu=cortex-m0plus", SOFT), 0, 40.0),
)


@dataclass(frozen=True)
class Count:
    """Instructions of one call; ``plain`` None: there is no plain kernel, or it was not asked."""

    instructions: int
    plain: int | None = None


def has_plain(case: Case) -> bool:
    """Whether tests/host/reference_kernels.c has this kernel too."""
    return f"#define {case.kernel.function} " in PLAIN_NAMES.read_text(encoding="utf-8")


def case_table(cases: Sequence[Case], plain: Sequence[Case], *, once: bool) -> str:
    """The C text of bench_cases.h: the calls and the table of cases; ``plain`` have both."""
    size = arena_bytes(cases)
    parts = [f"#define BENCH_GUARD {GUARD}U"]
    parts += [f"uint8_t arena[{size}] __attribute__((aligned({ALIGNMENT})));", ARENA]
    parts += calls(cases, "fast")
    parts += [f"void plain_{i}(void);" for i in range(len(plain))]
    table = rows(cases, plain, once=once)
    return "\n".join([*parts, "static const poet_case bench_cases[] = {", *table, "};", ""])


PLAIN_HEAD = f"""#include "plain_names.h"
#include "poet/kernels.h"
{ARENA}"""
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


def compiler(core: Core, where: Path) -> list[str]:
    """The command that compiles C for the core."""
    flags = ["-std=c11", "-O2", "-ffp-contract=off", "-ffreestanding", "-mthumb", *core.flags]
    flags += ["-ffunction-sections", "-fdata-sections", f"-DPOET_FMA_FUSED={core.fused}"]
    folders = [ROOT / "firmware" / "include", PLAIN.parent, where]
    return ["arm-none-eabi-gcc", *flags, *(f"-I{folder}" for folder in folders)]


def objects(
    core: Core, sources: Sequence[Path], where: Path, extra: Sequence[str] = ()
) -> list[str]:
    """Compile ``sources`` into ``where``; the objects."""
    pairs = [(source, str(where / f"{source.stem}.o")) for source in sources]
    command = [*compiler(core, where), *extra]
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(
            lambda pair: subprocess.run([*command, "-c", str(pair[0]), "-o", pair[1]], check=True),
            pairs,
        )
        list(done)
    return [target for _, target in pairs]


def build(
    core: Core,
    cases: Sequence[Case],
    where: Path,
    *,
    plain: bool,
    verify: bool = False,
    once: bool = False,
) -> Path:
    """The firmware that runs ``cases``; with ``once`` each a single time."""
    both = [case for case in cases if plain and has_plain(case)]
    (where / "bench_cases.h").write_text(case_table(cases, both, once=once), encoding="utf-8")
    twins, script, elf = where / "bench_plain.c", where / "bench.ld", where / "bench.elf"
    twins.write_text("\n".join([PLAIN_HEAD, *calls(both, "plain"), ""]), encoding="utf-8")
    script.write_text(LINKER.format(ram=core.ram), encoding="utf-8")
    sources = [*sorted(KERNELS.glob("*.c")), PLAIN, twins, ROOT / "tools" / "bench_kernels.c"]
    mode = [f"-DBENCH_VERIFY={int(verify)}", f"-DBENCH_ONCE={int(once)}"]
    made = objects(core, sources, where, mode)
    link = ["-nostartfiles", "-Wl,--gc-sections", f"-Wl,-T,{script}", "-Wl,--no-warn-rwx-segments"]
    subprocess.run([*compiler(core, where), *link, "-o", str(elf), *made], check=True)
    return elf


def answers(
    core: Core, cases: Sequence[Case], *, plain: bool, verify: bool = False
) -> dict[str, tuple[int, int]]:
    """Two numbers for each case: SysTick ticks of both kernels, or 0 and whether bits agree."""
    with tempfile.TemporaryDirectory() as where:
        elf = build(core, cases, Path(where), plain=plain, verify=verify)
        command = ["qemu-system-arm", "-M", core.machine, "-nographic", "-monitor", "none"]
        command += ["-serial", "none", "-icount", "shift=0", "-kernel", str(elf)]
        command += ["-semihosting-config", "enable=on,target=native"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    lines = (done.stdout + done.stderr).split("\n")
    printed = dict(line.split(" ", 1) for line in lines if line.count(" ") == 2)
    missing = [case.name for case in cases if case.name not in printed]
    if missing:
        sys.exit(f"{core.machine}: {missing[0]}: expected an answer, got none\n{done.stderr}")
    pairs = {case.name: printed[case.name].split() for case in cases}
    return {name: (int(first), int(second)) for name, (first, second) in pairs.items()}


def count(core: Core, cases: Sequence[Case], *, plain: bool = False) -> dict[str, Count]:
    """Instructions of one call of each case."""
    ticks, found = answers(core, cases, plain=plain), {}
    for case in cases:
        fast, other = (round(n * core.tick_ns) for n in ticks[case.name])
        found[case.name] = Count(round(fast / repeats_of(case)), other or None)
    return found


def differing(core: Core, cases: Sequence[Case]) -> list[str]:
    """Names of the cases that on the core write behind their buffers, or other bits than plain."""
    found = answers(core, cases, plain=True, verify=True)
    return [name for name, (_, same) in found.items() if not same]


def code_bytes(core: Core, names: Sequence[str]) -> dict[str, int]:
    """Code and constants of each kernel function linked alone, with all it calls of our own.

    What several kernels share is counted in each of them; libgcc and libc are not counted.
    """
    with tempfile.TemporaryDirectory() as folder:
        where, elf = Path(folder), Path(folder) / "one.elf"
        made = objects(core, sorted(KERNELS.glob("*.c")), where)
        link = ["-nostdlib", "-Wl,--gc-sections", "-Wl,--unresolved-symbols=ignore-all"]
        command = [*compiler(core, where), *link, "-Wl,--no-warn-rwx-segments", "-o", str(elf)]
        found = {}
        for name in names:
            subprocess.run([*command, f"-Wl,-e,{name}", *made], check=True)
            found[name] = measure(elf).text
    return found


def table(core: Core, cases: Sequence[Case], found: dict[str, Count]) -> str:
    """The counts for people."""
    head = f"{core.name} ({core.machine})"
    lines = [f"{head:32}{'instr':>10}{'work':>10}{'per':>8}{'plain':>11}{'per':>8}{'x':>7}"]
    for case in cases:
        one = found[case.name]
        text = f"{case.name:32}{one.instructions:>10}{case.work:>10}"
        text += f"{one.instructions / case.work:>8.2f}"
        if one.plain is not None:
            text += f"{one.plain:>11}{one.plain / case.work:>8.2f}"
            text += f"{one.plain / one.instructions:>7.2f}"
        lines.append(text)
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--core", action="append", choices=[core.name for core in CORES])
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    parser.add_argument("--check", action="store_true", help="fail on a regression over 2 %%")
    parser.add_argument("--update", action="store_true", help="rewrite the committed figures")
    parser.add_argument("--sizes", action="store_true", help="rewrite the committed bytes of code")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    return parser.parse_args()


def main() -> int:
    """0, or 1 with --check when a kernel needs over 2 % more than committed."""
    options = arguments()
    every = every_case()
    cases = [case for case in every if options.only in case.name]
    wanted = [core for core in CORES if options.core is None or core.name in options.core]
    results: dict[str, dict[str, Count]] = {}
    for core in wanted:
        # In soft float both spend their time in libgcc.
        results[core.name] = count(core, cases, plain=not options.check and HARD in core.flags)
        print(table(core, cases, results[core.name]), file=sys.stderr, flush=True)
        if options.update:
            names = [case.name for case in every]
            bench_figures.save(FIGURES, {core.name: rows_of(results[core.name])}, names)
    if options.sizes:
        sizes = {core.name: code_bytes(core, functions(cases)) for core in wanted}
        bench_figures.save(SIZES, sizes, functions(every))
    figures = {core: rows_of(rows) for core, rows in results.items()}
    if options.json:
        print(json.dumps(figures, indent=1))
    return bench_figures.check(figures, FIGURES) if options.check else 0


def rows_of(counts: dict[str, Count]) -> dict[str, dict[str, int]]:
    """The JSON form."""
    return {
        name: {"instructions": one.instructions}
        | ({} if one.plain is None else {"plain": one.plain})
        for name, one in counts.items()
    }


if __name__ == "__main__":
    sys.exit(main())
