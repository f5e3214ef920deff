"""Writes docs/kernels.md and docs/kernels.svg from the committed figures of the benchmarks.

python tools/bench_page.py
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bench_figures
import bench_kernels
import bench_networks

from poet_mcu.bench.case import Case
from poet_mcu.bench.cases import functions
from poet_mcu.bench.recurrent import every_case
from poet_mcu.report.svg import Svg

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "kernels.md"
PICTURE = ROOT / "docs" / "kernels.svg"
CORES = {"m7": "Cortex-M7", "m4f": "Cortex-M4F", "m55": "Cortex-M55"}
MISSING = "not counted"
ALL = tuple(core.name for core in bench_kernels.CORES)

#: row -> instructions per MAC that are asked at most, by core
ASKED: dict[str, dict[str, float]] = {
    "training: ResNet-8": {"m7": 2.0, "m4f": 3.2, "m55": 0.9},
    "training: DS-CNN": {"m7": 2.6, "m4f": 3.8, "m55": 1.2},
    "training: MobileNetV1 x0.25 96x96": {"m7": 2.6, "m4f": 3.8, "m55": 1.2},
    "training: LeNet-like 28x28": {"m7": 2.4, "m4f": 3.6, "m55": 1.1},
    "training: digits CNN, batch 1": {"m7": 4.0},
    "training: digits CNN, batch 16": {"m7": 2.6},
    "training: autoencoder, batch 1": {"m7": 3.0},
    "training: autoencoder, batch 8": {"m7": 2.0},
    **{f"inference: {network.title}": {"m7": 2.0} for network in bench_networks.NETWORKS},
}
CONVOLUTION = {"m7": 1.7, "m4f": 2.9, "m55": 0.7}
PRODUCT = {"m7": 1.6, "m4f": 2.7, "m55": 0.5}
#: the rows of tools/bench_kernels.py with a figure that is asked, and what they are
ASKED_KERNELS = {
    "c16x32x16_fwd": ("conv 3x3, 16 to 32, 16x16: forward", CONVOLUTION),
    "c16x32x16_bwd_w": ("the same: weight gradient", CONVOLUTION),
    "c16x32x16_bwd_x": ("the same: input gradient", CONVOLUTION),
    "mm64_fwd": ("dense 64x64x64: forward", PRODUCT),
    "mm64_bwd_w": ("the same: weight gradient", PRODUCT),
    "mm64_bwd_x": ("the same: input gradient", PRODUCT),
    "matmul64_nn": ("product 64x64x64: A B", PRODUCT),
    "matmul64_nt": ("product 64x64x64: A Bᵀ", PRODUCT),
    "matmul64_tn": ("product 64x64x64: Aᵀ B", PRODUCT),
    "matmul64_tt": ("product 64x64x64: Aᵀ Bᵀ", PRODUCT),
}


@dataclass(frozen=True)
class Peer:
    """A figure of another library on a Cortex-M7, and the row of ours that it stands beside."""

    name: str
    what: str
    instructions: int
    macs: int
    row: str = ""

    @property
    def per_mac(self) -> float:
        return self.instructions / self.macs


#: counted once with QEMU -M mps2-an500 -icount shift=0, gcc 12.2 -O3
PEERS = (
    Peer("AIfES 2.2", "training step of the digits CNN, batch 1", 2_312_960, 66_400,
         "training: digits CNN, batch 1"),
    Peer("AIfES 2.2", "inference of the digits CNN", 809_080, 23_700,
         "inference: digits CNN, batch 1"),
    Peer("onnx2c", "inference of the digits CNN", 203_040, 23_700,
         "inference: digits CNN, batch 1"),
    Peer("onnx2c", "inference of LeNet-like 28x28", 3_441_520, 290_000,
         "inference: LeNet-like 28x28"),
    Peer("onnx2c", "inference of ResNet-8", 117_523_720, 12_500_000, "inference: ResNet-8"),
    Peer("onnx2c", "inference of DS-CNN", 19_062_240, 2_550_000, "inference: DS-CNN"),
    Peer("onnx2c", "inference of MobileNetV1 x0.25 96x96", 52_016_200, 7_490_000,
         "inference: MobileNetV1 x0.25 96x96"),
    Peer("onnx2c", "inference of the autoencoder", 2_865_320, 264_000,
         "inference: autoencoder, batch 1"),
    Peer("PULP-TrainLib", "conv 3x3, 16 to 32, 16x16: forward, 294,912 bytes of buffer",
         2_890_040, 1_180_000, "c16x32x16_fwd"),
    Peer("PULP-TrainLib", "the same: weight gradient", 2_237_880, 1_180_000, "c16x32x16_bwd_w"),
    Peer("PULP-TrainLib", "the same: input gradient", 3_378_960, 1_180_000, "c16x32x16_bwd_x"),
    Peer("plain 4x4 blocked C", "matrix product 64x64x64", 481_200, 262_144, "matmul64_nn"),
)  # fmt: skip

Rows = Mapping[str, Mapping[str, Mapping[str, int]]]


@dataclass(frozen=True)
class Figures:
    """The three committed files."""

    networks: Rows
    kernels: Rows
    sizes: Mapping[str, Mapping[str, int]]


def load() -> Figures:
    return Figures(
        bench_figures.load(bench_networks.FIGURES),
        bench_figures.load(bench_kernels.FIGURES),
        bench_figures.load(bench_kernels.SIZES),
    )


def beside(value: float, asked: float | None) -> str:
    """A measured figure with the asked one; bold where it is missed."""
    if asked is None:
        return f"{value:.2f}"
    # What is asked has one decimal or two; a figure that rounds to it has met it.
    shown = f"{value:.2f}" if round(value, 2) <= asked else f"**{value:.2f}**"
    return f"{shown} (≤ {asked:g})"


def network_rows(figures: Figures) -> list[str]:
    """Networks: instructions per MAC on each core, the plain kernels, the cost tables."""
    heads = " | ".join(CORES.values())
    rows = [
        f"| network | MACs | {heads} | plain C, M7 | times slower |",
        "|---|---:|" + "---:|" * (len(CORES) + 2),
    ]
    for name, asked in ASKED.items():
        cells = []
        for core in CORES:
            row = figures.networks[core].get(name)
            value = row and beside(row["instructions"] / row["macs"], asked.get(core))
            cells.append(value or MISSING)
        m7 = figures.networks["m7"][name]
        plain = f"{m7['plain'] / m7['macs']:.1f} | {m7['plain'] / m7['instructions']:.0f}"
        rows.append(f"| {name} | {m7['macs']:,} | {' | '.join(cells)} | {plain} |")
    return rows


def count_rows(figures: Figures) -> list[str]:
    rows = [f"| network | {' | '.join(CORES.values())} |", "|---|" + "---:|" * len(CORES)]
    for name in ASKED:
        counted = [figures.networks[core].get(name) for core in CORES]
        cells = [f"{row['instructions']:,}" if row else MISSING for row in counted]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def prediction_rows(figures: Figures) -> list[str]:
    """Measured over predicted."""
    rows = [f"| network | {' | '.join(CORES.values())} |", "|---|" + "---:|" * len(CORES)]
    for name in ASKED:
        cells = []
        for core in CORES:
            row = figures.networks[core].get(name)
            cells.append(f"{row['instructions'] / row['predicted']:.2f}" if row else MISSING)
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def peer_rows(figures: Figures) -> list[str]:
    rows = [
        "| peer | what | instructions | MACs | per MAC | ours |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for peer in PEERS:
        ours = m7_per_mac(figures, peer.row)
        rows.append(
            f"| {peer.name} | {peer.what} | {peer.instructions:,} | {peer.macs:,} | "
            f"{peer.per_mac:.1f} | {ours:.2f} |"
        )
    return rows


def m7_per_mac(figures: Figures, row: str) -> float:
    """Our figure of a row of networks or kernels; MACs as the peers count them, with padding."""
    if row in figures.networks["m7"]:
        found = figures.networks["m7"][row]
        return found["instructions"] / found["macs"]
    case = next(case for case in every_case() if case.name == row)
    return figures.kernels["m7"][row]["instructions"] / case.cost.macs


def asked_rows(figures: Figures) -> list[str]:
    cases = {case.name: case for case in every_case()}
    rows = [
        f"| kernel | MACs | workspace | {' | '.join(CORES.values())} |",
        "|---|---:|---:|" + "---:|" * len(CORES),
    ]
    for name, (what, asked) in ASKED_KERNELS.items():
        case = cases[name]
        cells = [
            beside(figures.kernels[core][name]["instructions"] / case.work, asked[core])
            for core in CORES
        ]
        space = f"{case.workspace_bytes} bytes"
        rows.append(f"| {what} | {case.work:,} | {space} | {' | '.join(cells)} |")
    return rows


def kernel_rows(figures: Figures, unit: str) -> list[str]:
    """Every row whose work is counted in ``unit``."""
    heads = " | ".join(ALL)
    rows = [
        f"| kernel | {unit}s | {heads} | plain, m7 |", "|---|---:|" + "---:|" * (len(ALL) + 1)
    ]  # fmt: skip
    return rows + [kernel_row(figures, case) for case in every_case() if case.unit == unit]


def kernel_row(figures: Figures, case: Case) -> str:
    rows = [figures.kernels[core].get(case.name) for core in ALL]
    per = [f"{row['instructions'] / case.work:.2f}" if row else MISSING for row in rows]
    plain = figures.kernels["m7"][case.name].get("plain")
    last = f"{plain / case.work:.1f}" if plain else ""
    return f"| {case.name} | {case.work:,} | {' | '.join(per)} | {last} |"


def size_rows(figures: Figures) -> list[str]:
    rows = [f"| function | {' | '.join(ALL)} |", "|---|" + "---:|" * len(ALL)]
    for name in sorted(functions(every_case())):
        sizes = [figures.sizes[core].get(name) for core in ALL]
        cells = [MISSING if size is None else f"{size:,}" for size in sizes]
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return rows


HEAD = """# Instructions per multiply-add

