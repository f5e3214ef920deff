"""The training graph: forward graph plus loss, backward pass and optimizer updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import DType, Graph, Phase, Role, TensorType, Value
from poet_mcu.ops.builder import GraphBuilder
from poet_mcu.ops.operator import Attrs
from poet_mcu.ops.table import OPERATORS
from poet_mcu.training.autodiff import backward, depends_on_parameters
from poet_mcu.training.recipe import Recipe
from poet_mcu.training.updates import Updates

#: operator, its inputs, its attributes
LossNode = tuple[str, tuple[Value, ...], Attrs]


def _labels(build: GraphBuilder, kind: TensorType) -> Value:
    return build.value("labels", kind, Role.LABEL)


def _cross_entropy(build: GraphBuilder, output: Value, recipe: Recipe) -> LossNode:
    if output.shape[1:] == (1,):
        raise ModelError(
            "cross-entropy: expected logits of two or more classes, got one; choose --loss bce"
        )
    labels = _labels(build, TensorType(output.shape[:1], DType.I32))
    if not recipe.class_weights and not recipe.label_smoothing:
        return "softmax_xent", (output, labels), {}
    given = recipe.class_weights or (1.0,) * output.shape[-1]
    array = np.asarray(given, np.float32)
    weights = build.value("class_weights", TensorType(array.shape), Role.CONSTANT, "", array)
    return "weighted_xent", (output, labels, weights), {"smoothing": recipe.label_smoothing}


def _elementwise(build: GraphBuilder, output: Value, recipe: Recipe) -> LossNode:
    return recipe.loss, (output, _labels(build, output.type)), {}


def _huber(build: GraphBuilder, output: Value, recipe: Recipe) -> LossNode:
    return "huber", (output, _labels(build, output.type)), {"delta": recipe.huber_delta}


def _none(_build: GraphBuilder, output: Value, _recipe: Recipe) -> LossNode:
    return "scalar_loss", (output,), {}


LOSSES: Mapping[str, Callable[[GraphBuilder, Value, Recipe], LossNode]] = MappingProxyType(
    {
        "cross-entropy": _cross_entropy,
        "bce": _elementwise,
        "mse": _elementwise,
        "l1": _elementwise,
        "huber": _huber,
        "none": _none,
    }
)

#: a last activation that is left to the loss -> the loss that has it inside
FUSED: Mapping[str, str] = MappingProxyType({"Softmax": "cross-entropy", "Sigmoid": "bce"})


def training_graph(forward: Graph, recipe: Recipe, *, activation: str = "") -> Graph:
    """One training step of ``forward``, whose only output is the logits or predictions.

    ``activation`` is the ONNX name of a last node that is left to the loss, '' without one. Raises
    ModelError when the loss does not fit the output or nothing is trainable.
    """
    output = forward.values[forward.outputs[0]]
    if activation and recipe.loss != FUSED[activation]:
        raise ModelError(
            f"loss: expected {FUSED[activation]} after a final {activation}, got {recipe.loss}; "
            f"remove the {activation} before export or choose --loss {FUSED[activation]}"
        )
    if not forward.with_role(Role.PARAMETER):
        raise ModelError(
            "expected at least one trainable parameter, got none; check --train and --freeze"
        )
    needed = depends_on_parameters(forward)
    if forward.root(output.id) not in needed:
        raise ModelError("expected the output to depend on a trainable parameter, got none")
    build = GraphBuilder.extend(forward)
    build.phase = Phase.LOSS
    operator, inputs, attrs = LOSSES[recipe.loss](build, output, recipe)
    value, seed = build.emit(operator, inputs, attrs, "loss")
    value = build.set_role(value, Role.LOSS)
    backward(forward, build, forward.root(output.id), seed, Updates(build, recipe))
    return build.finish([value])


def training_notes(train: Graph, recipe: Recipe) -> list[str]:
    """What a user should know of how this graph trains; sentences."""
    running = [n for n in train.nodes if n.mutates and n.phase is Phase.FORWARD]
    if recipe.accumulate < 2 or not running:
        return []
    names = ", ".join(f"'{n.origin or n.op}'" for n in running)
    note = (
        f"--accumulate {recipe.accumulate} is not one large batch here, {names} take statistics "
        "of each batch by itself; freeze them (--batchnorm frozen) or raise --batch"
    )
    return [note]


def evaluation_graph(forward: Graph, train: Graph) -> Graph:
    """``forward`` without the extra outputs that only a backward pass would read.

    Values tracked over the steps (running statistics) stand in for those of the batch, and nothing
    updates them. It has the optimizer state that ``train`` keeps in RAM too, which nothing reads:
    it keeps its place while an evaluation runs.
    """
    read = {forward.root(v) for node in forward.nodes for v in node.inputs}
    build = GraphBuilder(forward.name)
    fresh: dict[int, Value] = {}
    for value in forward.values:
        source = value.role in (Role.INPUT, Role.PARAMETER, Role.CONSTANT, Role.STATISTIC)
        if source and value.base is None:
            initial = forward.initial.get(value.id)
            fresh[value.id] = build.value(value.name, value.type, value.role, value.origin, initial)
    tracked = _tracked(forward)
    for node in forward.nodes:
        if node.mutates or (node.outputs and tracked.keys() >= set(node.outputs)):
            continue
        inputs = [_mapped(forward, build, fresh, tracked.get(v, v)) for v in node.inputs]
        if OPERATORS[node.op].only_in_training:
            fresh[node.outputs[0]] = inputs[0]
            continue
        attrs = dict(node.attrs)
        if any(v not in read for v in node.outputs[1:]):
            attrs["with_argmax"] = 0
        name = forward.values[node.outputs[0]].name
        outputs = build.emit(node.op, inputs, attrs, name, node.origin)
        fresh.update(zip(node.outputs, outputs, strict=False))
    known = {value.id for value in forward.with_role(Role.STATE)}
    for value in train.home_ram():
        if value.role is Role.STATE and value.id not in known:
            build.value(value.name, value.type, value.role, value.origin)
    return build.finish([_mapped(forward, build, fresh, forward.outputs[0])])


def _tracked(forward: Graph) -> dict[int, int]:
    """Value -> the one tracked over the steps that an evaluation reads in its place."""
    return {
        node.inputs[read]: node.inputs[instead]
        for node in forward.nodes
        for read, instead in OPERATORS[node.op].in_evaluation
    }


def _mapped(forward: Graph, build: GraphBuilder, fresh: dict[int, Value], value_id: int) -> Value:
    value = forward.values[value_id]
    if value.base is None or value_id in fresh:
        return fresh[value_id]
    fresh[value_id] = build.view(fresh[value.base], value.shape, value.name)
    return fresh[value_id]
