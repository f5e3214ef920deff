"""Where transfers go beside compute: the integer program of the bus for a fixed row of runs.

Given which steps run, in which order, it decides what is paged, when each transfer starts and
until when it may run on before the CPU waits for it. A window is a run of slots [first, last)
during which a transfer is under way; windows share no slot (one transfer at a time), and the CPU
waits at the end of a window for what the compute inside it did not cover. Symbols, beside those of
``ilp.py``, for tensor i, slot s and the gap in front of slot s:

    e[i,j,s]  the page-in for touch j has begun and holds its bytes
    w[k,s]    transfer k is under way during slot s
    b[i,s]    the page-out starts in the gap in front of s; sum = p
    g[i,s]    bytes held during s for nothing but the page-out
    c[s]      some window goes on across the gap in front of s: nothing starts there
    y[k]      seconds of waiting for transfer k

For its runs the program is exact under the rule of one transfer at a time, up to the lead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pulp

from poet_mcu.schedule.columns import column
from poet_mcu.schedule.decode import Visit, Windows
from poet_mcu.schedule.goals import Switches
from poet_mcu.schedule.ilp import Builder, Formulation, Term
from poet_mcu.schedule.problem import Problem
from poet_mcu.schedule.touch import Layout, Slot, Steps, touches_of

#: up to so many runs a transfer may begin any number of runs before it is needed
ANY_LEAD_RUNS = 40
#: else at most so many
LEAD_RUNS = 6

LE, EQ = pulp.LpConstraintLE, pulp.LpConstraintEQ


def layout_of(expanded: Steps, visits: list[Visit]) -> Layout:
    """A layout whose slots are just ``visits``; all of them run."""
    stages: list[Slot] = []
    stage = len(expanded.steps) - 1
    for visit in reversed(visits):
        stage = stage if visit.optional else visit.step
        stages.append(Slot(stage, visit.step))
    slots = stages[::-1]
    return Layout(expanded, tuple(slots), touches_of(expanded, slots))


@dataclass(slots=True)
class Transfer:
    """Columns of one transfer: under way by slot, its starts by gap."""

    seconds: float
    run: list[Term]  # 1 when the transfer happens
    under_way: dict[int, pulp.LpVariable] = field(default_factory=dict)
    starts: dict[int, list[Term]] = field(default_factory=dict)


@dataclass(slots=True)
class BusProgram:
    """The model and how to read windows from its values."""

    form: Formulation
    ins: dict[tuple[int, int], Transfer]  # (tensor, slot of the read)
    outs: dict[int, Transfer]

    def windows(self, values: Mapping[str, float]) -> Windows:
        """Windows of all transfers that happen."""
        ins = {key: _window(t, values) for key, t in self.ins.items() if _sum(t.run, values) > 0.5}
        outs = {i: _window(t, values) for i, t in self.outs.items() if _sum(t.run, values) > 0.5}
        return Windows(ins, outs)


def _sum(terms: list[Term], values: Mapping[str, float]) -> float:
    return sum(f * (1.0 if v is None else values[v.name]) for v, f in terms)


def _window(transfer: Transfer, values: Mapping[str, float]) -> tuple[int, int]:
    first = max(transfer.starts, key=lambda s: (_sum(transfer.starts[s], values) > 0.5, -s))
    last = max(
        (s + 1 for s, var in transfer.under_way.items() if values[var.name] > 0.5), default=first
    )
    return first, max(first, last)


class _BusBuilder(Builder):
    def __init__(self, problem: Problem, layout: Layout, switches: Switches) -> None:
        super().__init__(problem, layout, switches)
        runs = len(layout.slots)
        self.lead = runs if runs <= ANY_LEAD_RUNS else LEAD_RUNS
        self.ins: dict[tuple[int, int], Transfer] = {}
        self.outs: dict[int, Transfer] = {}
        self.extra: dict[tuple[int, int], pulp.LpVariable] = {}  # g

    def always(self, slot: int) -> bool:
        return True

    def residency(self, i: int) -> None:
        super().residency(i)
        touches, tensor = self.layout.touches[i], self.layout.steps.tensors[i]
        for before, touch in pairwise(touches):
            if (i, touch.slot) in self.out.z:
                self.lead_in(i, before.slot, touch.slot)
        if i in self.out.p:
            self.page_out(i)
        elif tensor.at_end_paged and tensor.at_start_paged:
            self.forced_out(i)

    def lead_in(self, i: int, before: int, slot: int) -> None:
        """Window columns of the page-in of tensor ``i`` for the read at ``slot``."""
        z, tensor = self.out.z[i, slot], self.layout.steps.tensors[i]
        transfer = self.ins[i, slot] = Transfer(tensor.page_in_s, [(z, 1.0)])
        last: list[Term] = []
        for s in range(max(before + 1, slot - self.lead), slot):
            begun = self.binary(f"e_{i}_{slot}_{s}")
            self.add([*last, (begun, -1.0)], LE, 0.0)
            transfer.starts[s] = [(begun, 1.0), *((v, -f) for v, f in last)]
            way = self.binary(f"w_{i}_{slot}_{s}")
            self.add([(way, 1.0), (begun, -1.0)], LE, 0.0)
            self.chain(transfer, s, way)
            self.memory[s].append((begun, float(tensor.nbytes)))
            last = [(begun, 1.0)]
        self.add([*last, (z, -1.0)], LE, 0.0)
        transfer.starts[slot] = [(z, 1.0), *((v, -f) for v, f in last)]

    def chain(self, transfer: Transfer, s: int, way: pulp.LpVariable) -> None:
        """``way`` goes on from the slot before or begins at a start."""
        before = transfer.under_way.get(s - 1)
        terms: list[Term] = [(way, 1.0), *((v, -f) for v, f in transfer.starts[s])]
        terms += [] if before is None else [(before, -1.0)]
        self.add(terms, LE, 0.0)
        transfer.under_way[s] = way

    def page_out(self, i: int) -> None:
        """Window columns of the page-out of ``i``: from any moment at which it is resident."""
        touches, tensor = self.layout.touches[i], self.layout.steps.tensors[i]
        at = {touch.slot: j for j, touch in enumerate(touches)}
        first, last = touches[0].slot, touches[-1].slot
        transfer = self.outs[i] = Transfer(tensor.page_out_s, [(self.out.p[i], 1.0)])
        resident: list[Term] = [(None, 1.0)]
        for s in range(first + 1, min(last, first + self.lead) + 1):
            start = self.binary(f"b_{i}_{s}")
            transfer.starts[s] = [(start, 1.0)]
            self.add([(start, 1.0), *((v, -f) for v, f in resident)], LE, 0.0)
            if s == last:
                break
            way = self.binary(f"v_{i}_{s}")
            self.chain(transfer, s, way)
            if s in at:
                self.add([(way, 1.0), (self.out.h[i, at[s]], -1.0)], LE, 0.0)
                resident = [(None, 1.0)]
                continue
            j = next(n for n, touch in enumerate(touches) if touch.slot > s)
            resident = self.hold(i, s, way, resident, [(self.out.h[i, j], 1.0)])
        begun = [term for each in transfer.starts.values() for term in each]
        self.add([*begun, (self.out.p[i], -1.0)], EQ, 0.0)

    def hold(
        self, i: int, s: int, way: pulp.LpVariable, before: list[Term], held: list[Term]
    ) -> list[Term]:
        """Column g of slot ``s``: bytes that only the page-out still needs. What is resident."""
        extra = self.extra[i, s] = self.binary(f"g_{i}_{s}")
        self.add([(extra, 1.0), *((v, -f) for v, f in before)], LE, 0.0)
        self.memory[s].append((extra, float(self.layout.steps.tensors[i].nbytes)))
        here: list[Term] = [(extra, 1.0), *held]
        self.add([(way, 1.0), *((v, -f) for v, f in here)], LE, 0.0)
        return here

    def forced_out(self, i: int) -> None:
        """The page-out of a home on the card behind the op that overwrites it."""
        slots, steps = self.layout.slots, self.layout.steps
        changed = [s for s, slot in enumerate(slots) if i in steps.steps[slot.step].mutates]
        if not changed:
            return
        transfer = self.outs[i] = Transfer(steps.tensors[i].page_out_s, [(None, 1.0)])
        resident: list[Term] = [(None, 1.0)]
        for s in range(changed[0] + 1, min(len(slots), changed[0] + 2 + self.lead)):
            start = self.binary(f"b_{i}_{s}")
            transfer.starts[s] = [(start, 1.0)]
            self.add([(start, 1.0), *((v, -f) for v, f in resident)], LE, 0.0)
            if s + 1 < len(slots):
                way = self.binary(f"v_{i}_{s}")
                self.chain(transfer, s, way)
                resident = self.hold(i, s, way, resident, [])
        self.add([term for each in transfer.starts.values() for term in each], EQ, 1.0)

    def in_place(self, s: int) -> None:
        """No pair over an input that is being written to the card, or still will be."""
        super().in_place(s)
        for (slot, _, taken), var in self.over.items():
            transfer = self.outs.get(taken)
            if slot != s or transfer is None:
                continue
            if s in transfer.under_way:
                self.add([(var, 1.0), (transfer.under_way[s], 1.0)], LE, 1.0)
            for after in [*transfer.starts.get(s + 1, []), *self._kept(taken, s + 1)]:
                self.add([(var, 1.0), after], LE, 1.0)

    def _kept(self, i: int, s: int) -> list[Term]:
        return [(self.extra[i, s], 1.0)] if (i, s) in self.extra else []

    def waits(self) -> None:
        """One transfer at a time, reads behind writes, and the seconds of waiting."""
        for (i, _), transfer in self.ins.items():
            written = self.outs.get(i)
            if i in self.out.p and written is not None:
                self.reads_behind(written, transfer)
        everything = [*self.ins.values(), *self.outs.values()]
        for s in range(1, len(self.layout.slots)):
            self.one_at_a_time(s, everything)
        for k, transfer in enumerate(everything):
            self.wait_for(k, transfer)

    def reads_behind(self, written: Transfer, read: Transfer) -> None:
        for s, start in read.starts.items():
            done = [(v, -f) for g, terms in written.starts.items() if g <= s for v, f in terms]
            way = written.under_way.get(s)
            self.add([*start, *done, *([] if way is None else [(way, 1.0)])], LE, 0.0)

    def one_at_a_time(self, s: int, everything: list[Transfer]) -> None:
        ways = [t for t in everything if s in t.under_way]
        if len(ways) > 1:
            self.add([(t.under_way[s], 1.0) for t in ways], LE, 1.0)
        going = [t for t in ways if s - 1 in t.under_way]
        if not going:
            return
        crossed = self.unit(f"c_{s}")
        for t in going:
            starts = [(v, -f) for v, f in t.starts[s]]
            self.add([(t.under_way[s], 1.0), *starts, (crossed, -1.0)], LE, 0.0)
        for t in everything:
            if s in t.starts:
                self.add([*t.starts[s], (crossed, 1.0)], LE, 1.0)

    def wait_for(self, k: int, transfer: Transfer) -> None:
        """y of one transfer: its seconds minus the compute inside its window."""
        unit = transfer.seconds
        if not unit:
            return
        wait = column(self.model, f"y_{k}", 0.0, unit)
        terms = [(v, f) for v, f in transfer.run]
        terms += [
            (way, -self.step(s).compute_s / unit)
            for s, way in transfer.under_way.items()
            if self.step(s).compute_s
        ]
        self.add([*terms, (wait, -1.0 / unit)], LE, 0.0)
        self.joules.append((wait, self.problem.wait_w))
        self.seconds.append((wait, 1.0))


def bus_program(problem: Problem, layout: Layout, switches: Switches) -> BusProgram:
    """The program of the bus over the runs of ``layout`` (see ``layout_of``)."""
    builder = _BusBuilder(problem, layout, switches)
    for slot in layout.slots:
        if not slot.base:
            builder.fixed_s += layout.steps.steps[slot.step].compute_s
            builder.fixed_j += layout.steps.steps[slot.step].compute_j
    builder.fill()
    return BusProgram(builder.out, builder.ins, builder.outs)
