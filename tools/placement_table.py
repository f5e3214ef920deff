"""How near placements come to the live peak: the zoo's plans and random sets; docs/proofs.md.

    python tools/placement_table.py [NAME ...]

Each network of the zoo is planned by every baseline, which needs no solver, and placed; batch 4,
full width. Then 1,000 random interval sets of ``tests/unit/test_memory_pack.py``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tests" / "unit")]
import make_zoo  # noqa: E402
from test_memory_pack import random_items  # noqa: E402

from poet_mcu.memory.pack import arena_to_peak_ratio, pack, place  # noqa: E402
from poet_mcu.pipeline.options import Options  # noqa: E402
from poet_mcu.pipeline.plan import budget_for  # noqa: E402
from poet_mcu.pipeline.prepare import prepare  # noqa: E402
from poet_mcu.pipeline.stepplan import BASELINES  # noqa: E402
from poet_mcu.schedule import simulate  # noqa: E402
from poet_mcu.schedule.pricing import (  # noqa: E402
    home_bytes,
    make_problem,
    padded_sizes,
    workspaces,
)

BATCH = 4
RANDOM_SEEDS = range(1000, 2000)


@dataclass
class Ratios:
    """Arena over peak of each placement, and processor seconds of each."""

    ratios: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def row(self, name: str) -> str:
        """The table's row."""
        exact = sum(ratio == 1.0 for ratio in self.ratios)
        return (
            f"| {name} | {len(self.ratios)} | {statistics.fmean(self.ratios):.5f} "
            f"| {max(self.ratios):.4f} | {exact} | {statistics.fmean(self.seconds):.2f} "
            f"| {max(self.seconds):.1f} |"
        )


def network(name: str) -> Ratios:
    """Every baseline's schedule of one network, placed."""
    found = Ratios()
    with tempfile.TemporaryDirectory(prefix="poet-place-") as scratch:
        path = Path(scratch) / f"{name}.onnx"
        path.write_bytes(make_zoo.export(make_zoo.make_module(name), name))
        options = Options(path, "host", batch=BATCH, loss=make_zoo.ZOO[name].loss)
        prepared = prepare(options)
    graph, alignment = prepared.train, prepared.board.arena.alignment_bytes
    problem = make_problem(graph, prepared.board, budget_for(prepared).arena_bytes)
    sizes = padded_sizes(graph, alignment)
    for make in BASELINES.values():
        schedule = make(problem)
        peak = simulate(problem, schedule).peak_bytes + home_bytes(graph, sizes)
        began_s = time.process_time()
        placement = place(graph, schedule, sizes, workspaces(graph), alignment, None, 1)
        found.seconds.append(time.process_time() - began_s)
        found.ratios.append(arena_to_peak_ratio(placement, peak))
    return found


def random_sets() -> Ratios:
    """The interval sets, none of which has anything to do with a network."""
    found = Ratios()
    for seed in RANDOM_SEEDS:
        began_s = time.process_time()
        packing = pack(random_items(seed), None)
        found.seconds.append(time.process_time() - began_s)
        found.ratios.append(packing.height / packing.peak)
    return found


def main() -> None:
    print("| set | placements | mean arena / peak | worst | at the peak | mean s | longest s |")
    print("|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or make_zoo.ZOO:
        print(network(name).row(name), flush=True)
    print(random_sets().row("1,000 random interval sets"))


if __name__ == "__main__":
    main()
