"""Cost tables of silicon: executed instructions, priced by each core's issue rules.

    python tools/estimate_costs.py             rewrites boards/cost/cortex_*_silicon.toml

Every small case of the benchmark runs in QEMU, which logs the blocks it executes (-d in_asm,exec).
Each block is priced by the published rules of the core (instruction timing of Arm's technical
reference manuals of the Cortex-M4 and M0+, LLVM's ARMScheduleM7.td, gcc's cortex-m4-fpu.md), with
all memory at full speed. Silicon is slower: MLPerf Tiny's float32 image classification, by another
library, takes 2.78 cycles per multiply-add on a Cortex-M7 at 280 MHz and 5.76 on a Cortex-M4F at
150 MHz (v1.2, Bosch HALE). The tables stand in the geometric middle of the two, so they should be
right within the factor that they name. They are estimates until a board is measured.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bench_figures
import bench_kernels
from fit_costs import FOLDER

from poet_mcu.bench.case import Case
from poet_mcu.bench.cases import common_cases
from poet_mcu.bench.fit import FEATURES, family_table
from poet_mcu.bench.select import common_names

#: cases of at most so many instructions on their core are logged
LARGEST = 45_000
LARGEST_SOFT = 1_000_000
#: a 3 x 3 convolution, which the published network spends its time in
ANCHOR = "digits2_n1_fwd"

_MULTIPLE = re.compile(r"^(v?)(ldm|stm|push|pop)")
_LOAD = re.compile(r"^v?ldr")
_STORE = re.compile(r"^v?str")
_SLOW = re.compile(r"^v(div|sqrt)")


@dataclass(frozen=True)
class Instruction:
    """One executed instruction: what decides its cycles."""

    name: str
    words: int  # moved from or to memory; 0: none

    @property
    def vector(self) -> bool:
        """Computes in the FPU."""
        return self.name.startswith("v") and not self.words

    @property
    def slow(self) -> bool:
        """Division or square root."""
        return _SLOW.match(self.name) is not None

    @property
    def multiple(self) -> bool:
        return _MULTIPLE.match(self.name) is not None


def parse(name: str, operands: str) -> Instruction:
    """From the words of a disassembly."""
    if _MULTIPLE.match(name):
        inside = operands[operands.index("{") + 1 : operands.index("}")].split(",")
        return Instruction(name, len(inside) * (2 if inside[0].strip().startswith("d") else 1))
    if _LOAD.match(name) or _STORE.match(name):
        double = operands.startswith("d") or name.startswith(("ldrd", "strd"))
        return Instruction(name, 2 if double else 1)
    return Instruction(name, 0)


Block = Sequence[Instruction]


def cortex_m7(block: Block, taken: bool) -> float:
    """Two a cycle; one FPU operation, two loads of a word or one store; multiples go alone."""
    alone = sum(-(-i.words // 2) for i in block if i.multiple)
    rest = [i for i in block if not i.multiple]
    fpu = sum(1 for i in rest if i.vector)
    memory = sum(1.0 if _STORE.match(i.name) else i.words / 2 for i in rest if i.words)
    slow = sum(15 for i in rest if i.slow)  # 16 in all
    return max(len(rest) / 2, fpu, memory) + alone + slow + taken


def _one_by_one(block: Block, slow: int, fused: int) -> float:
    """Single issue: loads and stores 2 or 1 + words, the rest 1."""
    cycles = 0.0
    for one in block:
        if one.words:
            cycles += 1 + one.words
        elif one.slow:
            cycles += slow
        else:
            cycles += fused if one.name.startswith(("vfma", "vfms", "vmla")) else 1
    return cycles


def cortex_m4f(block: Block, taken: bool) -> float:
    """Single issue; VFMA holds the FPU for 3 cycles; a taken branch refills for 2."""
    return _one_by_one(block, 14, 3) + 2 * taken


def cortex_m33(block: Block, taken: bool) -> float:
    """As a Cortex-M4 with a multiply-add each cycle and branches of 2 (both unverified)."""
    return _one_by_one(block, 14, 1) + taken


def cortex_m0plus(block: Block, taken: bool) -> float:
    """Single issue, two stages: a taken branch refills for 1; multiplier of one cycle."""
    return _one_by_one(block, 1, 1) + taken


@dataclass(frozen=True)
class Silicon:
    """A table: whose code was logged, the rules, and published cycles per MAC (None: none)."""

    name: str
    title: str
    core: str
    rules: Callable[[Block, bool], float]
    published: float | None


TABLES = (
    Silicon("cortex_m7_silicon", "a Cortex-M7 (stm32f7)", "m7", cortex_m7, 2.78),
    Silicon("cortex_m4f_silicon", "a Cortex-M4F", "m4f", cortex_m4f, 5.76),
    Silicon("cortex_m33_silicon", "a Cortex-M33 with FPU", "m7", cortex_m33, None),
    Silicon("cortex_m0plus_silicon", "a Cortex-M0+", "m0plus", cortex_m0plus, None),
)

_TRACE = re.compile(r"Trace \d+: (0x[0-9a-f]+) \[[0-9a-f]+/([0-9a-f]+)/\S*\] ?(\S*)")
_CODE = re.compile(r"^0x([0-9a-f]+):\s+([0-9a-f ]+?)  +(\S+)\s*(.*)$")


def executed(log: Iterator[str]) -> Iterator[tuple[int, int, Block]]:
    """Start, end and instructions of each block as it ran."""
    known: dict[str, tuple[int, Block]] = {}
    fresh: list[Instruction] = []
    end = 0
    for line in log:
        code = _CODE.match(line)
        if code:
            fresh.append(parse(code[3], code[4]))
            end = int(code[1], 16) + len(code[2].replace(" ", "")) // 2
            continue
        trace = _TRACE.search(line)
        if trace:
            if fresh:
                known[trace[1]] = (end, tuple(fresh))
                fresh = []
            after, block = known[trace[1]]
            yield int(trace[2], 16), after, block


def cycles_of(
    core: bench_kernels.Core, cases: Sequence[Case], rules: Sequence[Callable[[Block, bool], float]]
) -> list[dict[str, int]]:
    """For each set of rules the cycles of each case, from entry to return."""
    totals = [{case.name: 0.0 for case in cases} for _ in rules]
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        elf = bench_kernels.build(core, cases, where, plain=False, once=True)
        entries = _entries(elf)
        command = ["qemu-system-arm", "-M", core.machine, "-nographic", "-monitor", "none"]
        command += ["-serial", "none", "-kernel", str(elf), "-d", "in_asm,exec,nochain"]
        command += ["-semihosting-config", "enable=on,target=native", "-D", str(where / "log")]
        subprocess.run(command, check=True, capture_output=True, timeout=900)
        prices: dict[tuple[int, Block, bool], list[float]] = {}
        current = ""
        with (where / "log").open(encoding="utf-8", errors="replace") as log:
            blocks = executed(iter(log))
            last: tuple[int, int, Block] | None = None
            for block in blocks:
                if last is not None and current:
                    key = (last[0], last[2], block[0] != last[1])
                    if key not in prices:
                        prices[key] = [rule(last[2], key[2]) for rule in rules]
                    for total, price in zip(totals, prices[key], strict=True):
                        total[current] += price
                at = entries.get(block[0])
                if at is not None:
                    current = cases[at].name if at >= 0 else ""
                last = block
    return [{name: round(value) for name, value in total.items()} for total in totals]


def _entries(elf: Path) -> dict[int, int]:
    """Address of each case's call -> its number; of what runs between two cases -> -1."""
    listing = subprocess.run(
        ["arm-none-eabi-nm", str(elf)], check=True, capture_output=True, text=True
    ).stdout
    found = {}
    for address, _, name in (line.split() for line in listing.splitlines() if line.count(" ") == 2):
        if name.startswith("fast_"):
            found[int(address, 16)] = int(name.removeprefix("fast_"))
        elif name == "prepare":
            found[int(address, 16)] = -1
    return found


