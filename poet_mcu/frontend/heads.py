"""Which output of a classifier is trained: scikit-learn's exporter writes labels beside it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import TensorProto, helper, numpy_helper

_LABELS = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.STRING})


def with_one_output(graph: onnx.GraphProto) -> tuple[onnx.GraphProto, tuple[str, ...]]:
    """The graph with its probabilities as the only output, and sentences for the user.

    A model with one output, or without one that stands out, is returned as it is. ZipMap's
    dictionaries are the tensor they are made of. The two columns [1 - p, p] of a binary classifier
    are p, which the loss 'bce' takes.
    """
    makers = {name: node for node in graph.node for name in node.output}
    numbers: list[str] = []
    labels: list[str] = []
    for info in graph.output:
        maker = makers.get(info.name)
        if maker is not None and maker.op_type == "ZipMap":
            numbers.append(maker.input[0])
        elif info.type.tensor_type.elem_type == TensorProto.FLOAT:
            numbers.append(info.name)
        elif info.type.tensor_type.elem_type in _LABELS:
            labels.append(info.name)
    known = len(numbers) == 1 and len(numbers) + len(labels) == len(graph.output)
    if not known or [info.name for info in graph.output] == numbers:
        return graph, ()
    (chosen,) = numbers
    notes = []
    if labels:
        names = ", ".join(f"'{name}'" for name in labels)
        notes.append(f"the output {names} is left out: '{chosen}' is trained")
    second = _second_column(graph, makers, chosen)
    if second:
        notes.append(
            f"'{chosen}' holds two columns that add up to 1: '{second}', the second, is the "
            "output; train it with --loss bce"
        )
    changed = onnx.GraphProto()
    changed.CopyFrom(graph)
    del changed.output[:]
    changed.output.append(helper.make_tensor_value_info(second or chosen, TensorProto.FLOAT, None))
    return changed, tuple(notes)


def _second_column(graph: onnx.GraphProto, makers: Mapping[str, onnx.NodeProto], name: str) -> str:
    """p where ``name`` is Concat(1 - p, p) and p a Sigmoid; else ''."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    concat = makers.get(name)
    if concat is None or concat.op_type != "Concat" or len(concat.input) != 2:
        return ""
    rest, p = (makers.get(part) for part in concat.input)
    if rest is None or p is None or rest.op_type != "Sub" or p.op_type != "Sigmoid":
        return ""
    one = stored.get(rest.input[0])
    if rest.input[1] != concat.input[1] or one is None:
        return ""
    array = numpy_helper.to_array(one)
    return concat.input[1] if array.size == 1 and array.ravel()[0] == 1 else ""
