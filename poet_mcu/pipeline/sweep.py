"""``sweep``: one model at many RAM budgets, in parallel, resumable; table, curves, CSV and JSON."""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from poet_mcu.board.schema import Board
from poet_mcu.errors import InputError
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.parallel import run_all
from poet_mcu.pipeline.plan import METRIC_KEYS, baselines, budget_for
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.stepplan import (
    NoPlan,
    StepPlan,
    StepSettings,
    least_ram,
    plan_step,
)
from poet_mcu.report import render_page, write_atomic
from poet_mcu.report.sweep_page import sweep_figure, sweep_page
from poet_mcu.schedule.pricing import make_problem
from poet_mcu.units import parse_bytes, round_down
from poet_mcu.version import __version__

POINTS_FILE = "points.jsonl"
_OWN_KEYS = ("status", "objective", "lower_bound", "gap", "overhead_gap", "solve_s", "peak_bytes")
_ROW_KEYS = ("ram_bytes", "plan_ram_bytes", "deadline_s", *_OWN_KEYS, *METRIC_KEYS, "arena_bytes")
_BASELINE_KEYS = ("status", "peak_bytes", "energy_j", "time_s", "gap")

Row = dict[str, Any]
Ram = list[int] | tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """``done`` of ``total`` pieces of work; ``row`` is the point just done, None for the limits.

    ``resumed``: it was in the folder already.
    """

    done: int
    total: int
    row: Row | None
    resumed: bool


@dataclass(frozen=True, slots=True)
class Sweep:
    """``rows`` by rising budget; ``facts`` is what sweep.json holds."""

    rows: list[Row]
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Task:
    """``ram_bytes`` None asks for the least RAM that works. ``sha256`` is the model's."""

    options: Options
    sha256: str
    ram_bytes: int | None
    key: str


def _quiet(_: SweepProgress) -> None:
    """No progress."""


def parse_ram(text: str, points: int) -> Ram:
    """``32K:256K`` as (first, last, points); ``32K,48K`` or ``48K`` as a list."""
    ends = text.split(":")
    if len(ends) == 2:
        return parse_bytes(ends[0], "--ram"), parse_bytes(ends[1], "--ram"), points
    if len(ends) > 2:
        raise InputError(f"--ram: expected FIRST:LAST or sizes with commas, got '{text}'")
    return [parse_bytes(part, "--ram") for part in text.split(",")]


def budgets(ram: Ram, alignment_bytes: int) -> list[int]:
    """Rising budgets without doubles; both ends of a range are in, all rounded down to alignment.

    Raises InputError for a range that is empty or runs backwards.
    """
    if isinstance(ram, tuple):
        first, last, points = ram
        if not 0 < first <= last:
            raise InputError(
                f"--ram: expected FIRST:LAST with 0 < FIRST <= LAST, got {first}:{last}"
            )
        if points < (1 if first == last else 2):
            raise InputError(f"--points: expected at least 2 for a range, got {points}")
        steps = max(1, points - 1)
        ram = [first + (last - first) * k // steps for k in range(points)]
    if not ram or min(ram) <= 0:
        raise InputError(f"--ram: expected sizes above 0, got {ram or 'none'}")
    return sorted({max(alignment_bytes, round_down(size, alignment_bytes)) for size in ram})


def sweep(
    options: Options,
    ram: Ram,
    out: Path,
    jobs: int = 1,
    progress: Callable[[SweepProgress], None] = _quiet,
) -> Sweep:
    """Plan at each budget of ``ram`` with ``jobs`` processes; results stand in the folder ``out``.

    Finished points are kept in ``points.jsonl`` and not solved again, however a run ends. Raises
    what ``prepare`` raises, and InputError for budgets that the board does not have.
    """
    if jobs < 1:
        raise InputError(f"--jobs: expected at least 1, got {jobs}")
    prepared = prepare(replace(options, ram_bytes=None))
    board = prepared.board
    sizes = budgets(ram, board.arena.alignment_bytes)
    if sizes[-1] > board.ram_bytes:
        raise InputError(
            f"{board.name}: memory.sram: expected --ram of at most {board.ram_bytes} bytes, "
            f"got {sizes[-1]}; lower --ram or choose a board with more"
        )
    tasks = [_task(prepared, size) for size in (None, *sizes)]
    found = _solve_all(tasks, _Store(_folder(out) / POINTS_FILE), jobs, progress)
    limits = found[tasks[0].key]
    rows = never_worse([found[task.key] for task in tasks[1:]])
    facts = {
        "model": options.model.name,
        "board": board.name,
        "options": replace(options, ram_bytes=None).summary(),
        "version": __version__,
        **limits,
        "rows": rows,
    }
    _write(out, facts)
    return Sweep(rows, facts)


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{out}: expected a folder that can be made, got {error.strerror}; choose another"
        ) from error
    return out


