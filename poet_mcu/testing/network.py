"""The network of the suite: a small convolutional one, made here, so that no file is needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES, CHANNELS, SIZE = 4, 6, 8


def save_network(path: Path) -> Path:
    """Write the model to ``path``: 1 x 8 x 8 -> convolution, rectifier, pooling, dense -> 4."""
    rng = np.random.default_rng(8)
    features = CHANNELS * (SIZE // 2) ** 2
    stored = {
        "conv.weight": rng.normal(0, 0.3, (CHANNELS, 1, 3, 3)),
        "conv.bias": rng.normal(0, 0.1, (CHANNELS,)),
        "fc.weight": rng.normal(0, 0.1, (CLASSES, features)),
        "fc.bias": rng.normal(0, 0.1, (CLASSES,)),
    }
    nodes = [
        helper.make_node(
            "Conv", ["x", "conv.weight", "conv.bias"], ["c"], "conv", pads=[1] * 4,
            kernel_shape=[3, 3],
        ),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node(
            "MaxPool", ["r"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]
        ),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["y"], "fc", transB=1),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "hil",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, SIZE, SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path
