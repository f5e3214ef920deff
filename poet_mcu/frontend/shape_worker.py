"""The process that runs onnx's shape inference: a model on stdin, JSON of shapes on stdout."""

from __future__ import annotations

import json
import resource
import sys

import onnx
from onnx import TensorProto, shape_inference

MOST_BYTES = 3 << 30  # of address space: the libraries alone take one of them


def main() -> None:
    """Answer one model; any error ends the process, and the parent does without the shapes."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    model = onnx.load_model_from_string(sys.stdin.buffer.read())
    model = shape_inference.infer_shapes(model, check_type=True)
    found = {
        info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        for info in (*model.graph.value_info, *model.graph.output)
        if _is_static(info)
    }
    sys.stdout.write(json.dumps(found))


def _is_static(info: onnx.ValueInfoProto) -> bool:
    tensor = info.type.tensor_type
    if tensor.elem_type != TensorProto.FLOAT or not tensor.HasField("shape"):
        return False
    return all(dim.HasField("dim_value") and dim.dim_value > 0 for dim in tensor.shape.dim)


if __name__ == "__main__":
    main()
