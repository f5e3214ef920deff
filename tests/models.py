"""Small ONNX models for all tests, a numpy executor of forward graphs, ONNX Runtime as truth."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from poet_mcu.errors import ModelError
from poet_mcu.frontend.onnx_import import ImportedModel, load_model
from poet_mcu.ir.graph import Graph, Role
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.ops.table import OPERATORS

F32 = npt.NDArray[np.float32]
Tensors = Mapping[str, npt.NDArray[Any]]


def weights(*shape: int, seed: int = 0, scale: float = 0.5) -> F32:
    """Normal random numbers of ``shape``, the same for the same seed."""
    rng = np.random.default_rng([seed, *shape])
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def info(name: str, shape: Sequence[int | str | None] | None, elem: int = TensorProto.FLOAT):
    """A graph input or output."""
    return helper.make_tensor_value_info(name, elem, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    x: Sequence[int | str | None],
    tensors: Tensors | None = None,
    *,
    y: Sequence[int | str | None] | None = None,
    opset: int = 17,
    ir: int = 8,
    out: str = "y",
) -> onnx.ModelProto:
    """A model with the input ``x`` of that shape and the output ``out``.

    Without ``y`` the output has the shape that onnx infers, or one unknown dimension.
    """
    stored = [numpy_helper.from_array(a, name) for name, a in (tensors or {}).items()]
    graph = helper.make_graph(list(nodes), "g", [info("x", x)], [info(out, y)], stored)
    imports = [helper.make_opsetid("", opset)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=ir)
    if y is None:
        inferred = onnx.shape_inference.infer_shapes(made, data_prop=True).graph.output[0]
        known = inferred.type.tensor_type.HasField("shape")
        made.graph.output[0].CopyFrom(inferred if known else info(out, ["unknown"]))
    return made


def node(op: str, inputs: str, output: str, name: str | None = None, **attrs: Any):
    """``node("Gemm", "x w b", "y", transB=1)``; a ``-`` is an absent input."""
    names = ["" if i == "-" else i for i in inputs.split()]
    label = f"{op.lower()}_{output}" if name is None else name
    return helper.make_node(op, names, output.split(), name=label, **attrs)


def save(proto: onnx.ModelProto, path: Path) -> Path:
    """Write ``proto`` to ``path``."""
    path.write_bytes(proto.SerializeToString())
    return path


# --- whole models -----------------------------------------------------------------------------


def mlp(batch: int | str = 1, sizes: Sequence[int] = (6, 8, 4), seed: int = 0) -> onnx.ModelProto:
    """Gemm, Relu, ..., Gemm; tensors ``fc1.weight`` [M, K] and ``fc1.bias`` and so on."""
    nodes, tensors, x = [], {}, "x"
    for i, (k, m) in enumerate(pairwise(sizes), 1):
        tensors[f"fc{i}.weight"] = weights(m, k, seed=seed + i)
        tensors[f"fc{i}.bias"] = weights(m, seed=seed + i)
        last = i == len(sizes) - 1
        y = "y" if last else f"h{i}"
        nodes.append(node("Gemm", f"{x} fc{i}.weight fc{i}.bias", y, f"fc{i}", transB=1))
        if not last:
            nodes.append(node("Relu", y, f"r{i}", f"relu{i}"))
            x = f"r{i}"
    return model(nodes, [batch, sizes[0]], tensors, y=[batch, sizes[-1]])


def cnn(
    batch: int | str = 1,
    channels: int = 2,
    size: int = 8,
    filters: int = 4,
    classes: int = 3,
    *,
    softmax: bool = False,
    seed: int = 0,
) -> onnx.ModelProto:
    """Conv, Relu, MaxPool, Conv, Relu, MaxPool, Flatten, Gemm [, Softmax]."""
    flat = 2 * filters * (size // 4) ** 2
    tensors = {
        "conv1.weight": weights(filters, channels, 3, 3, seed=seed),
        "conv1.bias": weights(filters, seed=seed),
        "conv2.weight": weights(2 * filters, filters, 3, 3, seed=seed, scale=0.2),
        "conv2.bias": weights(2 * filters, seed=seed),
        "fc.weight": weights(classes, flat, seed=seed, scale=0.2),
        "fc.bias": weights(classes, seed=seed),
    }
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Conv", "x conv1.weight conv1.bias", "c1", "conv1", pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r1", "relu1"),
        node("MaxPool", "r1", "p1", "pool1", **pool),
        node("Conv", "p1 conv2.weight conv2.bias", "c2", "conv2", pads=[1, 1, 1, 1]),
        node("Relu", "c2", "r2", "relu2"),
        node("MaxPool", "r2", "p2", "pool2", **pool),
        node("Flatten", "p2", "f", "flatten"),
        node("Gemm", "f fc.weight fc.bias", "z" if softmax else "y", "fc", transB=1),
    ]
    if softmax:
        nodes.append(node("Softmax", "z", "y", "softmax", axis=1))
    return model(nodes, [batch, channels, size, size], tensors, y=[batch, classes])


def residual(batch: int | str = 1, channels: int = 3, size: int = 6) -> onnx.ModelProto:
    """A convolution, one residual block of two convolutions, pooling, Gemm."""
    shape = (channels, channels, 3, 3)
    tensors = {f"conv{i}.weight": weights(*shape, seed=i, scale=0.3) for i in (1, 2, 3)}
    tensors |= {f"conv{i}.bias": weights(channels, seed=i) for i in (1, 2, 3)}
    tensors["fc.weight"] = weights(channels * (size // 2) ** 2, 4, seed=4, scale=0.3)
    pads = [1, 1, 1, 1]
    nodes = [
        node("Conv", "x conv1.weight conv1.bias", "c1", "conv1", pads=pads),
        node("Relu", "c1", "r1", "relu1"),
        node("Conv", "r1 conv2.weight conv2.bias", "c2", "conv2", pads=pads),
        node("Relu", "c2", "r2", "relu2"),
        node("Conv", "r2 conv3.weight conv3.bias", "c3", "conv3", pads=pads),
        node("Add", "c3 r1", "s", "sum"),
        node("Relu", "s", "r3", "relu3"),
        node("MaxPool", "r3", "p", "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f", "flatten"),
        node("MatMul", "f fc.weight", "y", "fc"),
    ]
    return model(nodes, [batch, channels, size, size], tensors, y=[batch, 4])


def torch_export(
    module: Any, example: Any, *, dynamo: bool, batch_name: str = "", fold: bool = True
) -> bytes:
    """The bytes of an ONNX file by one of PyTorch's two exporters, in evaluation mode.

    Without ``fold`` the older one leaves what is computed from weights in the file.
    """
    import torch  # noqa: PLC0415 - slow to import, needed by few tests

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    module.eval()
    options: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"], "dynamo": dynamo}
    if batch_name and dynamo:
        options["dynamic_shapes"] = ({0: torch.export.Dim(batch_name)},)
    elif batch_name:
        options["dynamic_axes"] = {"x": {0: batch_name}, "y": {0: batch_name}}
    if not dynamo:
        buffer = io.BytesIO()
        torch.onnx.export(module, (example,), buffer, do_constant_folding=fold, **options)
        return buffer.getvalue()
    program = torch.onnx.export(module, (example,), verbose=False, **options)
    return bytes(program.model_proto.SerializeToString())


# --- running ----------------------------------------------------------------------------------


def run_graph(graph: Graph, x: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """The outputs of a forward graph by the operators' numpy references."""
    known: dict[int, npt.NDArray[Any]] = dict(graph.initial)
    for value in graph.with_role(Role.INPUT):
        known[value.id] = np.asarray(x, value.type.dtype.numpy).reshape(value.shape)

    def read(value_id: int) -> npt.NDArray[Any]:
        return known[graph.root(value_id)].reshape(graph.values[value_id].shape)

    for item in graph.nodes:
        results = OPERATORS[item.op].reference([read(i) for i in item.inputs], item.attrs)
        for value_id, result in zip(item.outputs, results, strict=True):
            assert result.shape == graph.values[value_id].shape, graph.values[value_id].name
            assert result.dtype == graph.values[value_id].type.dtype.numpy
            known[value_id] = result
    return tuple(read(i) for i in graph.outputs)