def render(one: Silicon, cycles: dict[str, int], cases: list[Case], middle: float) -> str:
    """The TOML text; every price is ``middle`` times the one by issue rules."""
    lines = [f"# Kernels on {one.title}, estimated.", "# Written by tools/estimate_costs.py."]
    for family, fitted in family_table(cycles, cases, common_names()).items():
        prices = [float(f"{middle * price:.4g}") for price in fitted.prices]
        lines += ["", f"[cost.{family}]"]
        lines += [f"cycles_per_{n} = {p!r}" for n, p in zip(FEATURES, prices, strict=True)]
        lines += ["estimated = true", 'source = """Instructions executed in QEMU, priced by the \\']
        lines.append(f"core's issue rules (tools/estimate_costs.py) and times {middle:.2f}: \\")
        basis = (
            f"published {one.published} cycles per MAC" if one.published else "as on a Cortex-M4F"
        )
        lines.append("the geometric middle between full-speed memory and what silicon showed, \\")
        lines.append(f'{basis} (MLPerf Tiny v1.2, float32). Not measured."""')
    return "\n".join(lines) + "\n"


def main() -> int:
    """0; the tables are rewritten."""
    figures = bench_figures.load(bench_kernels.FIGURES)
    cycles: dict[str, dict[str, int]] = {}
    used: dict[str, list[Case]] = {}
    for core in bench_kernels.CORES:
        tables = [one for one in TABLES if one.core == core.name]
        if not tables:
            continue
        limit = LARGEST_SOFT if "soft" in core.flags[-1] else LARGEST
        counts = figures[core.name]
        cases = [c for c in common_cases() if counts[c.name]["instructions"] <= limit]
        found = cycles_of(core, cases, [one.rules for one in tables])
        for one, mine in zip(tables, found, strict=True):
            cycles[one.name], used[one.name] = mine, cases
    texts = {}
    for one in TABLES:
        # What memory costs where nothing is published: the share it has on the Cortex-M4F.
        known = one if one.published else TABLES[1]
        macs = next(case for case in used[known.name] if case.name == ANCHOR).cost.macs
        middle = math.sqrt((known.published or 1) / (cycles[known.name][ANCHOR] / macs))
        texts[one.name] = render(one, cycles[one.name], used[one.name], middle)
        print(f"{one.name}.toml: from {len(used[one.name])} cases, times {middle:.2f}")
    for name, text in texts.items():
        (FOLDER / f"{name}.toml").write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
