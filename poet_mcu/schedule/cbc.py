"""CBC as the second solver: an MPS file, a child process with a hard kill, its log and solution."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path

import pulp

from poet_mcu.errors import ToolMissing
from poet_mcu.schedule.backend import Answer, Limits, SolveStatus, Watcher

#: the solver's own limit ends this much before the kill
GRACE_S = 1.0

_BOUND = re.compile(r"^Lower bound:\s+(\S+)", re.MULTILINE)


def executable() -> str:
    """Path of CBC: the one PuLP bundles, else the one on PATH. Raises ToolMissing."""
    make = getattr(pulp, "PULP_CBC_CMD", None)  # gone in PuLP 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        bundled = None if make is None else make(msg=False)
        if bundled is not None and bundled.available():
            return str(bundled.path)
    found = shutil.which("cbc")
    if found is None:
        raise ToolMissing(
            "cbc: expected PuLP's bundled solver or 'cbc' on PATH, got neither for this machine; "
            "use --solver highs or install coinor-cbc"
        )
    return found


class Cbc:
    """CBC on one thread. It cannot take a start, so a start is only a fallback of the caller."""

    name = "cbc"

    def __init__(self) -> None:
        self._running: subprocess.Popen[str] | None = None

    def cancel(self) -> None:
        """See ``Backend.cancel``; CBC then has no answer."""
        running = self._running
        if running is not None:
            running.kill()

    def close(self) -> None:
        """See ``Backend.close``; every solve has a process of its own."""

    def solve(
        self,
        model: pulp.LpProblem,
        limits: Limits,
        *,
        relax: bool = False,
        start: Mapping[str, float] | None = None,
        fixed: Mapping[str, float] | None = None,
        watch: Watcher | None = None,
    ) -> Answer:
        """See ``Backend.solve``; ``start`` and ``watch`` are not used."""
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="poet-cbc-") as folder:
            mps, solution = Path(folder, "model.mps"), Path(folder, "solution.txt")
            pinned = _pin(model, fixed or {})
            model.writeMPS(str(mps), mip=0 if relax else 1)
            _unpin(model, pinned)
            left_s = max(limits.time_s - (time.monotonic() - began_s), 0.1)
            inner_s = max(left_s - min(GRACE_S, 0.1 * left_s), 0.05)
            command = [executable(), str(mps), "-sec", f"{inner_s:.3f}", "-timeMode", "elapsed"]
            command += ["-ratioGap", repr(limits.rel_gap), "-allowableGap", repr(limits.abs_gap)]
            command += ["-randomSeed", "1", "-randomCbcSeed", "1", "-threads", "0"]
            command += ["-initialSolve" if relax else "-branch", "-printingOptions", "all"]
            command += ["-solution", str(solution)]
            ran_s = time.monotonic()
            log = self._run(command, left_s)
            if log is None:
                return Answer(SolveStatus.TIMEOUT, None, None, None, "killed at its limit")
            hurried = time.monotonic() - ran_s > 0.8 * inner_s
            text = solution.read_text(encoding="utf-8") if solution.exists() else ""
        return read_answer(text, log, [v.name for v in model.variables()], hurried=hurried)

    def _run(self, command: list[str], limit_s: float) -> str | None:
        """What the command prints; None when it overran its limit or was cancelled."""
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as running:
            self._running = running
            try:
                log, _ = running.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                running.kill()
                return None
            finally:
                self._running = None
        return log if running.returncode >= 0 else None


def _pin(model: pulp.LpProblem, fixed: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    old: dict[str, tuple[float, float]] = {}
    for var in model.variables():
        if var.name in fixed:
            old[var.name] = (var.lowBound, var.upBound)
            var.lowBound = var.upBound = fixed[var.name]
    return old


def _unpin(model: pulp.LpProblem, old: Mapping[str, tuple[float, float]]) -> None:
    for var in model.variables():
        if var.name in old:
            var.lowBound, var.upBound = old[var.name]


def read_answer(solution: str, log: str, names: list[str], *, hurried: bool) -> Answer:
    """The answer in CBC's solution file and log.

    ``hurried``: the limit was near. CBC then calls models infeasible whose preprocessing it cut
    short, so its word counts only when it had time.
    """
    lines = solution.splitlines()
    head = lines[0].lower() if lines else ""
    values = _values(lines[1:], names)
    objective = _objective(head)
    bound = _BOUND.search(log)
    lower = float(bound[1]) if bound else None
    if head.startswith("optimal"):
        proven = objective if lower is None else lower
        return Answer(SolveStatus.OPTIMAL, values, objective, proven, head)
    if "infeasible" in head:
        if hurried:
            return Answer(SolveStatus.TIMEOUT, None, None, lower, head)
        return Answer(SolveStatus.INFEASIBLE, None, None, None, head)
    found = "no integer solution" not in head
    # without an incumbent the value is CBC's infinity, 1e50
    found = found and objective is not None and abs(objective) < 1e40
    if head.startswith("stopped") and found:
        return Answer(SolveStatus.FEASIBLE, values, objective, lower, head)
    if head.startswith("stopped"):
        return Answer(SolveStatus.TIMEOUT, None, None, lower, head)
    return Answer(SolveStatus.ERROR, None, None, None, head or "no solution file")


def _objective(head: str) -> float | None:
    found = re.search(r"objective value\s+(\S+)", head)
    return float(found[1]) if found else None


def _values(lines: list[str], names: list[str]) -> dict[str, float]:
    values = dict.fromkeys(names, 0.0)
    for line in lines:
        fields = line.replace("**", " ").split()
        if len(fields) >= 3 and fields[1] in values:
            values[fields[1]] = float(fields[2])
    return values
