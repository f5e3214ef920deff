"""Runs the program in the interpreter before any C is made, and holds it against the plan.

Checked: the values equal those of the plain graph run operator by operator with everything kept
(to the bit: the same numpy operators on the same numbers), the peak equals the predicted one, and
the bytes and transfers of the card equal the predicted ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import HOME_RAM, DType, Graph, Phase, Role
from poet_mcu.ops.operator import Array, ints
from poet_mcu.pipeline.stepplan import StepPlan
from poet_mcu.sim.interpreter import Interpreter
from poet_mcu.sim.moment import Moment
from poet_mcu.sim.plain import run_plain

_LR = 0.05


def sample_feeds(graph: Graph, seed: int = 0) -> dict[int, Array]:
    """Random inputs in [0, 1); labels and indices 0, 1, 2, ... that fit classes and tables."""
    rng = np.random.default_rng(seed)
    feeds: dict[int, Array] = {}
    for value in graph.with_role(Role.INPUT, Role.LABEL):
        if value.type.dtype is DType.I32:
            classes = _classes(graph, value.id)
            numbers = np.arange(value.type.elements, dtype=np.int32) % np.int32(classes)
            feeds[value.id] = numbers.reshape(value.shape)
        else:
            feeds[value.id] = rng.random(value.shape, np.float32)
    return feeds


def _classes(graph: Graph, indices: int) -> int:
    """How many numbers labels (classes of the logits) or indices (rows of a table) may be."""
    readers = [
        n for n in graph.nodes if indices in n.inputs and n.phase in (Phase.FORWARD, Phase.LOSS)
    ]
    return min(
        (graph.values[n.inputs[0]].shape[ints({"axis": 1, **n.attrs}, "axis")[0]] for n in readers),
        default=1,
    )


def check_program(plan: StepPlan, accumulate: int = 1) -> int:
    """Raise InternalError on any difference; the interpreter's peak in arena bytes.

    With ``accumulate`` above 1 a step that only accumulates is run before the one that updates.
    """
    graph, feeds = plan.graph, sample_feeds(plan.graph)
    machine = Interpreter(graph, plan.program)
    state: Mapping[int, Array] = graph.initial
    faults: list[str] = []
    last = Moment.of(accumulate - 1, accumulate)
    moments = (last,) if accumulate == 1 else (Moment.of(0, accumulate), last)
    for moment in moments:
        with np.errstate(all="ignore"):
            results = machine.run(feeds, _LR, moment)
            expected = run_plain(graph, state, feeds, _LR, moment)
        faults += _differences(graph, machine, results, expected)
        kept = graph.with_role(Role.PARAMETER, Role.CONSTANT, Role.STATE)
        state = {value.id: expected[value.id] for value in kept}
    card, metrics, steps = machine.card, plan.metrics, len(moments)
    for what, got, predicted in (
        ("peak bytes", machine.peak_bytes, plan.arena_peak_bytes),
        ("SD bytes read", card.read_bytes, metrics.sd_read_bytes * steps),
        ("SD bytes written", card.write_bytes, metrics.sd_write_bytes * steps),
        ("page-ins", card.reads, metrics.page_ins * steps),
        ("page-outs", card.writes, metrics.page_outs * steps),
    ):
        if got != predicted:
            faults.append(f"{what}: predicted {predicted}, interpreter counted {got}")
    if faults:
        raise InternalError(f"sim: program {plan.program.name}: " + "; ".join(faults))
    return machine.peak_bytes


def _differences(
    graph: Graph,
    machine: Interpreter,
    results: Mapping[int, Array],
    expected: Mapping[int, Array],
) -> list[str]:
    faults = [
        f"value '{graph.values[v].name}' differs"
        for v in results
        if results[v].tobytes() != expected[v].tobytes()
    ]
    faults += [
        f"parameter '{value.name}' differs after the step"
        for value in graph.with_role(*HOME_RAM)
        if machine.home_value(value.id).tobytes() != expected[value.id].tobytes()
    ]
    return faults
