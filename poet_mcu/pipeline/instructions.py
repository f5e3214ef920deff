"""Exact instructions and multiply-adds of one training step, counted on an emulated board.

QEMU's ``-icount shift=0`` takes one nanosecond per instruction, so the board's own clock counts
instructions. The serial link is not part of the step; reading and writing the card is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from poet_mcu.ir.graph import Graph
from poet_mcu.ops.operator import Array
from poet_mcu.ops.table import OPERATORS
from poet_mcu.pipeline.actions import compared, load_actions
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import BuildFolder, connect

_INSTRUCTIONS_PER_S = 1_000_000_000  # icount shift 0


@dataclass(frozen=True, slots=True)
class Timed:
    """A step's seconds, and its operators: predicted and measured (pipeline/actions.py)."""

    seconds: float
    operators: list[dict[str, Any]]


def macs_of_step(graph: Graph) -> int:
    """Multiply-adds of the forward pass, the data gradients and the weight gradients, each once.

    Padding positions are counted; what a plan computes again is not.
    """
    total = 0
    for node in graph.nodes:
        inputs = [graph.values[i].type for i in node.inputs]
        outputs = [graph.values[i].type for i in node.outputs]
        total += OPERATORS[node.op].cost(inputs, outputs, node.attrs).macs
    return total


def instructions_of_step(build: BuildFolder, batch: tuple[Array, Array]) -> int:
    """Instructions of the first training step on ``batch``, to one tick of the board's clock."""
    with connect(build, None, icount=True) as board:
        board.reset_model()
        result = Session(board).train_step(*batch)
        return _instructions(result.cycles, board.counters().cycle_hz)


def traced_step(build: BuildFolder, batch: tuple[Array, Array], port: str | None) -> Timed:
    """A training step on ``batch`` with the time of every action.

    On an emulator the cycles are instructions, which stand for cycles.
    """
    emulated = port is None and build.board.kind == "emulated"
    with connect(build, port, icount=emulated) as board:
        board.reset_model()
        step = Session(board).train_step(*batch, trace=True)
        hertz = float(board.counters().cycle_hz)
    if emulated:
        # A tick of the clock is this many instructions: seconds as if each took one cycle.
        hertz *= build.board.core.clock_hz / _INSTRUCTIONS_PER_S
    return Timed(step.cycles / hertz, compared(load_actions(build.path), step.trace, hertz))


def instructions_of_evaluation(build: BuildFolder, x: Array) -> int:
    """Instructions of one evaluation of the batch ``x`` with the start weights."""
    with connect(build, None, icount=True) as board:
        board.reset_model()
        return _instructions(Session(board).evaluate(x), board.counters().cycle_hz)


def _instructions(cycles: int, hertz: int) -> int:
    return round(cycles * _INSTRUCTIONS_PER_S / hertz)