Written by `tools/bench_page.py`: do not edit by hand. Counted in QEMU with `-icount shift=0`:
instructions, exact and repeatable, not cycles of silicon. In brackets what is asked at most;
bold where it is missed.

![Instructions per multiply-add of networks and kernels, with the asked figures and other
libraries](kernels.svg)

Everything anew, the cost tables included:

    make bench

`tools/bench_kernels.py --check` and `tools/bench_networks.py --check` count again and fail where
something needs over 2 % more than the committed figures (`tools/bench_*.json`).
"""
NETWORKS = """## Whole networks

A training step is forward, backward and SGD, with the plan that keeps every activation and the
networks' batch normalizations folded; inference is the evaluation alone. Batch 1 unless said. MACs
are those of forward, data gradients and weight gradients; of positions in the padding too
(`Operator.cost`). *Plain C* is the same program with the loops of
`tests/host/reference_kernels.c` for convolution, dense, max pooling, relu, add, the losses and SGD,
counted in the same run. The Cortex-M4F multiplies and adds in two instructions, which takes its FPU
fewer cycles than the fused one.
"""
PREDICTION = """## Measured over predicted

What the board's cost table (`boards/cost`, fitted by `tools/fit_costs.py` to the kernels below)
says of the same step, and how the counted step lies to it. Plans are made with the prediction.
"""
PEERS_HEAD = """## Other libraries

