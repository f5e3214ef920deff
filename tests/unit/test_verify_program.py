"""The program's verifier: a good program passes, each rule is broken once and seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import models
import plans
import pytest

from poet_mcu.errors import InternalError
from poet_mcu.ir.program import Instruction, Opcode, OperandKind, Program
from poet_mcu.ir.verify_program import verify_program
from poet_mcu.pipeline.stepplan import StepPlan

Change = Callable[[Program], Program]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> StepPlan:
    folder = tmp_path_factory.mktemp("plan")
    made = plans.prepared(models.cnn(2), folder, freeze=("conv1.weight",))
    return plans.step_plan(made, "page-all")


def check(plan: StepPlan, program: Program) -> None:
    verify_program(plan.graph, plan.schedule, plan.placement, program, plan.region_blocks)


def at(program: Program, opcode: Opcode, change: Callable[[Instruction], Instruction]) -> Program:
    instructions = list(program.instructions)
    index = next(i for i, inst in enumerate(instructions) if inst.opcode is opcode)
    instructions[index] = change(instructions[index])
    return replace(program, instructions=tuple(instructions))


def call_with(change: Callable, role: str, kind: OperandKind | None = None) -> Change:
    """Change the operand of ``role`` in the first call that has one (of ``kind``)."""

    def apply(program: Program) -> Program:
        instructions = list(program.instructions)
        for index, inst in enumerate(instructions):
            call = inst.call
            if call is None or role not in call.roles:
                continue
            position = call.roles.index(role)
            if kind is not None and call.operands[position].kind is not kind:
                continue
            operands = list(call.operands)
            operands[position] = change(operands[position])
            instructions[index] = replace(inst, call=replace(call, operands=tuple(operands)))
            return replace(program, instructions=tuple(instructions))
        raise AssertionError("no such operand")

    return apply


def page(change: Callable) -> Change:
    return lambda program: replace(program, pages=(change(program.pages[0]), *program.pages[1:]))


SABOTAGE: dict[str, tuple[Change, str]] = {
    "one instruction too few": (
        lambda p: replace(p, instructions=p.instructions[:-1]),
        r"expected \d+ instructions, got \d+",
    ),
    "another kind": (
        lambda p: at(p, Opcode.PAGE_OUT, lambda i: replace(i, opcode=Opcode.PAGE_IN)),
        "expected page_out, got page_in",
    ),
    "another node": (
        lambda p: at(p, Opcode.CALL, lambda i: replace(i, call=replace(i.call, node=3))),
        r"expected node \d+, got 3",
    ),
    "another value": (
        lambda p: at(p, Opcode.DROP, lambda i: replace(i, value=i.value + 1)),
        r"expected value \d+, got",
    ),
    "outside the arena": (
        lambda p: at(p, Opcode.DROP, lambda i: replace(i, offset=10_000_000)),
        "is outside",
    ),
    "before the arena": (
        lambda p: at(p, Opcode.DROP, lambda i: replace(i, offset=-8)),
        r"\[-8, \d+\) is outside",
    ),
    "another offset of a drop": (
        lambda p: at(p, Opcode.DROP, lambda i: replace(i, offset=i.offset + 8)),
        "lives at",
    ),
    "another offset of an operand": (
        call_with(lambda o: replace(o, offset=o.offset + 8), "out0"),
        "lives at",
    ),
    "another value of an operand": (
        call_with(lambda o: replace(o, value=o.value + 1), "in0"),
        r"in0: expected value",
    ),
    "a constant in RAM": (
        call_with(lambda o: replace(o, kind=OperandKind.ARENA), "in1", OperandKind.FLASH),
        "wrong memory",
    ),
    "a value in flash": (
        call_with(lambda o: replace(o, kind=OperandKind.FLASH), "in0", OperandKind.ARENA),
        "wrong memory",
    ),
    "the page of another value": (
        lambda p: at(p, Opcode.PAGE_OUT, lambda i: replace(i, page=i.page + 1)),
        "is not the page of value",
    ),
    "the page of nobody": (
        lambda p: at(p, Opcode.PAGE_OUT, lambda i: replace(i, page=999)),
        "page 999 is not the page of value",
    ),
    "a workspace that is another's": (
        call_with(lambda o: replace(o, offset=o.offset + 8), "ws"),
        "workspace is not the placement's scratch",
    ),
    "too many page bytes": (
        page(lambda g: replace(g, nbytes=g.nbytes + 8)),
        r"expected \d+ page bytes, got",
    ),
    "a page too small": (page(lambda g: replace(g, blocks=0)), "holds 0 blocks"),
    "a page over the header": (page(lambda g: replace(g, first_block=0)), "outside the region"),
    "a page behind the region": (
        page(lambda g: replace(g, first_block=10_000)),
        "outside the region",
    ),
    "two pages of one number": (
        lambda p: replace(p, pages=(*p.pages, p.pages[0])),
        "page numbers are not unique",
    ),
}


def test_a_good_program_passes(plan: StepPlan) -> None:
    check(plan, plan.program)


@pytest.mark.parametrize("fault", SABOTAGE)
def test_each_rule_is_seen(fault: str, plan: StepPlan) -> None:
    change, message = SABOTAGE[fault]
    with pytest.raises(InternalError, match=message):
        check(plan, change(plan.program))


def test_a_missing_argument_is_seen(plan: StepPlan) -> None:
    def drop_last(inst: Instruction) -> Instruction:
        call = replace(inst.call, roles=inst.call.roles[:-1], operands=inst.call.operands[:-1])
        return replace(inst, call=call)

    with pytest.raises(InternalError, match="expected arguments"):
        check(plan, at(plan.program, Opcode.CALL, drop_last))
