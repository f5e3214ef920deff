"""Plans POET's model zoo at several budgets and writes a table beside the figures known before.

    python tools/poet_zoo.py FOLDER [--models linear,vgg16_cifar] [--platforms m4,a72,m0]
                             [--fractions 0.9,0.7,0.5,0.4] [--ratio 1.5] [--time-limit 60]
                             [--alone-time-limit 15] [--solver highs|cbc] [--semantics own|poet]
                             [--results FILE.json] [--table FILE.md] [--note TEXT] [--reopen]
                             [--stop-after 300]

FOLDER holds the zoo's files (see poet_mcu/pipeline/problem_file.py for the format). Every answer
goes to the results file at once, so a run that was stopped goes on where it was; --stop-after ends
it after so many seconds, --reopen plans again what is open and keeps the better. What was not
planned yet stands as unfinished in the table; remarks behind its first heading are kept. Budgets
below one operator's working set are left out. A model's budgets are planned from the smallest, each
with the plans before as starts, so more memory never costs more within one run. The table names its
date and machine, best energies before (a prototype of the same formulation, and POET's own program
with open solvers), and marks with ! what is more than 0.05 % above the better of them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from poet_mcu.ir.schedule import Schedule
from poet_mcu.pipeline.problem_file import poet_semantics, zoo_problem
from poet_mcu.schedule import (
    Problem,
    Progress,
    Solution,
    SolveOptions,
    largest_working_set,
    solve,
)
from poet_mcu.schedule.planner import BACKENDS, BESIDE

#: model-platform, fraction -> joules of the prototype (all of them simulated plans)
PROTOTYPE: dict[tuple[str, float], float] = {
    ("vgg16_cifar-m4", 0.9): 3.44013,
    ("vgg16_cifar-m4", 0.7): 3.44032,
    ("vgg16_cifar-m4", 0.5): 3.44697,
    ("vgg16_cifar-a72", 0.9): 49.7390,
    ("vgg16_cifar-a72", 0.7): 49.7439,
    ("vgg16_cifar-a72", 0.5): 49.7450,
    ("resnet18-m4", 0.9): 27.42526,
    ("resnet18-m4", 0.7): 27.42694,
    ("resnet18-m4", 0.5): 27.43197,
    ("resnet18-m4", 0.4): 27.43544,
    ("resnet18_cifar-m4", 0.9): 0.54581,
    ("resnet18_cifar-m4", 0.7): 0.54599,
    ("resnet18_cifar-m4", 0.5): 0.54635,
    ("resnet18_cifar-m4", 0.4): 0.54660,
    ("resnet18_cifar-a72", 0.9): 7.89114,
    ("resnet18_cifar-a72", 0.7): 7.89410,
    ("resnet18_cifar-a72", 0.5): 7.89866,
    ("resnet18_cifar-a72", 0.4): 7.90114,
    ("resnet18_cifar-m0", 0.9): 125.358,
    ("resnet18_cifar-m0", 0.7): 125.405,
    ("resnet18_cifar-m0", 0.5): 125.471,
    ("resnet18_cifar-m0", 0.4): 125.519,
    ("bert-m4", 0.9): 95.288,
    ("bert-m4", 0.5): 97.490,
    ("transformer-m4", 0.96): 8.614731913,
    ("transformer-a72", 0.96): 119.424345954,
    ("transformer-m0", 0.96): 1897.139654362,
    ("transformer-m4", 1.0): 8.488221886,
    ("transformer-a72", 1.0): 119.409534453,
    ("transformer-m0", 1.0): 1896.910393207,
    ("linear-m4", 0.5): 0.000460715593,
    ("linear-a72", 0.5): 0.006599977253,
    ("linear-m0", 0.5): 0.104861702758,
}
#: the same of POET's own program with HiGHS or CBC and 120 s
POET: dict[tuple[str, float], float] = {
    ("vgg16_cifar-m4", 0.9): 3.44005,
    ("vgg16_cifar-m4", 0.7): 3.44032,
    ("vgg16_cifar-m4", 0.5): 3.49745,
    ("vgg16_cifar-a72", 0.9): 49.7563,
    ("vgg16_cifar-a72", 0.7): 49.7773,
    ("vgg16_cifar-a72", 0.5): 49.7758,
    ("resnet18_cifar-m4", 0.7): 0.6063,
    ("resnet18_cifar-m4", 0.5): 0.6766,
    ("resnet18_cifar-m4", 0.4): 0.7546,
    ("resnet18_cifar-a72", 0.9): 8.297,
    ("resnet18_cifar-a72", 0.7): 8.429,
    ("resnet18_cifar-a72", 0.5): 8.182,
    ("resnet18_cifar-a72", 0.4): 7.983,
    ("resnet18_cifar-m0", 0.9): 128.42,
    ("resnet18_cifar-m0", 0.5): 126.86,
    ("resnet18_cifar-m0", 0.4): 126.79,
}
TOLERANCE = 5e-4
MODELS = "linear,vgg16_cifar,resnet18_cifar,transformer,resnet18,bert,resnet50"
HEADINGS = (
    "instance", "RAM", "status", "energy J", "proven J", "gap", "of the overhead", "0.5 % at s",
    "0.1 % at s", "5 % of it at s", "s", "CPU s",
    "recomputed, in, out", "paging only J", "saves", "recompute only J", "saves", "before J",
    "POET's program J",
)  # fmt: skip
#: gaps whose first moment stands in the table: of the total, of the total, of the overhead
TARGETS = {"half_percent_s": 5e-3, "tenth_percent_s": 1e-3, "overhead_s": 5e-2}
#: switches of what others do at the same budget
ALONE = {"paging_only": {"remat": False}, "recompute_only": {"paging": False}}
#: of the total energy, what the paper says it saves
PAPER_SAVING = 0.35


def problem_of(data: dict[str, Any], fraction: float, ratio: float = 1.5) -> Problem:
    """The planner's problem of one zoo file; node k writes tensor k."""
    return zoo_problem(data, fraction, ratio)


