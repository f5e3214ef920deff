"""Plans of the whole zoo at shares of the keep-all peak, and the table of them in docs/zoo.md.

    python tools/zoo_table.py [NAME ...] [--time-limit 60]       plans, rewrites the table
    python tools/zoo_table.py --write                            rewrites it from the kept figures

Full width, batch 4, SGD, on the board ``host``, which has RAM enough for all of them; only bytes
and proofs are of interest, and those do not depend on the board. The figures of the networks that
were not named stay as they are.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import make_zoo

from poet_mcu.ir.graph import Role
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import budget_for
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.stepplan import NoPlan, StepSettings, least_ram, plan_step
from poet_mcu.schedule import keep_all, simulate
from poet_mcu.schedule.pricing import make_problem

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "zoo.md"
FIGURES = ROOT / "tools" / "zoo_table.json"
SHARES = (1.0, 0.7, 0.5)
BATCH = 4
#: the table stands between these lines of the page
BEGIN, END = "<!-- tools/zoo_table.py writes from here -->", "<!-- to here -->"


def keep_all_bytes(prepared: Prepared) -> int:
    """RAM of a step that keeps every activation; parameters, runtime and page states included."""
    budget = budget_for(prepared)
    problem = make_problem(prepared.train, prepared.board, budget.arena_bytes)
    fixed = budget.ram_bytes - problem.memory_bytes
    return simulate(problem, keep_all(problem)).peak_bytes + fixed


def point(prepared: Prepared, options: Options, ram_bytes: int) -> dict[str, Any]:
    """The plan at one budget: what it needs, costs and proves; or that there is none."""
    began_s = time.monotonic()
    budget = budget_for(prepared, ram_bytes)
    settings = StepSettings("train", "optimal")
    row: dict[str, Any] = {"ram_bytes": ram_bytes}
    try:
        step = plan_step(prepared.train, prepared.board, options, budget, settings)
    except NoPlan as error:
        return row | {"status": str(error), "seconds": time.monotonic() - began_s}
    if step.solution is None:
        raise RuntimeError(f"{prepared.options.model}: expected a solved plan, got a baseline")
    metrics, solution = step.metrics, step.solution
    return row | {
        "status": solution.status.value,
        "seconds": time.monotonic() - began_s,
        "peak_bytes": step.ram_bytes + budget.runtime_bytes,
        "overhead": metrics.energy_j / step.problem.base_j - 1,
        "gap": solution.gap,
        "recomputes": metrics.recomputes,
        "page_ins": metrics.page_ins,
        "page_outs": metrics.page_outs,
    }


def measure(name: str, time_limit_s: float) -> dict[str, Any]:
    """Sizes and the three points of one network."""
    with tempfile.TemporaryDirectory(prefix="poet-zoo-") as scratch:
        path = Path(scratch) / f"{name}.onnx"
        path.write_bytes(make_zoo.export(make_zoo.make_module(name), name))
        network = make_zoo.ZOO[name]
        options = Options(path, "host", batch=BATCH, loss=network.loss, time_limit_s=time_limit_s)
        prepared = prepare(options)
        most = keep_all_bytes(prepared)
        settings = StepSettings("train", "optimal")
        budget = budget_for(prepared)
        least, proven = least_ram(prepared.train, prepared.board, options, budget, settings)
        points = []
        for share in SHARES:
            found = {"share": share} | point(prepared, options, round(share * most))
            print(f"{name}: {found}", flush=True)
            points.append(found)
    weights = sum(v.type.elements for v in prepared.train.with_role(Role.PARAMETER))
    return {
        "parameters": weights,
        "operators": len(prepared.train.nodes),
        "keep_all_bytes": most,
        "least_bytes": least,
        "proven_least_bytes": proven,
        "time_limit_s": time_limit_s,
        "points": points,
    }


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:,.1f}"


def _row(name: str, found: dict[str, Any], at: dict[str, Any]) -> str:
    first = at["share"] == SHARES[0]
    least = _kib(found["least_bytes"])
    if found["least_bytes"] > found["proven_least_bytes"]:
        least += f" (proven {_kib(found['proven_least_bytes'])})"
    sizes = f"{found['parameters']:,} | {found['operators']}" if first else " | "
    cells = f"{name if first else ''} | {sizes} | {least if first else ''} | {at['share']:.0%} "
    cells += f"| {_kib(at['ram_bytes'])} | {at['seconds']:.1f} | "
    if "gap" not in at:
        return f"| {cells}{at['status']} | | | | |"
    pages = f"{at['page_outs']} / {at['page_ins']}"
    words = f"{_kib(at['peak_bytes'])} | {at['overhead']:.2%} | {at['gap']:.2%} | "
    return f"| {cells}{words}{at['recomputes']} | {pages} |"


def table(figures: dict[str, Any]) -> str:
    """The rows of every network in the order of the zoo."""
    head = (
        "| network | parameters | operators of a step | smallest RAM, KiB | share | RAM, KiB "
        "| planner, s | used, KiB | energy overhead | gap | recomputed | pages out / in |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
    names = [name for name in make_zoo.ZOO if name in figures]
    rows = [_row(name, figures[name], at) for name in names for at in figures[name]["points"]]
    return head + "\n".join(rows) + "\n"


def write_page(figures: dict[str, Any]) -> None:
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(figures)}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(make_zoo.ZOO)}")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds a solve")
    parser.add_argument("--write", action="store_true", help="write the page and plan nothing")
    chosen = parser.parse_args()
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    for name in () if chosen.write else chosen.names or make_zoo.ZOO:
        figures[name] = measure(name, chosen.time_limit)
        text = json.dumps(figures, indent=1, sort_keys=True)
        FIGURES.write_text(text + "\n", encoding="utf-8")
    write_page(figures)


if __name__ == "__main__":
    main()
