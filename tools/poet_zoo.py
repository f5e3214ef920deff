"""Solves POET's model zoo (its node costs as JSON files) at fractions of the forward bytes.

    python tools/poet_zoo.py FOLDER [--models linear,vgg16_cifar] [--platforms m4,a72,m0]
                             [--fractions 0.9,0.7,0.5,0.4] [--ratio 1.5] [--time-limit 120]
                             [--solver highs|cbc]

A file is {model, platform, forward_bytes, base_j, base_s, nodes}, a node {name, backward, inputs,
output_bytes, compute_s, compute_j, page_in_s, page_out_s, page_in_j, page_out_j}. Only activations
count, as POET counts; transfers count towards the deadline, which POET leaves out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from poet_mcu.schedule import Op, Problem, SolveOptions, Tensor, solve


def problem_of(data: dict[str, Any], fraction: float, ratio: float = 1.5) -> Problem:
    """The planner's problem of one zoo file; node k writes tensor k."""
    nodes = data["nodes"]
    tensors = tuple(
        Tensor(
            k,
            node["name"],
            node["output_bytes"],
            True,
            node["page_in_s"],
            node["page_out_s"],
            node["page_in_j"],
            node["page_out_j"],
        )
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


def row(problem: Problem, fraction: float, options: SolveOptions) -> str:
    """One line of the table: status, energy, bound, gaps, seconds, and what the plan does."""
    found = solve(problem, options)
    head = f"{problem.name:20s} {100 * fraction:4.0f} %  {found.status.value:10s}"
    if found.metrics is None or found.gap is None or found.overhead_gap is None:
        return f"{head} {'-':>14s} (>= {found.lower_bound_j:.9g} J)  {found.solve_s:6.1f} s"
    m = found.metrics
    return (
        f"{head} {m.energy_j:14.9g} (>= {found.lower_bound_j:.9g} J)  "
        f"gap {100 * found.gap:.4f} % of total, {100 * found.overhead_gap:.2f} % of overhead  "
        f"{found.solve_s:6.1f} s  recompute {m.recomputes}, in {m.page_ins}, out {m.page_outs}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default="linear,vgg16_cifar,resnet18_cifar")
    parser.add_argument("--platforms", default="m4")
    parser.add_argument("--fractions", default="0.9,0.7,0.5,0.4")
    parser.add_argument("--ratio", type=float, default=1.5)
    parser.add_argument("--time-limit", type=float, default=120.0)
    parser.add_argument("--solver", choices=("highs", "cbc"), default="highs")
    given = parser.parse_args()
    options = SolveOptions(solver=given.solver, time_limit_s=given.time_limit)
    for model in given.models.split(","):
        for platform in given.platforms.split(","):
            path = given.folder / f"{model}-{platform}.json"
            data = json.loads(path.read_text(encoding="utf-8"))
            for fraction in map(float, given.fractions.split(",")):
                print(row(problem_of(data, fraction, given.ratio), fraction, options), flush=True)


if __name__ == "__main__":
    main()
