"""The integer program over touch points, as a PuLP model.

Symbols (the paper's letters, on slots and touches instead of stages and nodes):

    R[s]     optional slot s runs
    h[i,j]   tensor i resident over the open interval between its touches j-1 and j
    u[i,j]   tensor i resident during touch j; 1 at its first production and at base reads,
             h + R at recomputes, else a variable (declared an integer, which it is by itself,
             since solvers then find far stronger cover cuts)
    z[i,j]   tensor i comes from the card for touch j, a read
    g[i,j]   tensor i is produced again from touch j on, before the next read of a base slot
    p[i]     tensor i is written to the card, once, right after its first production
    a[s,o,i] the run of slot s writes output o over input i

Contents never change, so one early write is as good as any other while transfers block the CPU.
Rows: memory at every slot, dense (cover cuts work on dense rows), deadline, and bytes written.
Those of optional slots are nine tenths of the nonzeros and seldom bind; ``loose`` drops them.
A home on the card has its page from the start (no p) and is absent at its first touch (u = 0);
its page-out behind an update is the same in every plan and stands in the offset.

With overlap this program is a relaxation: transfers take bytes as if they blocked, and

    q        seconds of stall, at least the bus time beyond all compute

stands for every wait. ``bus.py`` says where transfers really go.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pulp

from poet_mcu.schedule.columns import column
from poet_mcu.schedule.decode import Decisions
from poet_mcu.schedule.goals import Goal, Switches
from poet_mcu.schedule.problem import Problem
from poet_mcu.schedule.touch import Layout, Step

#: base energy, or another objective's unit, in the solver's numbers: its tolerances are absolute
SCALE = 1000.0
#: right-hand side of memory and deadline rows
ROW_SCALE = 100.0

Term = tuple["pulp.LpVariable | None", float]  # None is the constant 1


@dataclass(slots=True)
class Formulation:
    """The model, and what its columns mean.

    Objective ``x`` in the model is ``amount(x)`` in joules, bytes or seconds.
    """

    model: pulp.LpProblem
    scale: float
    offset: float
    R: dict[int, pulp.LpVariable] = field(default_factory=dict)
    z: dict[tuple[int, int], pulp.LpVariable] = field(default_factory=dict)
    p: dict[int, pulp.LpVariable] = field(default_factory=dict)
    q: pulp.LpVariable | None = None
    h: dict[tuple[int, int], pulp.LpVariable] = field(default_factory=dict)
    u: dict[tuple[int, int], pulp.LpVariable] = field(default_factory=dict)

    def amount(self, objective: float) -> float:
        """An objective or bound of the model in the goal's unit."""
        return self.offset + objective / self.scale

    def decisions(self, values: Mapping[str, float]) -> Decisions:
        """Rounded decisions; solvers answer 0.9999991 or 1e-7 where they mean 1 or 0."""
        return Decisions(
            frozenset(s for s, var in self.R.items() if values[var.name] > 0.5),
            frozenset(key for key, var in self.z.items() if values[var.name] > 0.5),
        )