Counted the same way on a Cortex-M7 (QEMU `-M mps2-an500`, gcc 12.2 -O3), once, before this table
was made; *ours* is the row above or below, with MACs counted as theirs.
"""
KERNELS = """## Every kernel

Here MACs of positions in the padding are not counted. `m3` and `m0plus` are soft float. The names
say the shape: `c16x32x16` is a 3x3 convolution from 16 to 32 channels of 16x16, `dw` depthwise,
`pw` pointwise, `s2` with stride 2, `k5` with a 5x5 kernel, `n16` of a batch of 16, `fc` and `mm`
dense (`t`: weights stored transposed), `v1024` 1024 elements.
"""
SIZES = """## Bytes of code

Each kernel function linked alone with everything of ours that it calls: code and constants.
What several kernels share (the blocks of a product, `poet_expf`) is counted in each.
"""


def page(figures: Figures) -> str:
    """The text of docs/kernels.md."""
    parts = [HEAD, NETWORKS, *network_rows(figures), ""]
    parts += ["Instructions:", "", *count_rows(figures), ""]
    parts += ["## Kernels with an asked figure", "", *asked_rows(figures), ""]
    parts += [PEERS_HEAD, *peer_rows(figures), "", PREDICTION, *prediction_rows(figures), ""]
    parts += [KERNELS, "Instructions per MAC:", "", *kernel_rows(figures, "MAC"), ""]
    parts += ["Instructions per element:", "", *kernel_rows(figures, "element"), ""]
    parts += [SIZES, *size_rows(figures)]
    return "\n".join(parts) + "\n"


WIDTH, LEFT, RIGHT, TOP, STEP = 900.0, 250.0, 40.0, 70.0, 20.0
LOW, HIGH = 0.3, 80.0
SHAPES = {"m7": "f0", "m4f": "f2", "m55": "f3"}


def across(value: float) -> float:
    """Logarithmic, from LOW to HIGH."""
    share = math.log(value / LOW) / math.log(HIGH / LOW)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def picture(figures: Figures) -> str:
    """The text of docs/kernels.svg."""
    names = [*ASKED, *ASKED_KERNELS]
    height = TOP + STEP * (len(names) + 1)
    svg = Svg(WIDTH, height, "Instructions per multiply-add, logarithmic")
    svg.text(LEFT, 22, "Instructions per multiply-add (log scale)", "strong", size=14)
    legend(svg)
    for tick in (0.5, 1, 2, 5, 10, 20, 50):
        svg.line(across(tick), TOP - 8, across(tick), height - STEP, "rule")
        svg.text(across(tick), TOP - 12, f"{tick:g}", "muted", anchor="middle")
    cases = {case.name: case for case in every_case()}
    for i, name in enumerate(names):
        y = TOP + STEP * (i + 0.5)
        if name in ASKED:
            label, asked, rows = name, ASKED[name], figures.networks
            work = rows["m7"][name]["macs"]
        else:
            (label, asked), rows, work = ASKED_KERNELS[name], figures.kernels, cases[name].work
        svg.text(LEFT - 10, y, label, "middle", anchor="end")
        known = {core: rows[core][name] for core in CORES if name in rows[core]}
        draw_row(svg, y, known, asked, work)
        for peer in PEERS:
            if peer.row == name:
                title = f"{peer.name}: {peer.per_mac:.1f}"
                svg.rect(across(peer.per_mac) - 3, y - 3, 6, 6, "f1", title)
    return svg.standalone()


def draw_row(
    svg: Svg, y: float, rows: Mapping[str, Any], asked: Mapping[str, float], work: int
) -> None:
    """One disc for each core, its asked figure as a bar across, the plain kernels as a ring."""
    plain = rows["m7"].get("plain")
    if plain:
        svg.circle(across(plain / work), y, 3, "mark", f"plain C, Cortex-M7: {plain / work:.1f}")
    for core, css in SHAPES.items():
        if core in asked:
            svg.rect(across(asked[core]) - 1, y - 8, 2, 16, css, f"asked: {asked[core]:g}")
        if core not in rows:
            continue
        value = rows[core]["instructions"] / work
        svg.circle(across(value), y, 4, css, f"{CORES[core]}: {value:.2f}")


def legend(svg: Svg) -> None:
    x = LEFT
    for core, css in SHAPES.items():
        svg.circle(x, 38, 4, css)
        svg.text(x + 8, 38, CORES[core], "middle")
        x += 95
    svg.rect(x, 30, 2, 16, "f0")
    svg.text(x + 8, 38, "asked at most", "middle")
    svg.circle(x + 105, 38, 3, "mark")
    svg.text(x + 113, 38, "plain C, Cortex-M7", "middle")
    svg.rect(x + 240, 35, 6, 6, "f1")
    svg.text(x + 252, 38, "other library", "middle")


def main() -> int:
    """0; the page and the picture are rewritten."""
    figures = load()
    PAGE.write_text(page(figures), encoding="utf-8", newline="\n")
    PICTURE.write_text(picture(figures), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
