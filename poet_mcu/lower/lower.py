"""Schedule + placement -> program: every action becomes one instruction with its addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import HOME_FLASH, Graph
from poet_mcu.ir.placement import Placement, Slot
from poet_mcu.ir.program import (
    Call,
    Home,
    Instruction,
    Opcode,
    Operand,
    OperandKind,
    PageRange,
    Program,
)
from poet_mcu.ir.schedule import Action, ActionKind, Schedule
from poet_mcu.ops.operator import Kernel
from poet_mcu.ops.table import OPERATORS

_OPCODES = {
    ActionKind.PAGE_OUT: Opcode.PAGE_OUT,
    ActionKind.PAGE_IN: Opcode.PAGE_IN,
    ActionKind.WAIT: Opcode.WAIT,
    ActionKind.FREE: Opcode.DROP,
}

_OF_THE_STEP = {
    kind.value: kind
    for kind in (
        OperandKind.NULL,
        OperandKind.LEARNING_RATE,
        OperandKind.BIAS_1,
        OperandKind.BIAS_2,
        OperandKind.STEP,
    )
}


def kernel_of(graph: Graph, node_id: int) -> Kernel:
    """The kernel call of a node, from its operator and types."""
    node = graph.nodes[node_id]
    inputs = [graph.values[v].type for v in node.inputs]
    outputs = [graph.values[v].type for v in node.outputs]
    return OPERATORS[node.op].kernel(inputs, outputs, node.attrs)


@dataclass
class _Lowering:
    graph: Graph
    placement: Placement
    first_page: int
    home_pages: Mapping[int, int]

    def __post_init__(self) -> None:
        own = [p.value for p in self.placement.pages if p.value not in self.home_pages]
        self.pages = {value: self.first_page + i for i, value in enumerate(own)} | dict(
            self.home_pages
        )
        self.scratch = {s.action: s for s in self.placement.scratch}

    def slot(self, value: int, index: int, *, born: bool = False) -> Slot:
        """The slot of a root value at an action.

        With ``born`` the one that begins there: at an in-place call the value that ends and the
        one that begins are both live.
        """
        for slot in self.placement.slots:
            live = slot.value == value and slot.first <= index < slot.last
            if live and (not born or slot.first == index):
                return slot
        name = self.graph.values[value].name
        raise InternalError(f"lower: value '{name}' has no slot at action {index}")

    def operand(self, role: str, node_id: int, index: int) -> Operand:
        """The argument that ``role`` names, at an action."""
        if role in _OF_THE_STEP:
            return Operand(_OF_THE_STEP[role])
        if role == "ws":
            scratch = self.scratch[index]
            return Operand(OperandKind.ARENA, -1, scratch.offset, scratch.nbytes)
        node = self.graph.nodes[node_id]
        is_output = role.startswith("out")
        number = int(role.removeprefix("out" if is_output else "in"))
        root = self.graph.root((node.outputs if is_output else node.inputs)[number])
        if self.graph.values[root].role in HOME_FLASH:
            return Operand(OperandKind.FLASH, root)
        slot = self.slot(root, index, born=is_output)
        return Operand(OperandKind.ARENA, root, slot.offset, slot.nbytes)

    def call(self, action: Action, index: int) -> Instruction:
        """The kernel call of a COMPUTE."""
        kernel = kernel_of(self.graph, action.subject)
        operands = tuple(self.operand(role, action.subject, index) for role in kernel.args)
        call = Call(
            action.subject,
            kernel.function,
            kernel.source,
            kernel.descriptor,
            kernel.fields,
            kernel.args,
            operands,
        )
        return Instruction(Opcode.CALL, call=call)

    def instruction(self, action: Action, index: int) -> Instruction:
        """The instruction of any action."""
        if action.kind is ActionKind.COMPUTE:
            return self.call(action, index)
        slot = self.slot(action.subject, index)
        page = -1 if action.kind is ActionKind.FREE else self.pages[action.subject]
        return Instruction(_OPCODES[action.kind], action.subject, slot.offset, slot.nbytes, page)

    def home(self, slot: Slot) -> Home:
        """A slot as a home."""
        return Home(slot.value, slot.offset, slot.nbytes)


def lower(
    graph: Graph,
    schedule: Schedule,
    placement: Placement,
    sizes: Mapping[int, int],
    name: str,
    first_page: int = 0,
    home_pages: Mapping[int, int] = MappingProxyType({}),
) -> Program:
    """The program of one step; its pages are numbered from ``first_page`` on.

    Except those of ``home_pages``: values whose page another step has numbered.
    """
    lowering = _Lowering(graph, placement, first_page, home_pages)
    end = len(schedule.actions)
    instructions = tuple(lowering.instruction(a, i) for i, a in enumerate(schedule.actions))
    homes = tuple(lowering.home(s) for s in placement.slots if s.first == 0 and _at_start(graph, s))
    outputs = {graph.root(v) for v in graph.outputs}
    results = tuple(
        lowering.home(s) for s in placement.slots if s.value in outputs and s.last == end
    )
    pages = tuple(
        PageRange(lowering.pages[p.value], p.value, p.first_block, p.blocks, sizes[p.value])
        for p in placement.pages
    )
    return Program(name, instructions, homes, results, pages, placement.arena_bytes)


def _at_start(graph: Graph, slot: Slot) -> bool:
    produced = {graph.root(v) for node in graph.nodes for v in node.outputs}
    return slot.value not in produced and slot.value not in graph.card_homes
