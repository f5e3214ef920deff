"""Turns counted instructions into the cost tables of the emulated boards.

    python tools/bench_kernels.py --update     counts; writes tools/bench_kernels.json
    python tools/fit_costs.py                  fits; rewrites boards/cost/cortex_*.toml

poet_mcu/bench/fit.py says how. One instruction is taken as one cycle, which is true for QEMU with
-icount and for no silicon.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bench_kernels import FIGURES

from poet_mcu.bench.case import Case
from poet_mcu.bench.fit import FEATURES, family_table
from poet_mcu.bench.recurrent import every_case
from poet_mcu.bench.select import common_names

FOLDER = Path(__file__).resolve().parents[1] / "boards" / "cost"
#: core of the benchmark -> table, what it is, measured on the very core of the boards
TABLES = {
    "m3": [("cortex_m3_soft", "a Cortex-M3 without FPU, libgcc soft float", True)],
    "m4f": [("cortex_m4f", "a Cortex-M4 with single-precision FPU, multiply and add apart", True)],
    "m7": [
        ("cortex_m7", "a Cortex-M7 with FPU, fused multiply-add", True),
    ],
    "m55": [("cortex_m55", "a Cortex-M55 with MVE vectors", True)],
}


def render(title: str, counts: dict[str, int], cases: list[Case], *, measured: bool) -> str:
    """The TOML text of one table."""
    lines = [
        f"# Kernels on {title}.",
        "# Written by tools/fit_costs.py: do not edit by hand.",
    ]
    for family, fitted in family_table(counts, cases, common_names()).items():
        lines += ["", f"[cost.{family}]"]
        lines += [
            f"cycles_per_{name} = {price!r}"
            for name, price in zip(FEATURES, fitted.prices, strict=True)
        ]
        lines.append(f"estimated = {'false' if measured else 'true'}")
        lines.append(
            'source = """Instructions counted by tools/bench_kernels.py in QEMU (gcc -O2). \\'
        )
        lines.append(
            f"Off by a factor of {median(fitted.common):.2f} in the median and "
            f"{max(fitted.common):.2f} at most over {len(fitted.common)} common \\"
        )
        lines.append(
            f"cases, {median(fitted.every):.2f} and {max(fitted.every):.2f} over all "
            f'{len(fitted.every)}. 1 instruction is taken as 1 cycle."""'
        )
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """0, or 2 without counts."""
    parser = argparse.ArgumentParser(description="cost tables from counted instructions")
    parser.add_argument("--counts", type=Path, default=FIGURES, help="(tools/bench_kernels.json)")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write (boards/cost)")
    options = parser.parse_args(arguments)
    try:
        found = json.loads(options.counts.read_text(encoding="utf-8"))
    except OSError as error:
        print(
            f"{options.counts}: expected counts, got {error.strerror}; run tools/bench_kernels.py "
            "--update",
            file=sys.stderr,
        )
        return 2
    results = {
        core: {name: row["instructions"] for name, row in rows.items()}
        for core, rows in found.items()
    }
    for core, tables in TABLES.items():
        for name, title, measured in tables:
            text = render(title, results[core], every_case(), measured=measured)
            (options.out / f"{name}.toml").write_text(text, encoding="utf-8", newline="\n")
            print(f"{name}.toml: from {len(results[core])} counts of {core}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
