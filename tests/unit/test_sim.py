"""The interpreter: every plan gives the values of the plain graph; faults are seen, each kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import models
import numpy as np
import onnx
import plans
import pytest
from models import node

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import DType, Role
from poet_mcu.ir.program import Instruction, Opcode, Program
from poet_mcu.pipeline.selfcheck import _differences, check_program, sample_feeds
from poet_mcu.pipeline.stepplan import StepPlan
from poet_mcu.sim.card import FakeCard
from poet_mcu.sim.interpreter import Interpreter
from poet_mcu.sim.plain import run_plain


def activations() -> onnx.ModelProto:
    """Activations whose gradients need their input or their output, none of them being Relu."""
    kinds = (("Gelu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"alpha": 0.1}))
    nodes, tensors, x = [], {}, "x"
    for k, (op, attrs) in enumerate(kinds):
        tensors[f"w{k}"] = models.weights(32, 32, seed=k)
        nodes += [node("MatMul", f"{x} w{k}", f"a{k}"), node(op, f"a{k}", f"b{k}", **attrs)]
        x = f"b{k}"
    nodes += [node("Sigmoid", x, "gate"), node("Mul", f"{x} gate", "swish")]
    tensors["w"] = models.weights(32, 4, seed=9)
    nodes.append(node("MatMul", "swish w", "y"))
    return models.model(nodes, [8, 32], tensors, y=[8, 4], opset=20, ir=9)


MODELS = {
    "cnn": lambda: models.cnn(2),
    "residual": lambda: models.residual(2),
    "mlp": lambda: models.mlp(8, (64, 64, 10)),
    "activations": activations,
}


@pytest.mark.parametrize("strategy", plans.STRATEGIES)
@pytest.mark.parametrize("model", MODELS)
def test_every_strategy_computes_the_plain_graph(model: str, strategy: str, tmp_path: Path) -> None:
    made = plans.prepared(MODELS[model](), tmp_path)
    plan = plans.step_plan(made, strategy)
    assert check_program(plan) == plan.arena_peak_bytes


@pytest.mark.parametrize("squeeze", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("model", MODELS)
def test_every_budget_computes_the_plain_graph(model: str, squeeze: float, tmp_path: Path) -> None:
    made = plans.prepared(MODELS[model](), tmp_path)
    plan = plans.step_plan(made, squeeze=squeeze)
    assert check_program(plan) == plan.arena_peak_bytes


def test_twenty_steps_of_every_strategy_are_equal_to_the_bit(tmp_path: Path) -> None:
    made = plans.prepared(models.residual(2), tmp_path)
    results = []
    for strategy in plans.STRATEGIES:
        plan = plans.step_plan(made, strategy)
        machine = Interpreter(plan.graph, plan.program)
        losses = [
            float(machine.run(sample_feeds(plan.graph, step), 0.05)[plan.graph.outputs[0]])
            for step in range(20)
        ]
        weights = [machine.home_value(v.id).tobytes() for v in plan.graph.with_role(Role.PARAMETER)]
        results.append((losses, weights))
    assert all(result == results[0] for result in results)
    assert results[0][0][0] != results[0][0][-1]


@pytest.fixture
def paged(tmp_path: Path) -> StepPlan:
    """A plan that pages."""
    plan = plans.step_plan(plans.prepared(models.cnn(2), tmp_path), "page-all")
    assert plan.metrics.page_ins
    return plan


def edited(plan: StepPlan, change: object) -> Program:
    return replace(plan.program, instructions=tuple(change(list(plan.program.instructions))))


def first(instructions: list[Instruction], opcode: Opcode) -> int:
    return next(i for i, inst in enumerate(instructions) if inst.opcode is opcode)


def without_wait(instructions: list[Instruction], after: Opcode) -> list[Instruction]:
    start = first(instructions, after)
    page = instructions[start].page
    wait = next(
        i
        for i, inst in enumerate(instructions)
        if i > start and inst.opcode is Opcode.WAIT and inst.page == page
    )
    return instructions[:wait] + instructions[wait + 1 :]


def without_first(instructions: list[Instruction], opcode: Opcode) -> list[Instruction]:
    at = first(instructions, opcode)
    return instructions[:at] + instructions[at + 1 :]


def swapped_offset(instructions: list[Instruction]) -> list[Instruction]:
    at = first(instructions, Opcode.PAGE_IN)
    moved = replace(instructions[at], offset=0)
    return [*instructions[:at], moved, *instructions[at + 1 :]]


SABOTAGE = {
    "a write is not waited for": (
        lambda i: without_wait(i, Opcode.PAGE_OUT),
        "while another transfer|before it was written",
    ),
    "a read is not waited for": (
        lambda i: without_wait(i, Opcode.PAGE_IN),
        "poisoned|while another transfer",
    ),
    "a page is never written": (
        lambda i: without_wait(without_first(i, Opcode.PAGE_OUT), Opcode.PAGE_OUT),
        "no transfer|before it was written|while another",
    ),
    "a page lands on live bytes": (swapped_offset, "overlap"),
    "a value is dropped twice": (
        lambda i: [
            *i[: first(i, Opcode.DROP)],
            i[first(i, Opcode.DROP)],
            *i[first(i, Opcode.DROP) :],
        ],
        "not live",
    ),
    "an operator is left out": (lambda i: without_first(i, Opcode.CALL), "poisoned|not live"),
}


@pytest.mark.parametrize("fault", SABOTAGE)
def test_a_broken_program_is_seen(fault: str, paged: StepPlan) -> None:
    change, message = SABOTAGE[fault]
    machine = Interpreter(paged.graph, edited(paged, change))
    with pytest.raises(InternalError, match=message):
        machine.run(sample_feeds(paged.graph), 0.05)


def test_selfcheck_sees_a_wrong_prediction(paged: StepPlan) -> None:
    metrics = replace(paged.metrics, sd_read_bytes=paged.metrics.sd_read_bytes + 8)
    with pytest.raises(InternalError, match="SD bytes read: predicted"):
        check_program(replace(paged, metrics=metrics))
    metrics = replace(paged.metrics, peak_bytes=paged.metrics.peak_bytes + 8)
    with pytest.raises(InternalError, match="peak bytes: predicted"):
        check_program(replace(paged, metrics=metrics))


def test_selfcheck_sees_a_wrong_value(paged: StepPlan) -> None:
    calls = list(paged.program.instructions)
    at = next(i for i, c in enumerate(calls) if c.call and "sgd" in c.call.function)
    broken = [*calls[:at], *calls[at + 1 :]]
    program = replace(paged.program, instructions=tuple(broken))
    with pytest.raises(InternalError, match="differs after the step"):
        check_program(replace(paged, program=program))


def test_selfcheck_sees_a_wrong_result_alone(paged: StepPlan) -> None:
    graph, feeds = paged.graph, sample_feeds(paged.graph)
    machine = Interpreter(graph, paged.program)
    results = machine.run(feeds, 0.05)
    expected = run_plain(graph, graph.initial, feeds, 0.05)
    assert _differences(graph, machine, results, expected) == []
    (loss,) = results
    wrong = {loss: results[loss] + 1}
    name = graph.values[loss].name
    assert _differences(graph, machine, wrong, expected) == [f"value '{name}' differs"]


def test_the_fake_card_copies_late() -> None:
    card, buffer = FakeCard(), np.arange(8, dtype=np.uint8)
    card.start_write(0, buffer)
    buffer[:] = 9  # too early: the write has not been waited for
    card.wait(0)
    back = np.zeros(8, np.uint8)
    card.start_read(0, back)
    assert not back.any()
    card.wait(0)
    assert (back == 9).all()


def test_the_fake_card_counts_and_refuses() -> None:
    card, buffer = FakeCard(), np.zeros(600, np.uint8)
    with pytest.raises(InternalError, match="before it was written"):
        card.start_read(3, buffer)
    with pytest.raises(InternalError, match="no transfer of page 3"):
        card.wait(3)
    card.start_write(3, buffer)
    with pytest.raises(InternalError, match="another transfer is under way"):
        card.start_write(4, buffer)
    with pytest.raises(InternalError, match="another transfer is under way"):
        card.start_read(3, buffer)
    with pytest.raises(InternalError, match="step begins while"):
        card.begin_step()
    card.wait(3)
    card.start_read(3, buffer)
    for transfer in (card.start_read, card.start_write):
        with pytest.raises(InternalError, match="another transfer is under way"):
            transfer(3, buffer)
    card.wait(3)
    assert (card.write_bytes, card.writes, card.read_bytes, card.reads) == (600, 1, 600, 1)
    card.begin_step()
    with pytest.raises(InternalError, match="before it was written"):
        card.start_read(3, buffer)


@pytest.mark.parametrize("byte", [0, 5, 15])
def test_a_poisoned_byte_is_never_read(paged: StepPlan, byte: int) -> None:
    machine = Interpreter(paged.graph, paged.program)
    machine.store(0, np.ones(4, np.float32))
    assert (machine.load(0, (4,), DType.F32) == 1).all()
    machine.poison(byte, 1)
    with pytest.raises(InternalError, match=r"poisoned bytes in \[0, 16\)"):
        machine.load(0, (4,), DType.F32)


def test_a_call_without_a_call_is_seen(paged: StepPlan) -> None:
    program = edited(paged, lambda i: [replace(i[first(i, Opcode.CALL)], call=None), *i])
    with pytest.raises(InternalError, match="a call instruction without a call"):
        Interpreter(paged.graph, program).run(sample_feeds(paged.graph), 0.05)


def test_plain_state_starts_at_the_initial_values(paged: StepPlan) -> None:
    graph = paged.graph
    values = run_plain(graph, graph.initial, sample_feeds(graph), 0.0)
    for value in graph.with_role(Role.PARAMETER):
        assert np.array_equal(values[value.id], graph.initial[value.id])
