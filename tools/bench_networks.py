"""Instructions per multiply-add of whole training steps and of inference, on three cores.

    python tools/make_zoo.py --out out/zoo
    python tools/bench_networks.py --zoo out/zoo --update    counts everything, rewrites the figures
    python tools/bench_networks.py --check --only digits     fails on a regression over 2 %
    python tools/bench_networks.py --profile --only digits   where the instructions of a step go

Every network is built by the pipeline, with the plan that keeps every activation, and one step and
one evaluation run in QEMU with ``-icount shift=0``. Beside them the same program with the plain
kernels of tests/host/reference_kernels.c. The boards are those with room for large networks; a
count depends on the core alone. MACs are those of forward, data gradients and weight gradients.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bench_figures
import bench_kernels
from make_digits import make_model

from poet_mcu.bench.recurrent import cases_of, types
from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.cost.compute import node_cycles
from poet_mcu.ir.graph import Graph
from poet_mcu.ops.table import OPERATORS
from poet_mcu.pipeline.build import GENERATED, build, runtime_sources
from poet_mcu.pipeline.instructions import (
    instructions_of_evaluation,
    instructions_of_step,
    macs_of_step,
)
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.target import open_folder
from poet_mcu.pipeline.validate import batches
from poet_mcu.toolchain.build import compile_program

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "tools" / "bench_networks.json"
PLAIN = ROOT / "tests" / "host" / "reference_kernels.c"
BOARDS = {"m7": "qemu-mps2-an500", "m4f": "qemu-mps2-an386", "m55": "qemu-mps3-an547"}


@dataclass(frozen=True)
class Network:
    """A network to train: a file of the zoo, or the side of the digits network's pictures."""

    title: str
    file: str = ""
    side: int = 0
    batch: int = 1
    loss: str = "cross-entropy"


NETWORKS = (
    Network("ResNet-8", "resnet8_folded.onnx"),
    Network("DS-CNN", "ds_cnn_folded.onnx"),
    Network("MobileNetV1 x0.25 96x96", "mobilenet_folded.onnx"),
    Network("LeNet-like 28x28", side=28),
    Network("digits CNN, batch 1", side=8),
    Network("digits CNN, batch 16", side=8, batch=16),
    Network("autoencoder, batch 1", "autoencoder_folded.onnx", loss="mse"),
    Network("autoencoder, batch 8", "autoencoder_folded.onnx", batch=8, loss="mse"),
)
Row = dict[str, int]


def predicted(graph: Graph, board: Board) -> int:
    """What the board's cost table says of the graph, in cycles; here instructions."""
    cycles = 0.0
    for node in graph.nodes:
        inputs, outputs = types(graph, node.inputs), types(graph, node.outputs)
        cycles += node_cycles(OPERATORS[node.op].cost(inputs, outputs, node.attrs), board)
    return round(cycles)


def model_of(network: Network, zoo: Path, scratch: Path) -> Path:
    """The network's file; what is no file of the zoo is written to ``scratch``."""
    if network.file:
        return zoo / network.file
    path = scratch / "digits.onnx"
    onnx.save(make_model(side=network.side), str(path))
    return path


def prepared_of(network: Network, core: str, zoo: Path) -> Prepared:
    """The graphs without a build."""
    with tempfile.TemporaryDirectory(prefix="poet-bench-") as scratch:
        model = model_of(network, zoo, Path(scratch))
        return prepare(Options(model, BOARDS[core], batch=network.batch, loss=network.loss))


def predict_again(figures: dict[str, dict[str, Row]], zoo: Path) -> None:
    """Put what the cost tables say now into committed figures."""
    for core, rows in figures.items():
        board = load_board(BOARDS[core])
        for network in NETWORKS:
            prepared = prepared_of(network, core, zoo)
            for name, graph in (("training", prepared.train), ("inference", prepared.evaluation)):
                if f"{name}: {network.title}" in rows:
                    rows[f"{name}: {network.title}"]["predicted"] = predicted(graph, board)


def use_plain_kernels(folder: Path, board: Board) -> None:
    """Replace the firmware of a build by one whose schedule calls the plain kernels."""
    schedule = folder / "src" / "poet_schedule.c"
    text = schedule.read_text(encoding="utf-8")
    schedule.write_text(f'#include "plain_names.h"\n{text}', encoding="utf-8")
    names = [f"src/{name}" for name in GENERATED if name.endswith(".c")] + runtime_sources(board)
    compile_program(
        board,
        [*(folder / name for name in names), PLAIN],
        [folder / "src", ROOT / "firmware" / "include", PLAIN.parent],
        folder / "firmware.elf",
        linker_script=folder / "linker.ld",
    )


