"""A schedule back to the program's columns: a start for the solver."""

from __future__ import annotations

from poet_mcu.ir.schedule import ActionKind, Schedule
from poet_mcu.schedule.decode import Decisions
from poet_mcu.schedule.ilp import Formulation
from poet_mcu.schedule.touch import Layout


def start_of(
    layout: Layout, form: Formulation, schedule: Schedule | None
) -> dict[str, float] | None:
    """The columns of ``schedule``; None where there is none, or the program cannot express it."""
    decisions = None if schedule is None else decisions_of(layout, schedule)
    return None if decisions is None else point_of(layout, form, decisions)


def decisions_of(layout: Layout, schedule: Schedule) -> Decisions | None:
    """The decisions that give ``schedule``, or None when it needs a slot that does not exist."""
    steps = layout.steps
    step_of = {step.op_id: k for k, step in enumerate(steps.steps) if step.op_id is not None}
    tensor_of = {tensor.id: i for i, tensor in enumerate(steps.tensors)}
    recompute: set[int] = set()
    page_in: set[tuple[int, int]] = set()
    pending: set[int] = set()
    slot = 1  # slot 0 is the start step
    for action in schedule.actions:
        if action.kind is ActionKind.PAGE_IN:
            pending.add(tensor_of[action.subject])
        if action.kind is not ActionKind.COMPUTE:
            continue
        k = step_of[action.subject]
        while layout.slots[slot].step != k:
            if layout.slots[slot].base:
                return None
            slot += 1
        if not layout.slots[slot].base:
            recompute.add(slot)
        here = pending.intersection(steps.steps[k].reads)
        page_in.update((i, slot) for i in here)
        pending -= here
        slot += 1
    page_in.update((i, len(layout.slots) - 1) for i in pending)
    return Decisions(frozenset(recompute), frozenset(page_in))


def point_of(layout: Layout, form: Formulation, decisions: Decisions) -> dict[str, float] | None:
    """Values of all integer columns, or None when a page-in has no column."""
    if any(key not in form.z for key in decisions.page_in):
        return None
    point = {var.name: 0.0 for var in form.h.values()}
    point.update((var.name, float(s in decisions.recompute)) for s, var in form.R.items())
    point.update((var.name, float(key in decisions.page_in)) for key, var in form.z.items())
    paged = {i for i, _ in decisions.page_in}
    point.update((var.name, float(i in paged)) for i, var in form.p.items())
    for i, touches in enumerate(layout.touches):
        last = 0
        for j, touch in enumerate(touches):
            if not (layout.slots[touch.slot].base or touch.slot in decisions.recompute):
                continue
            if touch.read and (i, touch.slot) not in decisions.page_in:
                point.update((form.h[i, m].name, 1.0) for m in range(last + 1, j + 1))
            last = j
    for (i, j), var in form.u.items():
        runs = layout.touches[i][j].slot in decisions.recompute
        after = form.h.get((i, j + 1))
        point[var.name] = float(runs or (after is not None and point[after.name] > 0))
    return point