def run_onnx(proto: onnx.ModelProto | Path, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The first output by ONNX Runtime."""
    import onnxruntime  # noqa: PLC0415 - slow to import, needed by few tests

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source = str(proto) if isinstance(proto, Path) else proto.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: x})[0])


def softmax(z: npt.NDArray[Any]) -> F32:
    """Softmax along the last axis."""
    e = np.exp(z - z.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True), np.float32)


def every(_name: str) -> bool:
    """Train every weight."""
    return True


def frozen(_name: str) -> bool:
    """Train none."""
    return False


def load(
    proto: onnx.ModelProto,
    folder: Path,
    batch: int | None = None,
    trainable: Callable[[str], bool] = every,
) -> ImportedModel:
    """``proto`` through a file in ``folder``."""
    return load_model(save(proto, folder / "m.onnx"), batch, trainable)


def agree(
    proto: onnx.ModelProto,
    folder: Path,
    batch: int | None = None,
    trainable: Callable[[str], bool] = every,
    truth: Callable[[F32], npt.NDArray[Any]] | None = None,
) -> ImportedModel:
    """Import, run, compare with ONNX Runtime (or ``truth``) within 1e-5; the imported model."""
    found = load(proto, folder, batch, trainable)
    (value,) = found.graph.with_role(Role.INPUT)
    x = weights(*value.shape, seed=99, scale=1.0)
    y = run_graph(found.graph, x)[0]
    if found.has_softmax:
        y = softmax(y)
    expected = run_onnx(proto, x) if truth is None else truth(x)
    assert found.report.output_shape == expected.shape
    np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)
    assert len({v.name for v in found.graph.values}) == len(found.graph.values)
    verify_graph(found.graph, training=False)
    return found


def ops(found: ImportedModel) -> list[str]:
    """Names of the operators in order."""
    return [item.op for item in found.graph.nodes]


def refusal(proto: onnx.ModelProto, folder: Path, batch: int | None = None) -> str:
    """The message with which ``proto`` is refused, without the path."""
    path = save(proto, folder / "m.onnx")
    with pytest.raises(ModelError) as error:
        load_model(path, batch, every)
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")
