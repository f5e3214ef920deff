"""The training graph: forward graph plus loss, backward pass and optimizer updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import DType, Graph, Phase, Role, TensorType, Value
from poet_mcu.ops.builder import GraphBuilder
from poet_mcu.ops.table import OPERATORS
from poet_mcu.training.autodiff import Update, backward, depends_on_parameters


def _target_like(output: TensorType) -> TensorType:
    return output


def _class_labels(output: TensorType) -> TensorType:
    return TensorType(output.shape[:1], DType.I32)


#: loss name -> (operator, type of the labels for an output type)
LOSSES: Mapping[str, tuple[str, Callable[[TensorType], TensorType]]] = MappingProxyType(
    {"cross-entropy": ("softmax_xent", _class_labels), "mse": ("mse", _target_like)}
)


def _sgd(build: GraphBuilder, parameter: Value, gradient: Value) -> None:
    build.emit("sgd", (parameter, gradient), {}, f"update_{parameter.name}", parameter.origin)


OPTIMIZERS: Mapping[str, Update] = MappingProxyType({"sgd": _sgd})


def training_graph(forward: Graph, loss: str, optimizer: str, *, has_softmax: bool) -> Graph:
    """One training step of ``forward``, whose only output is the logits or predictions.

    Raises ModelError when the loss does not fit the output or nothing is trainable.
    """
    logits = forward.values[forward.outputs[0]]
    if has_softmax and loss != "cross-entropy":
        raise ModelError(
            f"loss: expected cross-entropy after a final Softmax, got {loss}; "
            "remove the Softmax before export or choose --loss cross-entropy"
        )
    if not forward.with_role(Role.PARAMETER):
        raise ModelError(
            "expected at least one trainable parameter, got none; check --train and --freeze"
        )
    needed = depends_on_parameters(forward)
    if forward.root(logits.id) not in needed:
        raise ModelError("expected the output to depend on a trainable parameter, got none")
    build = GraphBuilder.extend(forward)
    build.phase = Phase.LOSS
    operator, label_type = LOSSES[loss]
    labels = build.value("labels", label_type(logits.type), Role.LABEL)
    value, seed = build.emit(operator, (logits, labels), {}, "loss")
    value = build.set_role(value, Role.LOSS)
    backward(forward, build, forward.root(logits.id), seed, OPTIMIZERS[optimizer])
    return build.finish([value])


def evaluation_graph(forward: Graph) -> Graph:
    """``forward`` without the extra outputs that only a backward pass would read.

    Values tracked over the steps (running statistics) stand in for those of the batch, and nothing
    updates them.
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
        attrs = dict(node.attrs)
        if any(v not in read for v in node.outputs[1:]):
            attrs["with_argmax"] = 0
        name = forward.values[node.outputs[0]].name
        outputs = build.emit(node.op, inputs, attrs, name, node.origin)
        fresh.update(zip(node.outputs, outputs, strict=False))
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