def cpu_s() -> float:
    """Seconds of CPU that this process and its ended children have used."""
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


class Watch:
    """Notes when each of ``TARGETS`` was reached."""

    def __init__(self, base_j: float) -> None:
        self.base_j = base_j
        self.reached_s: dict[str, float] = {}

    def gaps(self, energy_j: float, bound_j: float) -> dict[str, float]:
        """The gap that each target is about."""
        total, proven_j = (energy_j - bound_j) / energy_j, bound_j - self.base_j
        closed = energy_j - bound_j <= 1e-8 * energy_j
        of_overhead = (energy_j - bound_j) / proven_j if proven_j > 0 else float("inf")
        return dict(zip(TARGETS, (total, total, 0.0 if closed else of_overhead), strict=True))

    def __call__(self, now: Progress) -> None:
        if now.objective_j is None:
            return
        for name, gap in self.gaps(now.objective_j, now.lower_bound_j).items():
            if gap > TARGETS[name]:
                self.reached_s.pop(name, None)  # a running solve may take its bound back
            else:
                self.reached_s.setdefault(name, now.elapsed_s)

    def seconds(self, found: Solution) -> dict[str, float | None]:
        """Seconds until each target, None when it was not reached in the end."""
        if found.objective_j is None:
            return dict.fromkeys(TARGETS)
        gaps = self.gaps(found.objective_j, found.lower_bound_j)
        at_end = found.solve_s
        return {
            name: self.reached_s.get(name, at_end) if gaps[name] <= most else None
            for name, most in TARGETS.items()
        }


def timed_solve(problem: Problem, options: SolveOptions) -> tuple[Solution, float]:
    """A plan, and the CPU seconds it took in all processes."""
    began_s = cpu_s()
    found = solve(problem, options)
    for backend in (*BACKENDS.values(), *BESIDE.values()):
        backend.close()  # so that its seconds count
    return found, cpu_s() - began_s


