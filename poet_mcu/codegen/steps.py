"""A program as the lines of a C function: names for places and descriptors, one call a line."""

from __future__ import annotations

from dataclasses import dataclass, field

from poet_mcu.cnames import Names, comment_text
from poet_mcu.codegen.spelling import c_float, wrapped
from poet_mcu.codegen.views import Descriptor, Line, Place, StepView
from poet_mcu.ir.graph import DType, Graph, Node, Phase
from poet_mcu.ir.program import Call, Instruction, Opcode, Operand, OperandKind, Program
from poet_mcu.ops.ending import ending_of
from poet_mcu.ops.operator import variant_of

_CAST = {DType.F32: "F32", DType.I32: "I32", DType.U8: "U8"}
_SPELLED = {
    OperandKind.NULL: "NULL",
    OperandKind.LEARNING_RATE: "run->lr",
    OperandKind.BIAS_1: "run->bias1",
    OperandKind.BIAS_2: "run->bias2",
    OperandKind.STEP: "run->step",
}
_TRANSFER = {
    Opcode.PAGE_OUT: ("poet_page_out(run->pages, {page}u, AT({place}))", "page out"),
    Opcode.PAGE_IN: ("poet_page_in(run->pages, {page}u, AT({place}))", "page in"),
    Opcode.WAIT: ("poet_page_wait(run->pages, {page}u)", "wait for"),
}


@dataclass
class CodeNames:
    """Names shared by the functions of one file: constants in flash and call descriptors."""

    names: Names = field(default_factory=Names)
    descriptors: dict[tuple[str, tuple[tuple[str, int | float], ...]], Descriptor] = field(
        default_factory=dict
    )
    constants: dict[str, str] = field(default_factory=dict)

    def descriptor(self, call: Call, label: str) -> str:
        """The name of the descriptor with these fields; equal ones are one."""
        key = (call.descriptor, call.fields)
        if key not in self.descriptors:
            name = self.names.unique(label, "shape")
            fields = [f".{k} = {_number(v)}" for k, v in call.fields]
            text = wrapped(f"static const {call.descriptor} {name} = {{", fields, "};", indent=0)
            self.descriptors[key] = Descriptor(name, text)
        return self.descriptors[key].name

    def constant(self, origin: str) -> str:
        """The name of the flash array that holds the tensor ``origin``."""
        if origin not in self.constants:
            self.constants[origin] = self.names.unique(origin, "initial")
        return self.constants[origin]


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else c_float(value)


def node_label(graph: Graph, node: Node) -> str:
    """What people call the node: its ONNX name, else the operator and its output."""
    if node.origin:
        return node.origin
    if node.outputs:
        return graph.values[node.outputs[0]].name
    return f"{node.op}_{graph.values[node.mutates[0]].name}"


@dataclass
class _Step:
    graph: Graph
    program: Program
    code: CodeNames
    prefix: str
    places: dict[tuple[int, int], Place] = field(default_factory=dict)
    computed: set[int] = field(default_factory=set)

    def place(self, value: int, offset: int) -> str:
        """The enumerator of a value's offset; a value that comes back elsewhere has several."""
        key = (value, offset)
        if key not in self.places:
            shown = self.graph.values[value]
            name = self.code.names.unique(shown.name, self.prefix)
            dims = " x ".join(str(d) for d in shown.shape) or "scalar"
            note = comment_text(f"{shown.name}: {dims} {shown.type.dtype.value}")
            self.places[key] = Place(name, offset, note)
        return self.places[key].name

    def workspace(self, offset: int) -> str:
        """The enumerator of the offset of a kernel's scratch bytes."""
        key = (-1, offset)
        if key not in self.places:
            name = self.code.names.unique("workspace", self.prefix)
            self.places[key] = Place(name, offset, "scratch of a kernel")
        return self.places[key].name

    def argument(self, operand: Operand) -> str:
        """An operand as a C expression."""
        if operand.kind in _SPELLED:
            return _SPELLED[operand.kind]
        if operand.value < 0:
            return f"F32({self.workspace(operand.offset)})"
        value = self.graph.values[operand.value]
        if operand.kind is OperandKind.FLASH:
            return self.code.constant(value.origin or value.name)
        return f"{_CAST[value.type.dtype]}({self.place(operand.value, operand.offset)})"

    def call(self, call: Call, index: int) -> Line:
        """A kernel call."""
        node = self.graph.nodes[call.node]
        label = node_label(self.graph, node)
        arguments = [self.argument(operand) for operand in call.operands]
        if call.descriptor:
            arguments.insert(0, f"&{self.code.descriptor(call, label)}")
        again = "again, " if call.node in self.computed else ""
        self.computed.add(call.node)
        how = "".join(f", {w}" for w in (ending_of(node.attrs), variant_of(node.attrs)) if w)
        comment = comment_text(f"{node.phase.value}: {again}{node.op} {label}{how}")
        macro = "POET_UPDATE" if node.phase is Phase.UPDATE else "POET_KERNEL"
        head = f"{macro}(run, {index}u, {call.function}("
        return Line(comment, wrapped(head, arguments, "));"))

    def line(self, instruction: Instruction, index: int) -> Line:
        """Any instruction."""
        if instruction.call is not None:
            return self.call(instruction.call, index)
        place = self.place(instruction.value, instruction.offset)
        if instruction.opcode is Opcode.DROP:
            return Line("", f"POET_DROP(AT({place}), {instruction.nbytes}u);")
        pattern, verb = _TRANSFER[instruction.opcode]
        call = pattern.format(page=instruction.page, place=place)
        name = self.graph.values[instruction.value].name
        comment = comment_text(f"{verb} {name}, {instruction.nbytes} bytes")
        if instruction.opcode is Opcode.WAIT:
            comment = ""
        return Line(comment, f"POET_TRANSFER(run, {index}u, {call});")


def step_view(
    graph: Graph, program: Program, code: CodeNames, function: str, title: str, prefix: str
) -> StepView:
    """The C function of a program."""
    step = _Step(graph, program, code, prefix)
    lines = tuple(step.line(inst, i) for i, inst in enumerate(program.instructions))
    for home in (*program.homes, *program.results):
        step.place(home.value, home.offset)
    places = tuple(sorted(step.places.values(), key=lambda p: (p.offset, p.name)))
    return StepView(function, title, places, lines)
