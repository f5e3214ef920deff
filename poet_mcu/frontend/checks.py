"""What is asked of every tensor, and how its type is called in messages."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import TensorType

MAX_BYTES = 2**31
#: most entries of a table that is made element by element, and of a matrix that arrays make
MOST_POSITIONS, MOST_FACTORS = 2**20, 2**24


def check_float_tensor(name: str, array: npt.NDArray[np.generic]) -> None:
    """Raise ModelError unless ``array`` is float32 with finite elements."""
    if array.dtype != np.float32:
        raise ModelError(
            f"expected float32 in tensor '{name}', got {array.dtype}; "
            "convert the model to float32 before export"
        )
    if not array.size:
        raise ModelError(
            f"expected elements in tensor '{name}', got shape {list(array.shape)}; "
            "export the model again"
        )
    bad = int(np.count_nonzero(~np.isfinite(array.astype(np.float32))))
    if bad:
        raise ModelError(
            f"expected finite numbers in tensor '{name}', got {bad} NaN or infinite elements; "
            "repair or retrain the model"
        )


def check_size(name: str, shape: tuple[int, ...]) -> None:
    """Raise ModelError for a float32 tensor that no board and no C array can hold."""
    size_bytes = TensorType(shape).nbytes
    if size_bytes >= MAX_BYTES:
        raise ModelError(
            f"expected tensors below 2 GiB, got {size_bytes} bytes for '{name}' of shape "
            f"{list(shape)}; use a smaller model or batch"
        )


def check_table(elements: int, most: int = MOST_POSITIONS) -> None:
    """Raise ModelError for a table that is too large to be made while the model is read."""
    if elements > most:
        raise ModelError(
            f"expected a table of at most {most} elements, got one of {elements}; "
            "use a smaller model"
        )


def type_name(elem_type: int) -> str:
    """``float16`` for the enum of ONNX, for messages."""
    known = TensorProto.DataType.values()
    return TensorProto.DataType.Name(elem_type).lower() if elem_type in known else str(elem_type)
