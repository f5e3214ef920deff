"""Runs the actions of a schedule on the problem's sizes and costs, one by one.

Slow and obvious on purpose: it is the oracle of the planner and shares no code with it. Every
rule of ``ir/schedule.py`` that is broken raises InternalError with the index of the action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from poet_mcu.errors import InternalError
from poet_mcu.ir.schedule import Action, ActionKind, Schedule
from poet_mcu.schedule.problem import Op, Problem

#: relative slack on the deadline: sums of the same seconds in another order differ by rounding
TIME_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Metrics:
    """What one step of a schedule costs.

    ``peak_bytes`` counts resident tensors, outputs and workspace; ``peak_action`` is the index of
    the first action that reaches it and ``peak_name`` its op or tensor. ``sd_read_bytes`` and
    ``sd_write_bytes`` sum ``Tensor.nbytes``. ``stall_s`` is time in which only a transfer runs,
    ``wait_j`` its energy beyond ``sd_j`` (0 where the CPU polls: ``sd_j`` holds it then).
    """

    peak_bytes: int
    energy_j: float
    compute_j: float
    sd_j: float
    time_s: float
    stall_s: float
    sd_read_bytes: int
    sd_write_bytes: int
    recomputes: int
    page_ins: int
    page_outs: int
    peak_action: int
    peak_name: str
    wait_j: float = 0.0


class _Machine:
    """Memory, card and clock of one step."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.tensors = {t.id: t for t in problem.tensors}
        self.ops = {op.id: op for op in problem.ops}
        self.order = [op.id for op in problem.ops]
        self.resident = {t.id for t in problem.tensors if t.at_start}
        self.reading: set[int] = set()
        self.writing: set[int] = set()
        self.pages = {t.id for t in problem.tensors if t.at_start_paged}
        self.changed: set[int] = set()
        self.ends_s: dict[int, float] = {}  # of the transfers under way
        self.clock_s = self.bus_free_s = self.stall_s = 0.0
        self.computed = 0
        self.index = 0
        self.peak_bytes = -1
        self.peak_action = 0
        self.peak_name = "start of the step"
        self.compute_j = self.sd_j = 0.0
        self.sd_read_bytes = self.sd_write_bytes = 0
        self.recomputes = self.page_ins = self.page_outs = 0

    def require(self, holds: bool, subject: str, expected: str, got: str) -> None:
        if not holds:
            raise InternalError(
                f"schedule: action {self.index} ({subject}): expected {expected}, got {got}; "
                "this is a bug in poet_mcu/schedule"
            )

    def name(self, tensor_id: int) -> str:
        self.require(
            tensor_id in self.tensors, f"tensor {tensor_id}", "a tensor of the problem", "none"
        )
        return self.tensors[tensor_id].name

    def used_bytes(self) -> int:
        return sum(self.tensors[i].nbytes for i in self.resident)

    def mark_peak(self, used_bytes: int, name: str) -> None:
        if used_bytes > self.peak_bytes:
            self.peak_bytes, self.peak_action, self.peak_name = used_bytes, self.index, name

    def compute(self, action: Action) -> None:
        self.require(
            action.subject in self.ops, f"op {action.subject}", "an op of the problem", "none"
        )
        op = self.ops[action.subject]
        self.check_order(op, action)
        for i in op.inputs:
            what = f"{op.name} reads {self.name(i)}"
            self.require(i in self.resident, what, "it resident", "it absent")
            self.require(i not in self.reading, what, "its page-in waited for", "it in flight")
        for i in op.mutates:
            what = f"{op.name} overwrites {self.name(i)}"
            self.require(i in op.inputs, what, "one of its inputs", "another tensor")
            self.require(i not in self.writing, what, "no page-out in flight", "one")
        for i in op.outputs:
            what = f"{op.name} writes {self.name(i)}"
            self.require(i not in self.resident, what, "it absent", "it resident already")
        saved_bytes = self.check_in_place(op, action)
        outputs_bytes = sum(self.tensors[i].nbytes for i in op.outputs)
        during = self.used_bytes() + outputs_bytes - saved_bytes + op.workspace_bytes
        self.mark_peak(during, op.name)
        self.resident.difference_update(taken for _, taken in action.in_place)
        self.resident.update(op.outputs)
        self.changed.update(op.mutates)
        self.pages.difference_update(op.mutates)
        self.clock_s += op.compute_s
        self.compute_j += op.compute_j

    def check_order(self, op: Op, action: Action) -> None:
        if action.recompute:
            done = op.id in self.order[: self.computed]
            self.require(done, f"{op.name} again", "a first run before", "none")
            self.require(op.recomputable, f"{op.name} again", "a pure op", "one with effects")
            stale = self.changed.intersection(op.inputs)
            self.require(not stale, f"{op.name} again", "inputs as at first", "updated ones")
            self.recomputes += 1
            return
        following = self.order[self.computed] if self.computed < len(self.order) else None
        got = "no op left" if following is None else f"its turn to be {self.ops[following].name}"
        self.require(op.id == following, op.name, "first runs in the order of the problem", got)
        self.computed += 1

    def check_in_place(self, op: Op, action: Action) -> int:
        """Bytes that the in-place pairs of the action save."""
        outs = [out for out, _ in action.in_place]
        ins = [taken for _, taken in action.in_place]
        what = f"{op.name} in place"
        once = len(set(outs)) == len(outs) and len(set(ins)) == len(ins)
        self.require(once, what, "each buffer in one pair", "one twice")
        for pair in action.in_place:
            self.require(pair in op.in_place, what, f"a pair of {op.in_place}", f"{pair}")
            self.require(pair[1] not in self.writing, what, "no page-out in flight", "one")
        return sum(
            min(self.tensors[out].nbytes, self.tensors[taken].nbytes)
            for out, taken in action.in_place
        )

    def page_out(self, action: Action) -> None:
        i, name = action.subject, self.name(action.subject)
        what = f"page out {name}"
        self.require(self.tensors[i].pageable, what, "a pageable tensor", "one that is not")
        self.require(i in self.resident, what, "it resident", "it absent")
        self.require(i not in self.reading | self.writing, what, "no transfer of it", "one")
        self.writing.add(i)
        self.mark_peak(self.used_bytes(), name)
        self.start(i, self.tensors[i].page_out_s)
        self.sd_j += self.tensors[i].page_out_j
        self.sd_write_bytes += self.tensors[i].nbytes
        self.page_outs += 1

    def page_in(self, action: Action) -> None:
        i, name = action.subject, self.name(action.subject)
        what = f"page in {name}"
        self.require(i in self.pages, what, "a page that was written and waited for", "none")
        self.require(i not in self.resident, what, "it absent", "it resident already")
        self.resident.add(i)
        self.reading.add(i)
        self.mark_peak(self.used_bytes(), name)
        self.start(i, self.tensors[i].page_in_s)
        self.sd_j += self.tensors[i].page_in_j
        self.sd_read_bytes += self.tensors[i].nbytes
        self.page_ins += 1

    def start(self, i: int, seconds: float) -> None:
        """The bus takes one transfer after the other; without overlap the CPU runs it itself."""
        self.ends_s[i] = max(self.clock_s, self.bus_free_s) + seconds
        self.bus_free_s = self.ends_s[i]
        if not self.problem.overlap:
            self.stall_until(self.ends_s[i])

    def stall_until(self, end_s: float) -> None:
        stall_s = max(end_s - self.clock_s, 0.0)
        self.stall_s += stall_s
        self.clock_s += stall_s

    def wait(self, action: Action) -> None:
        i, what = action.subject, f"wait for {self.name(action.subject)}"
        self.require(i in self.reading | self.writing, what, "a transfer in flight", "none")
        self.stall_until(self.ends_s.pop(i))
        if i in self.writing:
            self.pages.add(i)
        self.writing.discard(i)
        self.reading.discard(i)
        self.mark_peak(self.used_bytes(), self.tensors[i].name)

    def free(self, action: Action) -> None:
        i, what = action.subject, f"free {self.name(action.subject)}"
        self.require(i in self.resident, what, "it resident", "it absent")
        self.require(i not in self.reading | self.writing, what, "no transfer of it", "one")
        self.mark_peak(self.used_bytes(), self.tensors[i].name)
        self.resident.discard(i)

    def check_end(self) -> None:
        self.require(
            self.computed == len(self.order),
            "end of the step",
            f"all {len(self.order)} ops run",
            f"{self.computed}",
        )
        self.require(
            not (self.reading | self.writing), "end of the step", "no transfer in flight", "one"
        )
        wanted = {i for i, tensor in self.tensors.items() if tensor.at_end}
        for i in sorted(wanted ^ self.resident):
            expected, got = ("resident", "absent") if i in wanted else ("freed", "resident")
            self.require(False, f"end of the step, {self.tensors[i].name}", expected, got)
        for i in sorted(i for i, tensor in self.tensors.items() if tensor.at_end_paged):
            what = f"end of the step, {self.tensors[i].name}"
            self.require(i in self.pages, what, "its page up to date", "a stale one")


