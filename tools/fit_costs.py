"""Turns counted instructions into the cost tables of the emulated boards.

    python tools/bench_kernels.py --update     counts; writes tools/bench_kernels.json
    python tools/fit_costs.py                  fits; rewrites boards/cost/cortex_*.toml

For every kernel family the prices of mac, element, transcendental and call that come nearest to the
counts of the benchmark's cases, as a factor, none of them negative. One instruction is taken
as one cycle, which is true for QEMU with -icount and for no silicon.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bench_kernels import BASELINE, Case, all_cases

from poet_mcu.board.schema import KERNEL_FAMILIES, OPTIONAL_FAMILIES
from poet_mcu.ops import conv_packed
from poet_mcu.ops.operator import Cost
from poet_mcu.ops.window import Window

FOLDER = Path(__file__).resolve().parents[1] / "boards" / "cost"
FEATURES = ("mac", "element", "transcendental", "call")
#: core of the benchmark -> table, what it is, measured on the very core of the boards
TABLES = {
    "m3": [("cortex_m3_soft", "a Cortex-M3 without FPU, libgcc soft float", True)],
    "m4f": [("cortex_m4f", "a Cortex-M4 with single-precision FPU, fused multiply-add", True)],
    "m7": [
        ("cortex_m7", "a Cortex-M7 with FPU, fused multiply-add", True),
        ("cortex_m55_scalar", "a Cortex-M55 without use of MVE; numbers of the Cortex-M7", False),
    ],
}


def features(case: Case) -> Cost:
    """What the operator's cost() counts for this case (poet_mcu/ops)."""
    shape = case.shape
    if case.family == "conv_packed":
        window = Window(*shape[:16])
        back = case.function == "conv2d_bwd_x_packed"
        packing = (conv_packed.back if back else conv_packed.forward)(window)
        return packing.cost(case.name[case.name.index("packed") :], window.macs)
    if case.function.startswith("conv2d"):
        n, c, m, kh, kw = shape[0], shape[1], shape[4], shape[7], shape[8]
        macs = n * m * shape[5] * shape[6] * (c // shape[15]) * kh * kw
        elements = case.elements
        if case.function == "conv2d_bwd_w":
            elements = m * (c // shape[15]) * kh * kw
        return Cost(case.family, macs, elements)
    if case.function == "channel_sum":
        return Cost("elementwise", elements=case.elements)
    if case.function == "maxpool2d_fwd":
        return Cost("pool", elements=case.elements * shape[5] * shape[6])
    if case.function == "maxpool2d_bwd":
        return Cost("pool", elements=shape[0] * shape[1] * shape[2])
    if case.function == "softmax_xent":
        return Cost("loss", elements=case.elements, transcendental=case.elements + shape[0])
    return Cost(case.family, case.macs, case.elements)


def fit(rows: npt.NDArray[np.float64], counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Non-negative prices with the least squared logarithm of price over count; rows [cases, 4].

    Near the answer (p - c)^2 / (p c) is log(p / c)^2, so the linear problem is solved again and
    again with the last prices in the weight. Too high and too low by one factor weigh alike.
    """
    predicted = counts
    prices = np.zeros(rows.shape[1])
    for _ in range(50):
        weight = 1 / np.sqrt(np.maximum(predicted, 1) * counts)
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


def family_table(
    counts: dict[str, int], cases: list[Case]
) -> dict[str, tuple[list[float], int, float, float]]:
    """Family -> (prices, cases, median and largest factor between price and count)."""
    rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    values: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        cost = features(case)
        # A call's price would take up what differs between the few shapes of these.
        call = 0 if cost.family in OPTIONAL_FAMILIES else 1
        rows[cost.family].append((cost.macs, cost.elements, cost.transcendental, call))
        values[cost.family].append(counts[case.name])
    table = {}
    for family in (*KERNEL_FAMILIES, *OPTIONAL_FAMILIES):
        matrix, wanted = np.array(rows[family], float), np.array(values[family], float)
        prices = np.array([float(f"{price:.4g}") for price in fit(matrix, wanted)])
        errors = np.exp(np.abs(np.log(matrix @ prices / wanted)))
        summary = (float(np.median(errors)), float(errors.max()))
        table[family] = (prices.tolist(), len(wanted), *summary)
    return table


def render(title: str, counts: dict[str, int], cases: list[Case], *, measured: bool) -> str:
    """The TOML text of one table."""
    lines = [
        f"# Kernels on {title}.",
        "# Written by tools/fit_costs.py: do not edit by hand.",
    ]
    for family, (prices, cases_used, median, worst) in family_table(counts, cases).items():
        lines += ["", f"[cost.{family}]"]
        lines += [
            f"cycles_per_{name} = {price!r}" for name, price in zip(FEATURES, prices, strict=True)
        ]
        lines.append(f"estimated = {'false' if measured else 'true'}")
        lines.append(
            'source = """Instructions counted by tools/bench_kernels.py in QEMU (gcc -O2). \\'
        )
        lines.append(
            f"Fit over {cases_used} cases: off by a factor of {median:.2f} in the median, \\"
        )
        lines.append(f'{worst:.2f} at most. 1 instruction is taken as 1 cycle."""')
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """0, or 2 without counts."""
    parser = argparse.ArgumentParser(description="cost tables from counted instructions")
    parser.add_argument("--counts", type=Path, default=BASELINE, help="(tools/bench_kernels.json)")
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
    results = found.get("instructions", found)
    for core, tables in TABLES.items():
        for name, title, measured in tables:
            text = render(title, results[core], all_cases(), measured=measured)
            (options.out / f"{name}.toml").write_text(text, encoding="utf-8", newline="\n")
            print(f"{name}.toml: from {len(results[core])} counts of {core}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
