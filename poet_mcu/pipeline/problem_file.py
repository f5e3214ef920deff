"""Problems of the planner as JSON files: POET's model zoo, and exact exports of our own problems.

A zoo file is {model, platform, forward_bytes, base_j, base_s, nodes}, a node {name, backward,
inputs, output_bytes, compute_s, compute_j, page_in_s, page_out_s, page_in_j, page_out_j}; node k
writes tensor k. An export is {format, problem}: the fields of ``schedule/problem.py`` by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from poet_mcu.errors import InputError, InternalError
from poet_mcu.pipeline.plan import METRIC_KEYS, PlanInfeasible
from poet_mcu.pipeline.problem_check import check_problem
from poet_mcu.pipeline.stepplan import BASELINES
from poet_mcu.schedule import (
    Metrics,
    Op,
    Problem,
    Solution,
    SolveOptions,
    Tensor,
    fits,
    largest_working_set,
    minimum_memory,
    simulate,
    solve,
)
from poet_mcu.schedule.touch import expand
from poet_mcu.units import parse_bytes, parse_seconds

FORMAT = "poet-mcu problem 1"
SEMANTICS = ("own", "poet")
#: POET's own deadline where a zoo file is given none: times the seconds of every op once
ZOO_RATIO = 1.5

_RATIO = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*x\s*$")
_FRACTION = re.compile(r"^\s*(0?\.\d+|1\.0*)\s*$")


@dataclass(frozen=True, slots=True)
class ProblemOptions:
    """``ram``: bytes, or a fraction (0.5) of the forward bytes. ``deadline``: seconds, or 1.5x.

    None leaves what the file says (a zoo file: all forward bytes, 1.5x). ``semantics`` 'poet'
    counts as POET counts: activations alone, no workspace, nothing in place, transfers take no
    time.
    """

    file: Path
    ram: str | None = None
    deadline: str | None = None
    semantics: str = "own"
    max_write_bytes: int | None = None


def read_problem(options: ProblemOptions) -> Problem:
    """The problem of a file under the options. Raises InputError with file and key."""
    data = _json(options.file)
    try:
        if "nodes" in data:
            problem = zoo_problem(data)
        elif data.get("format") == FORMAT:
            problem = _from_export(data["problem"])
        else:
            raise InputError(
                f"{options.file}: format: expected '{FORMAT}' or the key nodes of a zoo file, got "
                f"'{data.get('format')}'; make one with plan --export-problem"
            )
        check_problem(problem)
        expand(problem)
        forward_bytes = int(data["forward_bytes"]) if "nodes" in data else _forward_bytes(problem)
    except InternalError as error:
        raise InputError(f"{options.file}: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        raise InputError(
            f"{options.file}: problem: expected the keys of its format, got {error!r}; "
            "make one with plan --export-problem"
        ) from error
    if options.semantics not in SEMANTICS:
        raise InputError(f"--semantics: expected own or poet, got '{options.semantics}'")
    problem = poet_semantics(problem) if options.semantics == "poet" else problem
    if options.ram is not None:
        problem = replace(problem, memory_bytes=_budget(options.ram, forward_bytes))
    if options.deadline is not None:
        problem = replace(problem, deadline_s=_deadline(options.deadline, problem.base_s))
    if options.max_write_bytes is not None:
        problem = replace(problem, max_write_bytes=options.max_write_bytes)
    return problem


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: --problem: expected a JSON file, got {error}") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: --problem: expected a JSON object, got {type(data).__name__}")
    return data


def _budget(text: str, forward_bytes: int) -> int:
    found = _FRACTION.match(text)
    return int(float(found[1]) * forward_bytes) if found else parse_bytes(text, "--ram")


def _deadline(text: str, base_s: float) -> float:
    found = _RATIO.match(text)
    return float(found[1]) * base_s if found else parse_seconds(text, "--deadline")


def _forward_bytes(problem: Problem) -> int:
    """Bytes of everything that a forward op writes."""
    size = {t.id: t.nbytes for t in problem.tensors}
    return sum(size[i] for op in problem.ops if not op.backward for i in op.outputs)


def zoo_problem(data: dict[str, Any], fraction: float = 1.0, ratio: float = ZOO_RATIO) -> Problem:
    """The problem of a zoo file at a fraction of its forward bytes."""
    nodes = data["nodes"]
    costs = ("page_in_s", "page_out_s", "page_in_j", "page_out_j")
    tensors = tuple(
        Tensor(k, node["name"], node["output_bytes"], True, *(node[key] for key in costs))
        for k, node in enumerate(nodes)
    )
    ops = tuple(
        Op(
            k,
            node["name"],
            tuple(dict.fromkeys(node["inputs"])),
            (k,),
            node["compute_s"],
            node["compute_j"],
            0,
            not node["backward"],
            node["backward"],
        )
        for k, node in enumerate(nodes)
    )
    name = f"{data['model']}-{data['platform']}"
    budget = int(fraction * data["forward_bytes"])
    return Problem(name, tensors, ops, budget, ratio * data["base_s"])


def poet_semantics(problem: Problem) -> Problem:
    """``problem`` as POET counts: activations alone, no workspace, transfers take no time."""
    counted = {
        t.id: replace(t, page_in_s=0.0, page_out_s=0.0)
        for t in problem.tensors
        if not t.at_start_paged
    }
    ops = tuple(
        replace(
            op,
            inputs=tuple(i for i in op.inputs if i in counted),
            workspace_bytes=0,
            in_place=(),
            mutates=(),
        )
        for op in problem.ops
    )
    return replace(problem, tensors=tuple(counted.values()), ops=ops, overlap=False, wait_w=0.0)


def export_problem(problem: Problem, path: Path) -> None:
    """Write ``problem`` exactly; ``read_problem`` gives an equal one."""
    data = {"format": FORMAT, "problem": asdict(problem)}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8", newline="\n")


def _from_export(data: dict[str, Any]) -> Problem:
    tensors = tuple(Tensor(**row) for row in data["tensors"])
    rows: list[dict[str, Any]] = data["ops"]
    ops = tuple(
        Op(**{k: _tuples(v) if isinstance(v, list) else v for k, v in row.items()}) for row in rows
    )
    rest = {f.name: data[f.name] for f in fields(Problem) if f.name not in ("tensors", "ops")}
    return Problem(tensors=tensors, ops=ops, **rest)


def _tuples(value: list[Any]) -> Any:
    return tuple(_tuples(each) if isinstance(each, list) else each for each in value)


def plan_problem(
    options: ProblemOptions, switches: SolveOptions, progress: Callable[[str], None]
) -> dict[str, Any]:
    """The plan of a problem file under the keys of plan.json, with baselines.

    Raises PlanInfeasible when there is none, InputError for a bad file.
    """
    problem = read_problem(options)
    progress("planning")
    found = solve(problem, switches)
    working_set, name = largest_working_set(problem)
    if found.metrics is None:
        raise PlanInfeasible(_no_plan(options, problem, found, working_set, name), {
            "status": found.status.value, "ram_bytes": problem.memory_bytes,
            "deadline_s": problem.deadline_s, "largest_working_set_bytes": working_set,
            "largest_operator": name, "lower_bound": found.lower_bound_j,
        })  # fmt: skip
    progress("planning the baselines")
    baselines = _baselines(problem, switches)
    return _entry(problem, found.status.value, found.metrics, found) | {
        "model": options.file.name,
        "board": "no board",
        "strategy": "optimal",
        "semantics": options.semantics,
        "solver": found.solver,
        "base_energy_j": problem.base_j,
        "peak_at": found.metrics.peak_name,
        "keep_all_peak_bytes": baselines["keep_all"]["peak_bytes"],
        "minimum_peak_bytes": minimum_memory(replace(problem, deadline_s=None), switches).bytes,
        "largest_working_set_bytes": working_set,
        "largest_operator": name,
        "max_write_bytes_per_step": problem.max_write_bytes,
        "baselines": baselines,
    }


def _no_plan(
    options: ProblemOptions, problem: Problem, found: Solution, working_set: int, name: str
) -> str:
    proven = "which is proven" if found.status.value == "infeasible" else "and no proof"
    return (
        f"{options.file}: problem: expected a plan within {problem.memory_bytes} bytes and "
        f"{problem.deadline_s} s, got none, {proven}; '{name}' alone needs {working_set} bytes; "
        "raise --ram, --deadline or --time-limit"
    )


def _entry(
    problem: Problem, status: str, metrics: Metrics | None, found: Solution | None
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "status": status,
        "objective": metrics.energy_j if metrics else None,
        "lower_bound": found.lower_bound_j if found else None,
        "gap": found.gap if found else None,
        "overhead_gap": found.overhead_gap if found else None,
        "solve_s": found.solve_s if found else 0.0,
        "ram_bytes": problem.memory_bytes,
        "deadline_s": problem.deadline_s,
    }
    keys = ("peak_bytes", *METRIC_KEYS)
    return entry | {key: getattr(metrics, key) if metrics else None for key in keys}


def _baselines(problem: Problem, switches: SolveOptions) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, make in BASELINES.items():
        metrics = simulate(problem, make(problem))
        status = "feasible" if fits(problem, metrics) else "infeasible"
        found[name.replace("-", "_")] = _entry(problem, status, metrics, None)
    for key, paging, remat in (("remat_only", False, True), ("paging_only", True, False)):
        solution = solve(problem, replace(switches, paging=paging, remat=remat))
        found[key] = _entry(problem, solution.status.value, solution.metrics, solution)
    return found