def simulate(problem: Problem, schedule: Schedule) -> Metrics:
    """The costs of ``schedule``; a budget or deadline that is exceeded is not an error here.

    Raises InternalError at the first action that breaks a rule.
    """
    machine = _Machine(problem)
    run: dict[ActionKind, Callable[[Action], None]] = {
        ActionKind.COMPUTE: machine.compute,
        ActionKind.PAGE_OUT: machine.page_out,
        ActionKind.PAGE_IN: machine.page_in,
        ActionKind.WAIT: machine.wait,
        ActionKind.FREE: machine.free,
    }
    machine.mark_peak(machine.used_bytes(), "start of the step")
    for index, action in enumerate(schedule.actions):
        machine.index = index
        run[action.kind](action)
    machine.index = len(schedule.actions)
    machine.check_end()
    wait_j = problem.wait_w * machine.stall_s if problem.overlap else 0.0
    return Metrics(
        peak_bytes=machine.peak_bytes,
        energy_j=machine.compute_j + machine.sd_j + wait_j,
        compute_j=machine.compute_j,
        sd_j=machine.sd_j,
        time_s=machine.clock_s,
        stall_s=machine.stall_s,
        sd_read_bytes=machine.sd_read_bytes,
        sd_write_bytes=machine.sd_write_bytes,
        recomputes=machine.recomputes,
        page_ins=machine.page_ins,
        page_outs=machine.page_outs,
        peak_action=machine.peak_action,
        peak_name=machine.peak_name,
        wait_j=wait_j,
    )


