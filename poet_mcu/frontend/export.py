"""Trained weights back into the ONNX model they came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from poet_mcu.errors import InternalError

Weights = Mapping[str, npt.NDArray[np.generic]]


def save_with_weights(source: Path, weights: Weights, target: Path) -> None:
    """Write ``source`` to ``target`` with the tensors in ``weights`` replaced, by ONNX name.

    A name may be an initializer, the output of a Constant, or the output of an Identity of an
    initializer (an exporter's copy of an equal tensor), which becomes an initializer of its own.
    The target appears whole or not at all.
    """
    model = onnx.load(source)
    graph = model.graph
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    for name, array in sorted(weights.items()):
        data = np.ascontiguousarray(array, np.float32)
        tensor = numpy_helper.from_array(data, name)
        if name in initializers:
            tensor.dims[:] = initializers[name].dims  # a bias may be stored as [1, n]
            initializers[name].CopyFrom(tensor)
        elif name in producers:
            graph.node.remove(producers[name])
            graph.initializer.append(tensor)
        else:
            raise InternalError(f"{source.name}: weight '{name}' is not in the model")
    partial = target.with_name(f".{target.name}.partial")
    try:
        onnx.save(model, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
