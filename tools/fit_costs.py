"""Turns counted instructions into the cost tables of the emulated boards.

    python tools/bench_kernels.py --update     counts; writes tools/bench_kernels.json
    python tools/fit_costs.py                  fits; rewrites boards/cost/cortex_*.toml

For every kernel family the prices of mac, element, transcendental and call that come nearest to
the counts of the benchmark's cases, as a factor, none of them negative. What nearly every network
is made of counts most; the rest decides what that leaves open, as the price of a transcendental
call. One instruction is taken as one cycle, which is true for QEMU with -icount and for no silicon.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bench_cases import Case, common_cases
from bench_kernels import FIGURES
from bench_recurrent import every_case

from poet_mcu.board.schema import KERNEL_FAMILIES, OPTIONAL_FAMILIES

FOLDER = Path(__file__).resolve().parents[1] / "boards" / "cost"
RARE = 0.02  # weight of a case that is not among the common ones
FEATURES = ("mac", "element", "transcendental", "call")
#: core of the benchmark -> table, what it is, measured on the very core of the boards
TABLES = {
    "m3": [("cortex_m3_soft", "a Cortex-M3 without FPU, libgcc soft float", True)],
    "m4f": [("cortex_m4f", "a Cortex-M4 with single-precision FPU, multiply and add apart", True)],
    "m7": [
        ("cortex_m7", "a Cortex-M7 with FPU, fused multiply-add", True),
    ],
    "m55": [("cortex_m55", "a Cortex-M55 with MVE vectors", True)],
}


def fit(
    rows: npt.NDArray[np.float64],
    counts: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Non-negative prices with the least squared logarithm of price over count; rows [cases, 4].

    Near the answer (p - c)^2 / (p c) is log(p / c)^2, so the linear problem is solved again and
    again with the last prices in the weight. Too high and too low by one factor weigh alike.
    """
    predicted = counts
    prices = np.zeros(rows.shape[1])
    of_case = np.ones(len(counts)) if weights is None else np.sqrt(weights)
    for _ in range(50):
        weight = of_case / np.sqrt(np.maximum(predicted, 1) * counts)
        prices = _nonnegative(rows * weight[:, None], counts * weight)
        predicted = rows @ prices
    return prices


def _nonnegative(
    rows: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Least squares without negative prices: the best of all subsets of the four features."""
    best, best_error = np.zeros(rows.shape[1]), np.inf
    used = [i for i in range(rows.shape[1]) if rows[:, i].any()]
    for size in range(1, len(used) + 1):
        for subset in itertools.combinations(used, size):
            prices = np.linalg.lstsq(rows[:, subset], wanted, rcond=None)[0]
            error = float(np.sum((rows[:, subset] @ prices - wanted) ** 2))
            if (prices >= 0).all() and error < best_error - 1e-12:
                best, best_error = np.zeros(rows.shape[1]), error
                best[list(subset)] = prices
    return best


@dataclass(frozen=True)
class Fitted:
    """Prices of a family, and by which factor they miss the common cases and all cases."""

    prices: tuple[float, ...]
    common: tuple[float, ...]
    every: tuple[float, ...]


def family_table(counts: dict[str, int], cases: list[Case]) -> dict[str, Fitted]:
    """Family -> its row of the table; cases without a count are left out."""
    common = {case.name for case in common_cases()}
    table = {}
    for family in (*KERNEL_FAMILIES, *OPTIONAL_FAMILIES):
        # A node that does two things is priced by two rows: it fits neither.
        alone = [case for case in cases if case.cost.then is None and case.name in counts]
        used = [case for case in alone if case.cost.family == family]
        costs = [case.cost for case in used]
        # A call's price would take up what differs between the few shapes of an optional family.
        call = 0 if family in OPTIONAL_FAMILIES else 1
        matrix = np.array([(c.macs, c.elements, c.transcendental, call) for c in costs], float)
        wanted = np.array([counts[case.name] for case in used], float)
        usual = np.array([case.name in common for case in used])
        weights = np.where(usual, 1.0, RARE)
        prices = tuple(float(f"{price:.4g}") for price in fit(matrix, wanted, weights))
        errors = np.exp(np.abs(np.log(matrix @ np.array(prices) / wanted)))
        table[family] = Fitted(prices, tuple(errors[usual].tolist()), tuple(errors.tolist()))
    return table


def render(title: str, counts: dict[str, int], cases: list[Case], *, measured: bool) -> str:
    """The TOML text of one table."""
    lines = [
        f"# Kernels on {title}.",
        "# Written by tools/fit_costs.py: do not edit by hand.",
    ]
    for family, fitted in family_table(counts, cases).items():
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
