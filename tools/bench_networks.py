"""Instructions per multiply-add of whole training steps, and docs/kernels.md with the peers beside.

    python tools/make_zoo.py --out out/zoo
    python tools/bench_networks.py --zoo out/zoo       builds, counts, rewrites the page

Every network is built by the pipeline for ``qemu-mps2-an500`` (Cortex-M7) and one step is run in
QEMU with ``-icount shift=0``. MACs are those of forward, data gradients and weight gradients.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bench_kernels import BASELINE, CORES, all_cases
from make_digits import make_model

from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.instructions import instructions_of_step, macs_of_step
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.target import open_folder
from poet_mcu.pipeline.validate import batches

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "kernels.md"
COUNTS = ROOT / "tools" / "bench_networks.json"
BOARD = "qemu-mps2-an500"


@dataclass(frozen=True)
class Network:
    """One training step: a file of the zoo ('' for the digits example), batch, loss."""

    title: str
    file: str
    batch: int
    loss: str = "cross-entropy"


NETWORKS = (
    Network("digits CNN, batch 1", "", 1),
    Network("digits CNN, batch 16", "", 16),
    Network("autoencoder, batch 1", "autoencoder_folded.onnx", 1, "mse"),
    Network("autoencoder, batch 8", "autoencoder_folded.onnx", 8, "mse"),
    Network("ResNet-8, batch 1", "resnet8_folded.onnx", 1),
    Network("DS-CNN, batch 1", "ds_cnn_folded.onnx", 1),
    Network("MobileNetV1 x0.25 96x96, batch 1", "mobilenet_folded.onnx", 1),
)

#: counted once with QEMU -M mps2-an500, gcc 12.2 -O3: peer, work, instructions, MACs
PEERS = (
    ("AIfES 2.2", "training step of the digits CNN, batch 1", 2_312_960, 66_400),
    ("onnx2c", "inference of the digits CNN", 203_040, 23_700),
    ("onnx2c", "inference of ResNet-8", 117_523_720, 12_500_000),
    ("onnx2c", "inference of DS-CNN", 19_062_240, 2_550_000),
    ("onnx2c", "inference of MobileNetV1 x0.25", 52_016_200, 7_490_000),
    ("onnx2c", "inference of an autoencoder", 2_865_320, 264_000),
    ("PULP-TrainLib", "conv 3x3 16 to 32, 16x16, forward", 2_890_040, 1_180_000),
    ("PULP-TrainLib", "the same, weight gradient", 2_237_880, 1_180_000),
    ("PULP-TrainLib", "the same, input gradient", 3_378_960, 1_180_000),
    ("plain 4x4 blocked C", "matrix product 64x64x64", 481_200, 262_144),
)


def count(network: Network, zoo: Path) -> dict[str, int]:
    """``instructions`` and ``macs`` of one step."""
    with tempfile.TemporaryDirectory(prefix="poet-bench-") as scratch:
        model = zoo / network.file
        if not network.file:
            model = Path(scratch) / "digits.onnx"
            onnx.save(make_model(), str(model))
        options = Options(model, BOARD, batch=network.batch, loss=network.loss, strategy="keep-all")
        out = Path(scratch) / "build"
        build(options, out)
        opened = open_folder(out)
        prepared = opened.prepared()
        return {
            "instructions": instructions_of_step(opened, batches(prepared, None, 1)[0]),
            "macs": macs_of_step(prepared.train),
        }


def network_rows(counts: dict[str, dict[str, int]]) -> list[str]:
    rows = ["| training step | instructions | MACs | per MAC |", "|---|---:|---:|---:|"]
    for title, one in counts.items():
        ratio = one["instructions"] / one["macs"]
        rows.append(f"| {title} | {one['instructions']:,} | {one['macs']:,} | {ratio:.2f} |")
    return rows


def peer_rows() -> list[str]:
    rows = ["| peer | what | instructions | MACs | per MAC |", "|---|---|---:|---:|---:|"]
    for name, what, instructions, macs in PEERS:
        rows.append(
            f"| {name} | {what} | {instructions:,} | {macs:,} | {instructions / macs:.1f} |"
        )
    return rows


def kernel_rows(results: dict[str, dict[str, int]]) -> list[str]:
    names = [core.name for core in CORES]
    rows = [f"| kernel | MACs | {' | '.join(names)} |", "|---|---:|" + "---:|" * len(names)]
    for case in all_cases():
        if case.macs:
            per = " | ".join(f"{results[name][case.name] / case.macs:.2f}" for name in names)
            rows.append(f"| {case.name} | {case.macs:,} | {per} |")
    return rows


def page(counts: dict[str, dict[str, int]], results: dict[str, dict[str, int]]) -> str:
    """The text of docs/kernels.md."""
    parts = [
        "# Instructions per multiply-add",
        "",
        "Written by tools/bench_networks.py: do not edit by hand. Counted in QEMU with",
        "`-icount shift=0`: instructions, exact and repeatable, not cycles of silicon.",
        "",
        "## Whole training steps on a Cortex-M7",
        "",
        "Forward, backward, SGD; the networks' batch normalizations folded; keep-all plan. MACs of",
        "positions in the padding are counted (`Operator.cost`).",
        "",
        *network_rows(counts),
        "",
        "## Peers, counted the same way",
        "",
        *peer_rows(),
        "",
        "## Kernels",
        "",
        "Here MACs of positions in the padding are not counted. `m3` is soft float.",
        "",
        *kernel_rows(results),
    ]
    return "\n".join(parts) + "\n"


def main() -> int:
    """0; the page and the counts are rewritten."""
    parser = argparse.ArgumentParser(description="training steps, instructions per MAC")
    parser.add_argument("--zoo", type=Path, default=ROOT / "out" / "zoo")
    parser.add_argument("--only", default="", help="networks whose title contains this")
    parser.add_argument("--page", action="store_true", help="no counting: only write the page")
    options = parser.parse_args()
    counts: dict[str, dict[str, int]] = {}
    if COUNTS.is_file():
        counts = json.loads(COUNTS.read_text(encoding="utf-8"))
    for network in NETWORKS:
        if not options.page and options.only in network.title:
            counts[network.title] = count(network, options.zoo)
            print(network.title, counts[network.title], file=sys.stderr, flush=True)
    COUNTS.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    results = json.loads(BASELINE.read_text(encoding="utf-8"))
    PAGE.write_text(page(counts, results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
