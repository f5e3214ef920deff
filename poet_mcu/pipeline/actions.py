"""What each action of a training step should take, and what it took: kept with the build."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from poet_mcu.board.schema import Board
from poet_mcu.cost.compute import placed_s
from poet_mcu.cost.paging import page_in_price, page_out_price
from poet_mcu.ir.placement import Placement
from poet_mcu.ir.program import Call, OperandKind
from poet_mcu.ir.schedule import Action, ActionKind
from poet_mcu.link.protocol import Trace
from poet_mcu.ops.table import OPERATORS
from poet_mcu.pipeline.stepplan import StepPlan

ACTIONS_FILE = "actions.json"


def predicted_actions(step: StepPlan, board: Board) -> list[dict[str, Any]]:
    """For each action, in order: ``op`` (or transfer), ``name``, ``runs``, predicted ``seconds``.

    Kernels are priced where their operands lie. A transfer's seconds stand where it starts, also
    where it then runs beside compute; its WAIT has none.
    """
    started: dict[int, str] = {}
    rows = []
    for action, instruction in zip(step.schedule.actions, step.program.instructions, strict=True):
        if action.kind in (ActionKind.PAGE_IN, ActionKind.PAGE_OUT):
            started[action.subject] = action.kind.value
        nbytes = _bytes_by_part(instruction.call, step.placement, board)
        rows.append(_row(step, board, action, started, nbytes))
    return rows


def _bytes_by_part(call: Call | None, placement: Placement, board: Board) -> Mapping[str, int]:
    """Bytes of a call's operands in the arena by the name of their part of RAM, '' for none.

    The arena is taken to begin behind stack and ``runtime.static_bytes``, its place at the latest.
    """
    found: Counter[str] = Counter()
    begin = board.sram.origin + board.runtime.reserved_bytes - placement.main_offset
    for operand in call.operands if call else ():
        if operand.kind is not OperandKind.ARENA:
            continue
        inside = [p.name for p in placement.parts if p.offset <= operand.offset < p.end]
        address = begin + operand.offset
        end = address + operand.nbytes
        if inside:
            found[inside[0]] += operand.nbytes
            continue
        found[""] += operand.nbytes
        for part in board.sram.parts:
            shared = max(0, min(end, part.end) - max(address, part.origin))
            found.update({part.name: shared, "": -shared})
    return +found


def _row(
    step: StepPlan,
    board: Board,
    action: Action,
    started: dict[int, str],
    nbytes: Mapping[str, int],
) -> dict[str, Any]:
    graph = step.graph
    if action.kind is ActionKind.COMPUTE:
        node = graph.nodes[action.subject]
        inputs = [graph.values[i].type for i in node.inputs]
        outputs = [graph.values[i].type for i in node.outputs]
        cost = OPERATORS[node.op].cost(inputs, outputs, node.attrs)
        name = graph.values[(node.outputs or node.mutates)[0]].name
        return {"op": node.op, "name": name, "runs": 1, "seconds": placed_s(cost, board, nbytes)}
    value = graph.values[action.subject]
    row = {"op": action.kind.value, "name": value.name, "runs": 1, "seconds": 0.0}
    if action.kind is ActionKind.PAGE_IN:
        row["seconds"] = page_in_price(value.type.nbytes, board).seconds
    elif action.kind is ActionKind.PAGE_OUT:
        row["seconds"] = page_out_price(value.type.nbytes, board).seconds
    elif action.kind is ActionKind.WAIT:
        row |= {"op": started.get(action.subject, "wait"), "runs": 0}
    return row


def save_actions(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """Beside the plan of a build."""
    text = json.dumps(rows, indent=1, sort_keys=True)
    (folder / ACTIONS_FILE).write_text(text + "\n", encoding="utf-8", newline="\n")


def load_actions(folder: Path) -> list[dict[str, Any]]:
    """Of a build; none where an older version made it."""
    path = folder / ACTIONS_FILE
    rows: list[dict[str, Any]] = []
    if path.is_file():
        rows = json.loads(path.read_text(encoding="utf-8"))
    return rows


def by_operator(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Operators and transfers: ``runs`` and the sum of what they should take, longest first."""
    return _grouped((row, None) for row in rows)


def compared(
    rows: Sequence[dict[str, Any]], trace: Sequence[Trace], cycle_hz: float
) -> list[dict[str, Any]]:
    """``by_operator`` with ``measured_s`` and ``ratio``, measured over predicted.

    An action whose TRACE the line has lost counts for the next one that came.
    """
    before = 0
    took: dict[int, float] = {}
    for seen in sorted(trace, key=lambda one: one.action):
        took[seen.action] = (seen.cycles - before) / cycle_hz
        before = seen.cycles
    return _grouped((row, took.get(i, 0.0)) for i, row in enumerate(rows))


def _grouped(rows: Iterable[tuple[dict[str, Any], float | None]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row, measured_s in rows:
        if row["op"] == ActionKind.FREE.value:
            continue  # nothing happens on the board
        entry = found.setdefault(row["op"], {"op": row["op"], "runs": 0, "predicted_s": 0.0})
        entry["runs"] += row["runs"]
        entry["predicted_s"] += row["seconds"]
        if measured_s is not None:
            entry["measured_s"] = entry.get("measured_s", 0.0) + measured_s
    for entry in found.values():
        if "measured_s" in entry:
            predicted = entry["predicted_s"]
            entry["ratio"] = entry["measured_s"] / predicted if predicted > 0 else None
    return sorted(found.values(), key=lambda entry: -float(entry["predicted_s"]))