def result(
    problem: Problem, options: SolveOptions, alone_limit_s: float
) -> tuple[dict[str, Any], Solution | None]:
    """What the table needs of one plan, and the plan; ``alone_limit_s`` for each of ``ALONE``."""
    need, name = largest_working_set(problem)
    if need > problem.memory_bytes:
        return {"status": "too small", "operator": name, "need_bytes": need}, None
    watch = Watch(problem.base_j)
    found, used_s = timed_solve(problem, replace(options, progress=watch))
    facts: dict[str, Any] = {
        "status": found.status.value,
        "energy_j": found.objective_j,
        "lower_bound_j": found.lower_bound_j,
        "base_j": problem.base_j,
        "gap": found.gap,
        "overhead_gap": found.overhead_gap,
        "solve_s": found.solve_s,
        "cpu_s": used_s,
        "time_limit_s": options.time_limit_s,
        "solver": found.solver,
        **watch.seconds(found),
    }
    if found.metrics is not None:
        m = found.metrics
        facts |= {"recomputes": m.recomputes, "page_ins": m.page_ins, "page_outs": m.page_outs}
        unused = {"paging_only": m.recomputes == 0, "recompute_only": m.page_ins == 0}
        single = replace(options, time_limit_s=alone_limit_s)
        for key, switches in ALONE.items():
            facts[key] = alone(problem, replace(single, **switches), found, same=unused[key])
    return facts, found


def alone(
    problem: Problem, options: SolveOptions, joint: Solution, *, same: bool
) -> dict[str, Any]:
    """The plan with one means only; ``same``: the joint plan uses no other."""
    if same:
        return {"status": joint.status.value, "energy_j": joint.objective_j}
    found, _ = timed_solve(problem, options)
    return {"status": found.status.value, "energy_j": found.objective_j}


def saving(facts: dict[str, Any], key: str) -> list[str]:
    """Two cells: the energy with one means only, and what the joint plan saves of it.

    '35.0 % / 2.0 %' is of the overhead and of the total; ~ where the plan with one means is not
    proven best, * where the paper's 35 % of the total are reached.
    """
    other = facts.get(key)
    if other is None:
        return ["-", "-"]
    if other["energy_j"] is None:
        return ["no plan" if other["status"] == "infeasible" else "none found", "-"]
    most_j, gained_j = other["energy_j"], other["energy_j"] - facts["energy_j"]
    overhead_j = most_j - facts["base_j"]
    about = "" if other["status"] == "optimal" else "~"
    of_overhead = gained_j / overhead_j if overhead_j > 0 else 0.0
    mark = " *" if gained_j >= PAPER_SAVING * most_j else ""
    return [f"{about}{most_j:.7g}", f"{of_overhead:.1%} / {gained_j / most_j:.2%}{mark}"]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def line(key: str, facts: dict[str, Any]) -> str:
    """One row of the table."""
    name, fraction = key.rsplit(" ", 1)
    known = (name, float(fraction))
    before = [figures.get(known) for figures in (PROTOTYPE, POET)]
    tail = ["-" if joules is None else f"{joules:.9g}" for joules in before]
    if facts.get("energy_j") is None:
        cells = [facts["status"], *["-"] * 7, f"{facts.get('solve_s', 0):.1f}"]
        cells += ["-", facts.get("operator", "-"), *["-"] * 4]
    else:
        best = min((joules for joules in before if joules is not None), default=None)
        worse = best is not None and facts["energy_j"] > best * (1 + TOLERANCE)
        overhead = facts["overhead_gap"]
        cells = [
            facts["status"],
            f"{facts['energy_j']:.9g}" + (" !" if worse else ""),
            f"{facts['lower_bound_j']:.9g}",
            f"{100 * facts['gap']:.4f} %",
            "-" if overhead is None or overhead == float("inf") else f"{100 * overhead:.2f} %",
            *(_seconds(facts.get(name)) for name in TARGETS),
            f"{facts['solve_s']:.1f}",
            f"{facts['cpu_s']:.1f}" if "cpu_s" in facts else "-",
            f"{facts['recomputes']}, {facts['page_ins']}, {facts['page_outs']}",
            *saving(facts, "paging_only"),
            *saving(facts, "recompute_only"),
        ]
    return "| " + " | ".join([name, f"{100 * float(fraction):.0f} %", *cells, *tail]) + " |"


