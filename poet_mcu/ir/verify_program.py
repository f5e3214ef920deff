"""Checks a program against its schedule and placement: slow, obvious, sharing no code with lower.

Rules: one instruction an action, of the same kind and subject; every address inside the arena;
every operand at the bytes the placement gives its value at that moment; pages numbered one to
one, transfers of a value's own page with exactly its bytes; constants only read.
"""

from __future__ import annotations

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import HOME_FLASH, Graph
from poet_mcu.ir.placement import Placement
from poet_mcu.ir.program import Call, Instruction, Opcode, Operand, OperandKind, Program
from poet_mcu.ir.schedule import Action, ActionKind, Schedule

_KIND = {
    Opcode.CALL: ActionKind.COMPUTE,
    Opcode.PAGE_OUT: ActionKind.PAGE_OUT,
    Opcode.PAGE_IN: ActionKind.PAGE_IN,
    Opcode.WAIT: ActionKind.WAIT,
    Opcode.DROP: ActionKind.FREE,
}


def verify_program(
    graph: Graph, schedule: Schedule, placement: Placement, program: Program, region_blocks: int
) -> None:
    """Raise InternalError that names every broken rule."""
    faults: list[str] = []
    if len(program.instructions) != len(schedule.actions):
        faults.append(
            f"expected {len(schedule.actions)} instructions, got {len(program.instructions)}"
        )
    for index, (instruction, action) in enumerate(
        zip(program.instructions, schedule.actions, strict=False)
    ):
        found = _instruction_faults(graph, placement, program, instruction, action, index)
        faults += [f"instruction {index}: {fault}" for fault in found]
    faults += _page_faults(program, region_blocks)
    if faults:
        raise InternalError(f"program {program.name}: " + "; ".join(faults))


def _instruction_faults(
    graph: Graph,
    placement: Placement,
    program: Program,
    instruction: Instruction,
    action: Action,
    index: int,
) -> list[str]:
    if _KIND[instruction.opcode] is not action.kind:
        return [f"expected {action.kind.value}, got {instruction.opcode.value}"]
    if instruction.call is not None:
        return _call_faults(graph, placement, program, instruction.call, action, index)
    faults = []
    if instruction.value != action.subject:
        faults.append(f"expected value {action.subject}, got {instruction.value}")
    place = (instruction.offset, instruction.nbytes)
    faults += _place_faults(placement, program, instruction.value, place, index, born=False)
    if instruction.opcode is not Opcode.DROP:
        owners = [p for p in program.pages if p.number == instruction.page]
        if len(owners) != 1 or owners[0].value != instruction.value:
            faults.append(f"page {instruction.page} is not the page of value {instruction.value}")
        elif owners[0].nbytes != instruction.nbytes:
            faults.append(f"expected {owners[0].nbytes} page bytes, got {instruction.nbytes}")
    return faults


def _call_faults(
    graph: Graph, placement: Placement, program: Program, call: Call, action: Action, index: int
) -> list[str]:
    if call.node != action.subject:
        return [f"expected node {action.subject}, got {call.node}"]
    node = graph.nodes[call.node]
    faults = []
    named = {f"in{i}": graph.root(v) for i, v in enumerate(node.inputs)}
    named |= {f"out{i}": graph.root(v) for i, v in enumerate(node.outputs)}
    missing = sorted(set(named) - set(call.roles))
    if missing:
        faults.append(f"expected arguments {missing}, got {call.roles}")
    for role, operand in zip(call.roles, call.operands, strict=True):
        if role in named:
            faults += _operand_faults(
                graph, placement, program, (role, named[role]), operand, index
            )
        elif role == "ws" and not any(
            s.action == index and s.offset == operand.offset and s.nbytes == operand.nbytes
            for s in placement.scratch
        ):
            faults.append("workspace is not the placement's scratch")
    return faults


def _operand_faults(
    graph: Graph,
    placement: Placement,
    program: Program,
    expected: tuple[str, int],
    operand: Operand,
    index: int,
) -> list[str]:
    role, root = expected
    if operand.value != root:
        return [f"{role}: expected value {root}, got {operand.value}"]
    in_flash = graph.values[root].role in HOME_FLASH
    if in_flash != (operand.kind is OperandKind.FLASH):
        return [f"{role}: value {root} is in the wrong memory"]
    if in_flash:
        return [f"{role}: a constant is written"] if role.startswith("out") else []
    born = role.startswith("out")
    place = (operand.offset, operand.nbytes)
    return _place_faults(placement, program, root, place, index, born=born)


def _place_faults(
    placement: Placement,
    program: Program,
    value: int,
    place: tuple[int, int],
    index: int,
    *,
    born: bool,
) -> list[str]:
    offset, nbytes = place
    faults = []
    if offset < 0 or offset + nbytes > program.arena_bytes:
        faults.append(f"[{offset}, {offset + nbytes}) is outside {program.arena_bytes} arena bytes")
    live = [
        (s.offset, s.nbytes)
        for s in placement.slots
        if s.value == value and s.first <= index < s.last and (not born or s.first == index)
    ]
    if (offset, nbytes) not in live:
        faults.append(f"value {value} lives at {live}, got ({offset}, {nbytes})")
    return faults


def _page_faults(program: Program, region_blocks: int) -> list[str]:
    faults = []
    numbers = [page.number for page in program.pages]
    if len(set(numbers)) != len(numbers):
        faults.append(f"page numbers are not unique: {numbers}")
    for page in program.pages:
        if page.first_block < 1 or page.first_block + page.blocks > region_blocks:
            faults.append(f"page {page.number} is outside the region of {region_blocks} blocks")
        if page.blocks * 512 < page.nbytes:
            faults.append(f"page {page.number} holds {page.blocks} blocks for {page.nbytes} bytes")
    return faults