def _task(prepared: Prepared, ram_bytes: int | None) -> _Task:
    """The key is of all that a point depends on: contents, not paths."""
    given = asdict(prepared.options) | {"model": None, "board": None}
    sha256 = prepared.imported.report.sha256
    parts = [__version__, sha256, prepared.board.model_dump(mode="json"), given, ram_bytes]
    text = json.dumps(parts, sort_keys=True)
    return _Task(prepared.options, sha256, ram_bytes, hashlib.sha256(text.encode()).hexdigest())


class _Store:
    """The JSON-lines file of finished points; each line is whole on the disk before it counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_bytes().decode("utf-8", "replace").splitlines() if path.is_file() else []
        known = [(line, _entry(line)) for line in lines]
        self.found = {entry[0]: entry[1] for _, entry in known if entry is not None}
        whole = "".join(f"{line}\n" for line, entry in known if entry is not None)
        if path.is_file() and path.read_bytes() != whole.encode():
            write_atomic(path, whole)  # a killed run may have left half a line

    def add(self, key: str, result: Row) -> None:
        line = json.dumps({"key": key, "result": result}, sort_keys=True)
        with self.path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.found[key] = result


def _entry(line: str) -> tuple[str, Row] | None:
    try:
        content = json.loads(line)
        key, result = content["key"], content["result"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (key, result) if isinstance(key, str) and isinstance(result, dict) else None


def _solve_all(
    tasks: Sequence[_Task], store: _Store, jobs: int, progress: Callable[[SweepProgress], None]
) -> dict[str, Row]:
    done = 0
    for task in tasks:
        if task.key in store.found:
            done += 1
            row = store.found[task.key] if task.ram_bytes is not None else None
            progress(SweepProgress(done, len(tasks), row, resumed=True))
    missing = [task for task in tasks if task.key not in store.found]
    for index, result in run_all(solve_point, missing, jobs):
        task = missing[index]
        store.add(task.key, result)
        done += 1
        row = result if task.ram_bytes is not None else None
        progress(SweepProgress(done, len(tasks), row, resumed=False))
    return store.found


@functools.lru_cache(maxsize=1)
def _prepared(options: Options, sha256: str) -> Prepared:
    """The model is read once a process; ``sha256`` tells a changed file from the one before."""
    prepared = prepare(options)
    if prepared.imported.report.sha256 != sha256:
        raise InputError(f"{options.model}: expected it unchanged during a sweep; run it again")
    return prepared


def solve_point(task: _Task) -> Row:
    """The row of one budget, or the least RAM that works. Runs in a worker process."""
    prepared = _prepared(task.options, task.sha256)
    board = prepared.board
    if task.ram_bytes is None:
        roomy = budget_for(prepared, board.ram_bytes)
        settings = StepSettings("train", "optimal")
        least, proven = least_ram(prepared.train, board, task.options, roomy, settings)
        return {"minimum_peak_bytes": least, "minimum_peak_proven_bytes": proven}
    prepared = replace(prepared, options=replace(task.options, ram_bytes=task.ram_bytes))
    budget = budget_for(prepared)
    deadline_s = task.options.deadline_s
    problem = make_problem(prepared.train, board, budget.arena_bytes, deadline_s)
    fixed = budget.arena_bytes - problem.memory_bytes + budget.runtime_bytes
    row: Row = dict.fromkeys(_ROW_KEYS)
    row |= {"ram_bytes": task.ram_bytes, "deadline_s": deadline_s}
    row |= _plan_row(prepared, board, fixed)
    return row | {"baselines": baselines(prepared, problem, fixed)}


def _plan_row(prepared: Prepared, board: Board, fixed: int) -> Row:
    options, budget = prepared.options, budget_for(prepared)
    if budget.arena_bytes <= 0:
        return {"status": "infeasible"}
    try:
        settings = StepSettings("train", options.strategy, options.deadline_s)
        step = plan_step(prepared.train, board, options, budget, settings)
        plan_step(
            prepared.evaluation,
            board,
            options,
            budget,
            StepSettings("eval", "optimal", None, len(step.program.pages), step.region_blocks),
        )
    except NoPlan as error:
        return {"status": "infeasible" if str(error) == "infeasible" else "unknown"}
    return _feasible_row(step, fixed) | {"plan_ram_bytes": prepared.ram_bytes}


def _feasible_row(step: StepPlan, fixed: int) -> Row:
    solution, metrics = step.solution, step.metrics
    found: Row = {key: getattr(metrics, key) for key in METRIC_KEYS}
    return found | {
        "status": solution.status.value if solution else "feasible",
        "objective": metrics.energy_j,
        "lower_bound": solution.lower_bound_j if solution else None,
        "gap": solution.gap if solution else None,
        "overhead_gap": solution.overhead_gap if solution else None,
        "solve_s": solution.solve_s if solution else 0.0,
        "peak_bytes": metrics.peak_bytes + fixed,
        "arena_bytes": step.placement.arena_bytes,
    }


def never_worse(rows: Iterable[Row]) -> list[Row]:
    """Rows by rising budget, each with the best plan of its own and of every smaller budget.

    A plan holds any larger budget; where a solver stopped at its limit, the smaller budget's may
    be the better one. ``plan_ram_bytes`` names the budget the plan was made for.
    """
    taken = (*METRIC_KEYS, "objective", "peak_bytes", "arena_bytes", "plan_ram_bytes")
    best: Row | None = None
    found: list[Row] = []
    for given in sorted(rows, key=lambda row: int(row["ram_bytes"])):
        row = given
        if best is not None and (row["energy_j"] is None or best["energy_j"] < row["energy_j"]):
            bound = row["lower_bound"]
            row = row | {key: best[key] for key in taken} | {"status": "feasible"}
            if bound is not None:
                row["lower_bound"] = bound = min(bound, row["energy_j"])
                row["gap"] = (row["energy_j"] - bound) / row["energy_j"]
                row["overhead_gap"] = None
        best = row if row["energy_j"] is not None else best
        found.append(row)
    return found


def flat(row: Row) -> Row:
    """A row with the baselines' main figures as columns, as the CSV has them, in its order."""
    found = {key: row[key] for key in _ROW_KEYS}
    for name, entry in sorted(row["baselines"].items()):
        found |= {f"{name}_{key}": entry[key] for key in _BASELINE_KEYS}
    return found


def _write(out: Path, facts: dict[str, Any]) -> None:
    rows = facts["rows"]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(flat(rows[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat(row) for row in rows)
    write_atomic(out / "sweep.csv", text.getvalue())
    write_atomic(out / "sweep.json", json.dumps(facts, indent=2, sort_keys=True) + "\n")
    title = f"{facts['model']} on {facts['board']}"
    figure = sweep_figure(title, rows, facts["minimum_peak_bytes"])
    write_atomic(out / "sweep.svg", figure.standalone())
    write_atomic(out / "sweep.html", render_page(sweep_page(facts, figure)))