def table(results: dict[str, dict[str, Any]], note: str = "") -> str:
    """All results as Markdown; ``note`` is a sentence about the machine."""
    day = dt.datetime.now(tz=dt.UTC).date().isoformat()
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    lines = [
        "# POET's zoo",
        "",
        f"{day}, {machine}, Python {platform.python_version()}; made by tools/poet_zoo.py.",
        *([note] if note else []),
        "Activations alone, deadline 1.5 times the compute time, every energy simulated. Savings:",
        "of the overhead / of the total energy of the plan with one means only at the same budget;",
        "~: that plan is not proven best; *: 35 % of the total or more; !: more than 0.05 % above",
        "the best figure before. CPU s: of all processes together.",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
    ]
    return "\n".join(lines + [line(key, results[key]) for key in results]) + "\n"


def better(facts: dict[str, Any], known: dict[str, Any]) -> bool:
    """Whether a row planned again is at least as good as before."""
    before, after = known.get("energy_j"), facts.get("energy_j")
    return before is None or (after is not None and after <= before)


def remarks(path: Path) -> str:
    """What somebody wrote under the table: from its first second-level heading on."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    at = text.find("\n## ")
    return text[at:] if at >= 0 else ""


def load(path: Path) -> dict[str, dict[str, Any]]:
    """Results of earlier runs."""
    if not path.exists():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def jobs(given: argparse.Namespace) -> list[tuple[str, Path, float]]:
    """(key, file, fraction) of everything asked for, cheapest models first, budgets rising."""
    return [
        (f"{model}-{chip} {fraction:g}", given.folder / f"{model}-{chip}.json", fraction)
        for model in given.models.split(",")
        for chip in given.platforms.split(",")
        for fraction in sorted(map(float, given.fractions.split(",")))
    ]


def main() -> None:
    given = arguments()
    options = SolveOptions(solver=given.solver, time_limit_s=given.time_limit)
    results, began_s = load(given.results), time.monotonic()
    plans: dict[Path, list[Schedule]] = {}
    for key, path, fraction in jobs(given):
        known = results.get(key)
        again = given.reopen and known is not None and known["status"] in ("feasible", "timeout")
        late = time.monotonic() - began_s > given.stop_after
        if late or (known is not None and not again):
            continue
        problem = problem_of(json.loads(path.read_text(encoding="utf-8")), fraction, given.ratio)
        problem = poet_semantics(problem) if given.semantics == "poet" else problem
        starts = plans.setdefault(path, [])
        facts, found = result(
            problem, replace(options, starts=tuple(starts)), given.alone_time_limit
        )
        results[key] = facts if known is None or better(facts, known) else known
        starts += [found.schedule] if found is not None and found.schedule is not None else []
        given.results.write_text(json.dumps(results, indent=1, sort_keys=True), encoding="utf-8")
        print(line(key, results[key]), flush=True)
    asked = [key for key, _, _ in jobs(given)]
    rows = {key: results.get(key, {"status": "unfinished"}) for key in (*asked, *results)}
    given.table.write_text(table(rows, given.note) + remarks(given.table), encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--platforms", default="m4,a72,m0")
    parser.add_argument("--fractions", default="0.9,0.7,0.5,0.4")
    parser.add_argument("--ratio", type=float, default=1.5)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--alone-time-limit", type=float, default=15.0)
    parser.add_argument("--solver", choices=("highs", "cbc"), default="highs")
    parser.add_argument("--semantics", choices=("own", "poet"), default="own")
    parser.add_argument("--results", type=Path, default=Path("zoo.json"))
    parser.add_argument("--table", type=Path, default=Path("zoo.md"))
    parser.add_argument("--note", default="", help="a sentence about the machine, for the table")
    parser.add_argument("--reopen", action="store_true")
    parser.add_argument("--stop-after", type=float, default=float("inf"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