class Builder:
    """Adds columns and rows for one layout."""

    def __init__(self, problem: Problem, layout: Layout, switches: Switches) -> None:
        self.problem = problem
        self.layout = layout
        self.switches = switches
        self.model = pulp.LpProblem("poet", pulp.LpMinimize)
        self.out = Formulation(self.model, 1.0, 0.0)
        loose = switches.loose
        self.rowed = [s for s, slot in enumerate(layout.slots) if slot.base or not loose]
        self.memory: dict[int, list[Term]] = {s: [] for s in self.rowed}
        self.joules: list[tuple[pulp.LpVariable, float]] = []
        self.seconds: list[tuple[pulp.LpVariable, float]] = []
        self.bus: list[tuple[pulp.LpVariable, float]] = []
        self.written: list[tuple[pulp.LpVariable, float]] = []
        self.rows = 0
        self.over: dict[tuple[int, int, int], pulp.LpVariable] = {}  # a
        self.fixed_s, self.fixed_j = problem.fixed_s, problem.fixed_j

    def step(self, slot: int) -> Step:
        return self.layout.steps.steps[self.layout.slots[slot].step]

    def always(self, slot: int) -> bool:
        """Whether the slot runs in every plan."""
        return self.layout.slots[slot].base

    def run(self, slot: int) -> Term:
        """R of the slot as a term; constant for slots that always run."""
        return (None, 1.0) if self.always(slot) else (self.out.R[slot], 1.0)

    def binary(self, name: str) -> pulp.LpVariable:
        return column(self.model, name, 0.0, 1.0, pulp.LpBinary)

    def unit(self, name: str) -> pulp.LpVariable:
        return column(self.model, name, 0.0, 1.0)

    def add(self, terms: Iterable[Term], sense: int, rhs: float) -> None:
        """Row ``terms sense rhs``; constants move to the right."""
        terms = list(terms)
        merged: dict[pulp.LpVariable, float] = {}
        for var, factor in terms:
            if var is None:
                rhs -= factor
            else:
                merged[var] = merged.get(var, 0.0) + factor
        row = pulp.LpConstraint(pulp.LpAffineExpression(merged), sense, f"c{self.rows}", rhs)
        self.model.addConstraint(row)
        self.rows += 1

    def fill(self) -> None:
        """All columns and rows, and the objective."""
        self.runs()
        self.workspace()
        for i in range(len(self.layout.steps.tensors)):
            self.residency(i)
        for s in range(len(self.layout.slots)):
            self.in_place(s)
        self.waits()
        if self.switches.goal is not Goal.MEMORY:
            self.objective()
        self.memory_rows()
        self.deadline()
        self.wear()

    def occupy(self, s: int, *terms: Term) -> None:
        """Bytes at slot ``s``, if it has a memory row."""
        if s in self.memory:
            self.memory[s].extend(terms)

    def runs(self) -> None:
        for s in range(len(self.layout.slots)):
            if self.always(s):
                continue
            self.out.R[s] = self.binary(f"R_{s}")
            self.joules.append((self.out.R[s], self.step(s).compute_j))
            self.seconds.append((self.out.R[s], self.step(s).compute_s))

    def workspace(self) -> None:
        """Workspace, and outputs that nobody reads after this run of their step."""
        for s in range(len(self.layout.slots)):
            var, _ = self.run(s)
            step = self.step(s)
            idle = sum(
                self.layout.steps.tensors[i].nbytes
                for i in step.writes
                if self.layout.touches[i][-1].slot < s
            )
            if step.workspace_bytes + idle:
                self.occupy(s, (var, float(step.workspace_bytes + idle)))

    def residency(self, i: int) -> None:
        """Columns and rows of tensor ``i``, in the order of its touches."""
        tensor, touches = self.layout.steps.tensors[i], self.layout.touches[i]
        pageable = (self.switches.paging and tensor.pageable) or tensor.at_start_paged
        used: list[Term] = [] if tensor.at_start_paged else [(None, 1.0)]
        nbytes = float(tensor.nbytes)
        if touches and used:
            self.occupy(touches[0].slot, (None, nbytes))
        for j in range(1, len(touches)):
            touch = touches[j]
            held = self.out.h[i, j] = self.binary(f"h_{i}_{j}")
            self.add([(held, 1.0), *((v, -f) for v, f in used)], pulp.LpConstraintLE, 0.0)
            first = bisect_right(self.rowed, touches[j - 1].slot)
            for s in self.rowed[first : bisect_left(self.rowed, touch.slot)]:
                self.memory[s].append((held, nbytes))
            if touch.read:
                used = self.read(i, j, held, pageable)
            else:
                used = [(held, 1.0), self.run(touch.slot)]
                self.add(used, pulp.LpConstraintLE, 1.0)
            self.occupy(touch.slot, *((v, f * nbytes) for v, f in used))
        self.written_whole(i)

    def written_whole(self, i: int) -> None:
        """Rows: absent at some time and read later, a tensor runs again in between or has p = 1.

        z <= p alone lets the relaxation write a thirtieth of a tensor and read that thirty times;
        these rows took its distance from the optimum's overhead from 49 % to 1 % on ResNet-18.
        """
        written = self.out.p.get(i)
        touches = self.layout.touches[i] if written is not None else ()
        again: Term | None = None  # what runs up to the next read that every plan has
        for j in range(len(touches) - 1, 0, -1):
            touch = touches[j]
            if touch.read and self.always(touch.slot):
                again = (None, 0.0)  # h + z = 1 and z <= p say it here
            elif again is not None:
                if not touch.read:
                    both = [self.run(touch.slot), again]
                    again = (self.unit(f"g_{i}_{j}"), 1.0)
                    self.add([again, *((v, -f) for v, f in both)], pulp.LpConstraintLE, 0.0)
                if touches[j - 1].read or j == 1:
                    terms = [(self.out.h[i, j], 1.0), (written, 1.0), again]
                    self.add(terms, pulp.LpConstraintGE, 1.0)

    def read(self, i: int, j: int, held: pulp.LpVariable, pageable: bool) -> list[Term]:
        """Rows of a read; returns u as terms."""
        slot = self.layout.touches[i][j].slot
        sources: list[Term] = [(held, 1.0)]
        if pageable:
            sources.append((self.page_in(i, slot), 1.0))
        if self.always(slot):
            self.add(sources, pulp.LpConstraintEQ, 1.0)
            return [(None, 1.0)]
        used = self.out.u[i, j] = self.binary(f"u_{i}_{j}")
        self.add([self.run(slot), (used, -1.0)], pulp.LpConstraintLE, 0.0)
        self.add([(used, 1.0), *((v, -f) for v, f in sources)], pulp.LpConstraintLE, 0.0)
        if pageable:
            var, _ = self.run(slot)
            self.add([(self.out.z[i, slot], 1.0), (var, -1.0)], pulp.LpConstraintLE, 0.0)
        return [(used, 1.0)]

    def page_in(self, i: int, slot: int) -> pulp.LpVariable:
        """z of a read; makes p of the tensor at its first, unless its home is the card."""
        tensor = self.layout.steps.tensors[i]
        if i not in self.out.p and not tensor.at_start_paged:
            self.out.p[i] = self.binary(f"p_{i}")
            self.joules.append((self.out.p[i], tensor.page_out_j))
            self.bus.append((self.out.p[i], tensor.page_out_s))
            self.written.append((self.out.p[i], float(tensor.nbytes)))
        var = self.out.z[i, slot] = self.binary(f"z_{i}_{slot}")
        self.joules.append((var, tensor.page_in_j))
        self.bus.append((var, tensor.page_in_s))
        if i in self.out.p:
            self.add([(var, 1.0), (self.out.p[i], -1.0)], pulp.LpConstraintLE, 0.0)
        return var

    def waits(self) -> None:
        """What transfers add to the time: all of it, or with overlap what exceeds the compute."""
        if not self.problem.overlap:
            self.seconds += self.bus
            return
        compute_s, forced_s = self.problem.base_s, self.problem.forced_write_s
        most_s = forced_s + sum(f for _, f in self.bus)
        stall = self.out.q = column(self.model, "q", 0.0, max(most_s, 0.0))
        unit = max(most_s, compute_s) or 1.0
        terms: list[Term] = [(v, f / unit) for v, f in self.bus]
        terms += [(v, -f / unit) for v, f in self.seconds]
        terms.append((stall, -1.0 / unit))
        self.add(terms, pulp.LpConstraintLE, (compute_s - forced_s) / unit)
        self.joules.append((stall, self.problem.wait_w))
        self.seconds.append((stall, 1.0))
        self.no_idle_holds()
        self.one_order()

    def no_idle_holds(self) -> None:
        """Nothing is held, and so nothing runs again, without a read behind it.

        No plan is lost; one plan less stands for many equal ones, which the search with overlap
        would have to try one by one.
        """
        for i, touches in enumerate(self.layout.touches):
            for j, touch in enumerate(touches):
                after = self.out.h.get((i, j + 1))
                used: list[Term] = [] if after is None else [(after, -1.0)]
                if touch.read:
                    var, factor = self.run(touch.slot)
                    used = [*used, (var, -factor)]
                if j > 0:
                    self.add([(self.out.h[i, j], 1.0), *used], pulp.LpConstraintLE, 0.0)
        for s, run in self.out.R.items():
            kept = [(i, self._next_touch(i, s)) for i in self.step(s).writes]
            held = [(self.out.h[i, j], -1.0) for i, j in kept if j is not None]
            self.add([(run, 1.0), *held], pulp.LpConstraintLE, 0.0)

    def one_order(self) -> None:
        """A second run of candidates at a stage begins below one of the first, else it is one."""
        stage: list[int] = []
        for s, slot in enumerate(self.layout.slots):
            if slot.base:
                stage = []
                continue
            steps = [self.layout.slots[n].step for n in stage]
            if slot.step in steps:
                began = stage[steps.index(slot.step) + 1 :]
                terms: list[Term] = [(self.out.R[n], -1.0) for n in began]
                self.add([(self.out.R[s], 1.0), *terms], pulp.LpConstraintLE, 0.0)
            stage.append(s)

    def wear(self) -> None:
        """Bytes written <= the limit."""
        limit = self.problem.max_write_bytes
        if limit is None:
            return
        left = limit - sum(t.nbytes for t in self.problem.forced_writes)
        unit = float(max(left, 1))
        terms: list[Term] = [(v, f * ROW_SCALE / unit) for v, f in self.written]
        if sum(f for _, f in self.written) > left:
            self.add(terms, pulp.LpConstraintLE, left * ROW_SCALE / unit + 1e-5 * ROW_SCALE / unit)

    def in_place(self, s: int) -> None:
        """Columns a of slot ``s``: an input is written over when it is not held behind it."""
        step = self.step(s)
        by_buffer: dict[tuple[str, int], list[Term]] = {}
        for o, i in step.in_place:
            var = self.over[s, o, i] = self.unit(f"a_{s}_{o}_{i}")
            run, _ = self.run(s)
            if run is not None:
                self.add([(var, 1.0), (run, -1.0)], pulp.LpConstraintLE, 0.0)
            follows = self._next_touch(i, s)
            if follows is not None:
                self.add([(var, 1.0), (self.out.h[i, follows], 1.0)], pulp.LpConstraintLE, 1.0)
            tensors = self.layout.steps.tensors
            self.occupy(s, (var, -float(min(tensors[o].nbytes, tensors[i].nbytes))))
            by_buffer.setdefault(("out", o), []).append((var, 1.0))
            by_buffer.setdefault(("in", i), []).append((var, 1.0))
        for terms in by_buffer.values():
            if len(terms) > 1:
                self.add(terms, pulp.LpConstraintLE, 1.0)

    def _next_touch(self, i: int, s: int) -> int | None:
        for j, touch in enumerate(self.layout.touches[i]):
            if touch.slot > s:
                return j
        return None

    def memory_rows(self) -> None:
        """Bytes at every slot <= budget; the budget is a column when it is what is minimised."""
        grain = self.problem.grain_bytes
        if self.switches.goal is Goal.MEMORY:
            self._minimise_memory()
            return
        # sums are multiples of the grain: a quarter of it takes the solver's tolerance away
        budget = self.problem.memory_bytes // grain * grain + grain / 4
        for terms in self.memory.values():
            if sum(max(f, 0.0) for _, f in terms) > budget:
                scaled = [(v, f * ROW_SCALE / budget) for v, f in terms]
                self.add(scaled, pulp.LpConstraintLE, ROW_SCALE)

    def _minimise_memory(self) -> None:
        unit = max(sum(max(f, 0.0) for _, f in terms) for terms in self.memory.values()) or 1.0
        low = min(self.switches.floor_bytes / unit, 1.0) * ROW_SCALE
        budget = column(self.model, "budget", low, ROW_SCALE)
        for terms in self.memory.values():
            scaled = [(v, f * ROW_SCALE / unit) for v, f in terms]
            self.add([*scaled, (budget, -1.0)], pulp.LpConstraintLE, 0.0)
        self.out.scale = ROW_SCALE / unit
        self.model.setObjective(pulp.LpAffineExpression({budget: 1.0}))

    def deadline(self) -> None:
        """Seconds beyond the base run <= what the deadline leaves."""
        if self.problem.deadline_s is None or self.switches.goal is Goal.TIME:
            return
        spare_s = max(self.problem.deadline_s - self.fixed_s, 0.0)
        if (self.switches.best_j - self.fixed_j) * self.slowest_s_per_j() <= spare_s:
            return  # a plan that late needs more energy; the row is dense and slows simplex much
        unit = spare_s or self.problem.base_s or 1.0
        terms: list[Term] = [(v, f * ROW_SCALE / unit) for v, f in self.seconds if f]
        if sum(f * v.upBound for v, f in self.seconds) > spare_s:
            self.add(terms, pulp.LpConstraintLE, spare_s * ROW_SCALE / unit)

    def slowest_s_per_j(self) -> float:
        """The most seconds that a joule above the base run can take."""
        joules = dict(self.joules)
        rates = (
            f / j if (j := joules.get(v, 0.0)) > 0.0 else math.inf for v, f in self.seconds if f
        )
        return max(rates, default=0.0)

    def objective(self) -> None:
        costs, base = self.joules, self.fixed_j
        if self.switches.goal is Goal.TIME:
            costs, base = self.seconds, self.fixed_s
        self.out.offset = base
        self.out.scale = SCALE / (base or max((f for _, f in costs), default=1.0) or 1.0)
        scaled = {v: f * self.out.scale for v, f in costs if f}
        self.model.setObjective(pulp.LpAffineExpression(scaled))


def formulate(problem: Problem, layout: Layout, switches: Switches) -> Formulation:
    """The integer program of ``problem`` over the slots of ``layout``."""
    builder = Builder(problem, layout, switches)
    builder.fill()
    return builder.out