def count(network: Network, core: str, zoo: Path, *, plain: bool = True) -> dict[str, Row]:
    """Rows 'training: ...' and 'inference: ...': instructions, macs, predicted and plain ones."""
    with tempfile.TemporaryDirectory(prefix="poet-bench-") as scratch:
        model, out = model_of(network, zoo, Path(scratch)), Path(scratch) / "build"
        options = Options(
            model, BOARDS[core], batch=network.batch, loss=network.loss, strategy="keep-all"
        )
        build(options, out)
        opened = open_folder(out)
        prepared = opened.prepared()
        batch = batches(prepared, None, 1)[0]
        graphs = {"training": prepared.train, "inference": prepared.evaluation}
        rows = {
            name: {"macs": macs_of_step(graph), "predicted": predicted(graph, opened.board)}
            for name, graph in graphs.items()
        }
        folders = {"instructions": opened}
        if plain:
            apart = Path(scratch) / "plain"
            build(replace(options, fuse=False), apart)  # there are no plain fused kernels
            use_plain_kernels(apart, opened.board)
            folders["plain"] = open_folder(apart)
        for key, folder in folders.items():
            rows["training"][key] = instructions_of_step(folder, batch)
            rows["inference"][key] = instructions_of_evaluation(folder, batch[0])
    return {f"{name}: {network.title}": row for name, row in rows.items()}


def line(core: str, name: str, row: Row) -> str:
    """What is printed as soon as a row is known."""
    plain = f", plain {row['plain'] / row['macs']:.2f}" if "plain" in row else ""
    ratio = row["instructions"] / row["predicted"]
    per = row["instructions"] / row["macs"]
    return f"{core:4} {name:46} {per:6.2f} per MAC{plain}; measured / predicted {ratio:.2f}"


def keep(core: str, rows: dict[str, Row]) -> None:
    """Into the committed figures; what was not counted now, as plain kernels, stays."""
    before = bench_figures.load(FIGURES).get(core, {})
    merged = {name: {**before.get(name, {}), **row} for name, row in rows.items()}
    bench_figures.save(FIGURES, {core: merged})


def measure(
    networks: Sequence[Network],
    cores: Sequence[str],
    zoo: Path,
    jobs: int,
    *,
    plain: bool,
    update: bool = False,
) -> dict[str, dict[str, Row]]:
    """Core -> row -> figures; each row is printed, and with ``update`` kept, as it comes."""
    work = [(network, core) for core in cores for network in networks]
    figures: dict[str, dict[str, Row]] = {core: {} for core in cores}
    with ThreadPoolExecutor(jobs) as pool:
        counted = pool.map(lambda one: count(*one, zoo, plain=plain), work)
        for (_, core), rows in zip(work, counted, strict=True):
            figures[core] |= rows
            if update:
                keep(core, rows)
            for name, row in rows.items():
                print(line(core, name, row), file=sys.stderr, flush=True)
    return figures


def profile(network: Network, core: str, zoo: Path) -> str:
    """Where the instructions go: nodes of both graphs by kernel, each node counted alone."""
    prepared = prepared_of(network, core, zoo)
    lines = []
    for name, graph in (("training", prepared.train), ("inference", prepared.evaluation)):
        cases = cases_of(graph, "node")
        machine = next(one for one in bench_kernels.CORES if one.name == core)
        counts = bench_kernels.count(machine, cases)
        spent: dict[str, list[int]] = {}
        for case in cases:
            row = spent.setdefault(case.kernel.function, [0, 0, 0])
            for i, value in enumerate((1, counts[case.name].instructions, case.cost.macs)):
                row[i] += value
        total = sum(row[1] for row in spent.values())
        lines.append(f"{core} {name}: {network.title}: {total} instructions in kernels")
        for function, (calls, used, macs) in sorted(spent.items(), key=lambda kv: -kv[1][1]):
            per = f"{used / macs:8.2f} per MAC" if macs else ""
            lines.append(f"  {used / total:6.1%} {used:>10} {calls:>4} x {function:32}{per}")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--zoo", type=Path, default=ROOT / "out" / "zoo")
    parser.add_argument("--only", default="", help="networks whose title contains this")
    parser.add_argument("--core", action="append", choices=list(BOARDS))
    parser.add_argument("--jobs", type=int, default=2, help="networks at the same time (2)")
    parser.add_argument("--no-plain", action="store_true", help="do not count the plain kernels")
    parser.add_argument("--profile", action="store_true", help="instructions by kernel instead")
    parser.add_argument(
        "--predict", action="store_true", help="count nothing, renew what the cost tables say"
    )
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    parser.add_argument("--check", action="store_true", help="fail on a regression over 2 %%")
    parser.add_argument("--update", action="store_true", help="rewrite the committed figures")
    return parser.parse_args()


def main() -> int:
    """0, or 1 with --check when something needs over 2 % more than committed."""
    options = arguments()
    networks = [one for one in NETWORKS if options.only in one.title]
    missing = [n.file for n in networks if n.file and not (options.zoo / n.file).is_file()]
    if missing:
        print(
            f"{options.zoo / missing[0]}: expected a network, got no such file; run "
            f"tools/make_zoo.py --out {options.zoo}, or choose others with --only",
            file=sys.stderr,
        )
        return 2
    plain = not (options.no_plain or options.check)
    cores = options.core or list(BOARDS)
    if options.predict:
        kept = bench_figures.load(FIGURES)
        predict_again(kept, options.zoo)
        bench_figures.save(FIGURES, kept)
        return 0
    if options.profile:
        for core in cores:
            for network in networks:
                print(profile(network, core, options.zoo), flush=True)
        return 0
    figures = measure(
        networks, cores, options.zoo, options.jobs, plain=plain, update=options.update
    )
    if options.json:
        print(json.dumps(figures, indent=1))
    if options.check:
        return bench_figures.check(figures, FIGURES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
