"""One stable text form of Graph, Schedule and Placement: one line per value, node, action, slot.

Two equal objects give equal text on every machine; a difference of two dumps is a difference of
the objects. Meant for people, golden files and ``--dump-dir``; it is not read back.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from poet_mcu.ir.graph import Attr, Graph, Node, TensorType, Value
from poet_mcu.ir.placement import Placement
from poet_mcu.ir.schedule import Action, ActionKind, Schedule


def graph_text(graph: Graph) -> str:
    """All values, then all nodes, then the outputs; initial data as CRC-32 of its bytes."""
    lines = [f"graph {_quote(graph.name)}"]
    lines += [
        _value_line(value, graph.initial.get(value.id), on_card=value.id in graph.card_homes)
        for value in graph.values
    ]
    lines += [_node_line(node) for node in graph.nodes]
    lines.append(f"outputs {_ids(graph.outputs)}")
    return "\n".join(lines) + "\n"


def schedule_text(schedule: Schedule, graph: Graph | None = None) -> str:
    """All actions by index; with a graph also the names of their nodes and values."""
    lines = [f"schedule {len(schedule.actions)} actions"]
    lines += [_action_line(i, action, graph) for i, action in enumerate(schedule.actions)]
    return "\n".join(lines) + "\n"


def placement_text(placement: Placement, graph: Graph | None = None) -> str:
    """All slots, scratch areas and pages in their stored order; with a graph also names."""
    lines = [f"placement arena={placement.arena_bytes} alignment={placement.alignment_bytes}"]
    lines += _placement_lines(placement, graph)
    return "\n".join(lines) + "\n"


def _placement_lines(placement: Placement, graph: Graph | None) -> Iterator[str]:
    for part in placement.parts:
        reached = "paged too" if part.reached else "never paged"
        yield f"part {_quote(part.name)} bytes [{part.offset}, {part.end}) {reached}"
    for slot in placement.slots:
        yield (
            f"slot {slot.value}{_value_name(slot.value, graph)} "
            f"bytes [{slot.offset}, {slot.offset + slot.nbytes}) "
            f"actions [{slot.first}, {slot.last})"
        )
    for area in placement.scratch:
        yield f"scratch action {area.action} bytes [{area.offset}, {area.offset + area.nbytes})"
    for page in placement.pages:
        yield (
            f"page {page.value}{_value_name(page.value, graph)} "
            f"blocks [{page.first_block}, {page.first_block + page.blocks})"
        )


def _quote(text: str) -> str:
    """``text`` in single quotes, on one line of ASCII whatever the exporter put into it."""
    return "'" + text.encode("unicode_escape").decode("ascii").replace("'", "\\'") + "'"


def _ids(ids: tuple[int, ...]) -> str:
    return "(" + ", ".join(str(i) for i in ids) + ")"


def _type_text(tensor: TensorType) -> str:
    return f"{tensor.dtype.name.lower()}[{','.join(str(d) for d in tensor.shape)}]"


def _value_line(
    value: Value, data: npt.NDArray[np.generic] | None, *, on_card: bool = False
) -> str:
    line = f"value {value.id} {_quote(value.name)} {_type_text(value.type)} {value.role.value}"
    if value.base is not None:
        line += f" view of {value.base}"
    if on_card:
        line += " home=card"
    if value.origin:
        line += f" origin={_quote(value.origin)}"
    if data is not None:
        # Little-endian bytes, so that the dump does not depend on the machine.
        raw = np.ascontiguousarray(data).astype(data.dtype.newbyteorder("<")).tobytes()
        line += f" initial=crc32:{zlib.crc32(raw):08x}"
    return line


def _node_line(node: Node) -> str:
    line = f"node {node.id} {node.op}{_ids(node.inputs)} -> {_ids(node.outputs)}"
    line += f" {node.phase.value}"
    for key in sorted(node.attrs):
        line += f" {key}={_attr_text(node.attrs[key])}"
    if node.mutates:
        line += f" mutates={_ids(node.mutates)}"
    if node.origin:
        line += f" origin={_quote(node.origin)}"
    return line


def _attr_text(attr: Attr) -> str:
    if isinstance(attr, tuple):
        return _ids(attr)
    return _quote(attr) if isinstance(attr, str) else repr(attr)


def _value_name(value: int, graph: Graph | None) -> str:
    return "" if graph is None else f" {_quote(graph.values[value].name)}"


def _action_line(index: int, action: Action, graph: Graph | None) -> str:
    line = f"{index} {action.kind.value} {action.subject}"
    if action.kind is not ActionKind.COMPUTE:
        return line + _value_name(action.subject, graph)
    if graph is not None:
        line += f" {graph.nodes[action.subject].op}"
    for out, taken in action.in_place:
        line += f" in_place={out}<-{taken}"
    return line + (" recompute" if action.recompute else "")
