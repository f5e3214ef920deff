"""The process that runs HiGHS: jobs on stdin (``wire.py``), answers in JSON lines on stdout.

It is a process of its own so that it can be killed: HiGHS once overran its limit by ten minutes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import highspy
import numpy as np

from poet_mcu.schedule.wire import from_line

#: seconds between two progress lines
PERIOD_S = 0.25


_ENDS = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kModelEmpty: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnboundedOrInfeasible: "infeasible",  # all columns are bounded
    highspy.HighsModelStatus.kTimeLimit: "limit",
    highspy.HighsModelStatus.kIterationLimit: "limit",
    highspy.HighsModelStatus.kSolutionLimit: "limit",
    highspy.HighsModelStatus.kInterrupt: "limit",
}


class _Reporter:
    """Sends incumbents at once and bounds now and then."""

    def __init__(self, out: TextIO, cost: Any) -> None:
        self.out = out
        self.cost = cost
        self.sent_s = 0.0
        self.doubtful = False

    def send(self, **message: object) -> None:
        self.out.write(json.dumps(message) + "\n")
        self.out.flush()

    def on_event(self, kind: Any, message: str, data: Any, *_: object) -> None:
        """The callback HiGHS calls."""
        if kind == highspy.cb.HighsCallbackType.kCallbackLogging:
            self.doubtful = self.doubtful or "untransformed violations" in message
        elif kind == highspy.cb.HighsCallbackType.kCallbackMipImprovingSolution:
            self.send(
                kind="incumbent",
                values=[float(x) for x in data.mip_solution],
                # not data.objective_function_value: it may belong to another point, see ``run``
                objective=float(np.dot(self.cost, data.mip_solution)),
                bound=float(data.mip_dual_bound),
            )
        elif time.monotonic() - self.sent_s >= PERIOD_S:
            self.sent_s = time.monotonic()
            self.send(kind="bound", bound=float(data.mip_dual_bound))


def load(job: dict[str, Any]) -> Any:
    """A HiGHS object that holds the job's model, options and start."""
    make: Callable[[], Any] = highspy.Highs
    solver = make()
    for key, value in job["options"].items():
        solver.setOptionValue(key, value)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(job["cost"]), len(job["row_lower"])
    lp.col_cost_ = job["cost"]
    lp.col_lower_ = job["lower"]
    lp.col_upper_ = job["upper"]
    lp.row_lower_ = job["row_lower"]
    lp.row_upper_ = job["row_upper"]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = job["start"]
    lp.a_matrix_.index_ = job["index"]
    lp.a_matrix_.value_ = job["value"]
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[int(flag)] for flag in job["integer"]]
    solver.passModel(lp)
    if job["point"]:
        where = np.array([i for i, _ in job["point"]], dtype=np.int32)
        what = np.array([x for _, x in job["point"]], dtype=np.float64)
        solver.setSolution(len(where), where, what)
    return solver


def run(job: dict[str, Any], reporter: _Reporter) -> Any:
    """The solver after its run, made again without presolve when the first run is not credible.

    Seen with HiGHS 1.16 (and its open issues 2204 and 3296): presolve makes a feasible model
    infeasible, with or without the warning 'untransformed violations' in the log; and the start it
    was given comes back as optimal with the objective of another point.
    """
    began_s = time.monotonic()
    solver = load(job)
    reporter.doubtful = False
    if job["integer"].any():
        solver.setCallback(reporter.on_event, None)
        solver.startCallback(highspy.cb.HighsCallbackType.kCallbackMipImprovingSolution)
        solver.startCallback(highspy.cb.HighsCallbackType.kCallbackMipLogging)
        solver.startCallback(highspy.cb.HighsCallbackType.kCallbackLogging)
    solver.run()
    plain = job["options"]["presolve"] == "off" and not job["point"]
    if plain or not job["integer"].any() or credible(solver, job, reporter):
        return solver
    left_s = job["options"]["time_limit"] - (time.monotonic() - began_s)
    options = {**job["options"], "time_limit": max(left_s, 0.01), "presolve": "off"}
    reporter.send(kind="restart")
    return run({**job, "point": [], "options": options}, reporter)


def credible(solver: Any, job: dict[str, Any], reporter: _Reporter) -> bool:
    """Whether the answer of a run with presolve or a start may be believed."""
    if _ENDS.get(solver.getModelStatus()) == "infeasible":
        return False
    claimed, true = float(solver.getInfo().objective_function_value), objective_of(solver, job)
    same = true is None or abs(claimed - true) <= 1e-6 * max(1.0, abs(true))
    return same and not reporter.doubtful


def objective_of(solver: Any, job: dict[str, Any]) -> float | None:
    """The objective of the point the solver returns, from its columns; None without a point."""
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return float(np.dot(job["cost"], solver.getSolution().col_value))


def answer(job: dict[str, Any], reporter: _Reporter) -> None:
    """Solve ``job`` and report how it ended."""
    solver = run(job, reporter)
    status, objective = solver.getModelStatus(), objective_of(solver, job)
    done = _ENDS.get(status, "error")
    reporter.send(
        kind="done",
        status=done,
        detail=solver.modelStatusToString(status),
        values=None if objective is None else [float(x) for x in solver.getSolution().col_value],
        objective=objective,
        bound=_bound(solver.getInfo(), mip=bool(job["integer"].any()), solved=done == "optimal"),
    )


def _bound(info: Any, *, mip: bool, solved: bool) -> float | None:
    if mip:
        bound = float(info.mip_dual_bound)
        return bound if np.isfinite(bound) else None
    return float(info.objective_function_value) if solved else None


def main() -> None:
    """Serve jobs until stdin ends. Whatever HiGHS prints goes to stderr, not into the answers."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        job = from_line(line)
        answer(job, _Reporter(out, job["cost"]))


if __name__ == "__main__":
    main()