def fits(problem: Problem, metrics: Metrics) -> bool:
    """Whether the plan holds the budget, the deadline and the wear limit of the problem."""
    return not list(_excesses(problem, metrics))


def check_budget(problem: Problem, metrics: Metrics) -> None:
    """Raises InternalError when the plan exceeds ``memory_bytes``, ``deadline_s`` or the wear."""
    for excess in _excesses(problem, metrics):
        raise InternalError(f"schedule: {excess}; this is a bug in poet_mcu/schedule")


def _excesses(problem: Problem, metrics: Metrics) -> Iterator[str]:
    """'what: expected ..., got ...' for each limit that is exceeded."""
    deadline_s, most_written = problem.deadline_s, problem.max_write_bytes
    if metrics.peak_bytes > problem.memory_bytes:
        yield (
            f"action {metrics.peak_action} ({metrics.peak_name}): expected at most "
            f"{problem.memory_bytes} bytes, got {metrics.peak_bytes}"
        )
    if deadline_s is not None and metrics.time_s > deadline_s * (1 + TIME_SLACK):
        yield f"deadline: expected at most {deadline_s} s, got {metrics.time_s} s"
    if most_written is not None and metrics.sd_write_bytes > most_written:
        yield (
            f"writes: expected at most {most_written} bytes a step, got {metrics.sd_write_bytes}"
        )
