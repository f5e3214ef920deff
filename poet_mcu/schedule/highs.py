"""HiGHS in a child process that is killed when it overruns its limit."""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulp

from poet_mcu.schedule.backend import Answer, Limits, SolveStatus, Watcher
from poet_mcu.schedule.wire import to_line

#: the solver's own limit ends this much before ours
GRACE_S = 1.0
#: the kill comes so many seconds behind ours, or this share of it if that is sooner: on a busy
#: machine a new worker costs more than a moment of waiting
LATE_S, LATE = 1.0, 0.3
#: module that serves the solves
WORKER = "poet_mcu.schedule.worker"
#: smaller models are solved without presolve: as fast there, and presolve has bugs (``worker.run``)
PRESOLVE_NONZEROS = 50_000


@dataclass(frozen=True, slots=True)
class _Matrix:
    """The model as arrays, and the column names."""

    names: tuple[str, ...]
    job: dict[str, Any]


def matrix(model: pulp.LpProblem) -> _Matrix:
    """Rows of ``model`` as compressed arrays, columns in the model's order."""
    columns = model.variables()
    position = {var: k for k, var in enumerate(columns)}
    cost = [0.0] * len(columns)
    for var, factor in model.objective.items():
        cost[position[var]] = float(factor)
    start, index, value, low, high = [0], [], [], [], []
    rows = model.constraints  # PuLP 2 has a dict, 4 a method, 3.3 both
    for row in rows() if callable(rows) else rows.values():
        for var, factor in row.items():
            if factor:
                index.append(position[var])
                value.append(float(factor))
        start.append(len(index))
        rhs = -float(row.constant)
        low.append(-math.inf if row.sense == pulp.LpConstraintLE else rhs)
        high.append(math.inf if row.sense == pulp.LpConstraintGE else rhs)
    job = {
        "cost": cost,
        "lower": [float(var.lowBound) for var in columns],
        "upper": [float(var.upBound) for var in columns],
        "integer": [int(var.cat == pulp.LpInteger) for var in columns],
        "row_lower": low,
        "row_upper": high,
        "start": start,
        "index": index,
        "value": value,
    }
    return _Matrix(tuple(var.name for var in columns), job)


@dataclass(slots=True)
class _Child:
    """The running worker; lines of its stdout arrive in ``lines``, None when it has ended."""

    process: subprocess.Popen[str]
    lines: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)

    def pump(self) -> None:
        if self.process.stdout is not None:
            for line in self.process.stdout:
                self.lines.put(line)
        self.lines.put(None)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _spawn() -> _Child:
    process = subprocess.Popen(
        [sys.executable, "-m", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )
    child = _Child(process)
    threading.Thread(target=child.pump, daemon=True).start()
    return child


class Highs:
    """HiGHS, one thread, fixed seed: the same model gives the same answer.

    One worker serves all solves of the process, one after the other; it is replaced after a kill.
    """

    name = "highs"

    def __init__(self) -> None:
        self._child: _Child | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def close(self) -> None:
        """End the worker."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def cancel(self) -> None:
        """See ``Backend.cancel``."""
        child = self._child
        if child is not None and self._lock.locked():
            child.process.kill()
            child.process.wait()  # else the next solve may still take it for a living one

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
        """See ``Backend.solve``."""
        began_s = time.monotonic()
        arrays = matrix(model)
        job = dict(arrays.job)
        if relax:
            job["integer"] = [0] * len(arrays.names)
        if fixed:
            job["lower"] = _pinned(arrays, job["lower"], fixed)
            job["upper"] = _pinned(arrays, job["upper"], fixed)
        known = start or {}
        job["point"] = [(k, known[name]) for k, name in enumerate(arrays.names) if name in known]
        left_s = limits.time_s - (time.monotonic() - began_s)
        if left_s <= 0.0:
            return Answer(SolveStatus.TIMEOUT, None, None, None, "no time left for the solver")
        job["options"] = {
            "log_to_console": False,
            "presolve": "off" if len(job["value"]) <= PRESOLVE_NONZEROS else "on",
            "threads": 1,
            "random_seed": 0,
            "time_limit": max(left_s - min(GRACE_S, 0.1 * limits.time_s), 0.01),
            "mip_rel_gap": limits.rel_gap,
            "mip_abs_gap": limits.abs_gap,
        }
        with self._lock:
            late_s = min(LATE_S, LATE * limits.time_s)
            return self._run(arrays.names, job, began_s + limits.time_s + late_s, watch)

    def _run(
        self, names: tuple[str, ...], job: dict[str, Any], until_s: float, watch: Watcher | None
    ) -> Answer:
        if self._child is None or self._child.process.poll() is not None:
            self.close()
            self._child = _spawn()
        child, best = self._child, _Best(names, watch)
        try:
            if child.process.stdin is not None:
                child.process.stdin.write(to_line(job))
                child.process.stdin.flush()
            while not best.done:
                line = child.lines.get(timeout=max(until_s - time.monotonic(), 0.001))
                if line is None:
                    self.close()
                    return best.stopped(SolveStatus.ERROR, "the solver process ended")
                best.take(json.loads(line))
        except queue.Empty:
            self.close()
            return best.stopped(SolveStatus.TIMEOUT, "killed at its limit")
        except OSError as fault:
            self.close()
            return best.stopped(SolveStatus.ERROR, str(fault))
        except BaseException:
            self.close()
            raise
        return best.answer


class _Best:
    """The best point and bound that the worker has told so far."""

    def __init__(self, names: tuple[str, ...], watch: Watcher | None) -> None:
        self.names = names
        self.watch = watch
        self.values: dict[str, float] | None = None
        self.objective: float | None = None
        self.bound: float | None = None
        self.done = False
        self.answer = Answer(SolveStatus.ERROR, None, None, None)

    def take(self, message: dict[str, Any]) -> None:
        """Note one line of the worker."""
        if message["kind"] == "restart":  # points stay, they are checked; bounds do not
            self.bound = None
            if self.watch is not None:
                self.watch(self.objective, -math.inf)
            return
        bound = message.get("bound")
        if bound is not None and math.isfinite(bound):
            self.bound = bound if self.bound is None else max(self.bound, bound)
        objective = message.get("objective")
        better = objective is not None and (
            self.objective is None or objective <= self.objective + 1e-9 * abs(self.objective)
        )
        if better and message.get("values") is not None:
            self.values = dict(zip(self.names, message["values"], strict=True))
            self.objective = objective
        if self.watch is not None and self.bound is not None:
            self.watch(self.objective, self.bound)
        if message["kind"] == "done":
            self.done = True
            self.answer = self._ended(message["status"], message["detail"])

    def _ended(self, status: str, detail: str) -> Answer:
        if status == "optimal":
            return Answer(SolveStatus.OPTIMAL, self.values, self.objective, self.bound, detail)
        if status == "infeasible":
            return Answer(SolveStatus.INFEASIBLE, None, None, None, detail)
        return self.stopped(SolveStatus.TIMEOUT if status == "limit" else SolveStatus.ERROR, detail)

    def stopped(self, status: SolveStatus, detail: str) -> Answer:
        """The answer of a solver that did not finish: its incumbent, if it has one."""
        found = SolveStatus.FEASIBLE if self.values is not None else status
        return Answer(found, self.values, self.objective, self.bound, detail)


def _pinned(arrays: _Matrix, side: list[float], fixed: Mapping[str, float]) -> list[float]:
    return [fixed.get(name, old) for name, old in zip(arrays.names, side, strict=True)]
