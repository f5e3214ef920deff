"""Reads a TensorFlow Lite file into plain data; every number in it may be damage.

The file is a flatbuffer (schema.fbs of TensorFlow Lite, version 3) and is read with the package
``tflite``, which is the extra of that name. Stored integers that stand for floats (int8 weights,
int32 biases) are dequantized here: real = scale * (stored - zero point), per tensor or per slice
of one axis.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import ModelError, ToolMissing

Array = npt.NDArray[Any]
MAGIC = b"TFL3"
#: what reading a damaged flatbuffer raises
_DAMAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError)

#: operator -> table of its options in the schema, and the fields of it that are read
_OPTIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ADD": ("AddOptions", "FusedActivationFunction"),
        "AVERAGE_POOL_2D": (
            "Pool2DOptions",
            "Padding StrideW StrideH FilterWidth FilterHeight FusedActivationFunction",
        ),
        "BATCH_MATMUL": ("BatchMatMulOptions", "AdjX AdjY"),
        "CONCATENATION": ("ConcatenationOptions", "Axis FusedActivationFunction"),
        "CONV_2D": (
            "Conv2DOptions",
            "Padding StrideW StrideH DilationWFactor DilationHFactor FusedActivationFunction",
        ),
        "DEPTHWISE_CONV_2D": (
            "DepthwiseConv2DOptions",
            "Padding StrideW StrideH DilationWFactor DilationHFactor FusedActivationFunction",
        ),
        "DEPTH_TO_SPACE": ("DepthToSpaceOptions", "BlockSize"),
        "DIV": ("DivOptions", "FusedActivationFunction"),
        "FULLY_CONNECTED": (
            "FullyConnectedOptions",
            "FusedActivationFunction WeightsFormat KeepNumDims",
        ),
        "GATHER": ("GatherOptions", "Axis BatchDims"),
        "GELU": ("GeluOptions", "Approximate"),
        "LEAKY_RELU": ("LeakyReluOptions", "Alpha"),
        "MAX_POOL_2D": (
            "Pool2DOptions",
            "Padding StrideW StrideH FilterWidth FilterHeight FusedActivationFunction",
        ),
        "MEAN": ("ReducerOptions", "KeepDims"),
        "MUL": ("MulOptions", "FusedActivationFunction"),
        "PACK": ("PackOptions", "Axis"),
        "REDUCE_MAX": ("ReducerOptions", "KeepDims"),
        "REDUCE_MIN": ("ReducerOptions", "KeepDims"),
        "RESIZE_NEAREST_NEIGHBOR": (
            "ResizeNearestNeighborOptions",
            "AlignCorners HalfPixelCenters",
        ),
        "SOFTMAX": ("SoftmaxOptions", "Beta"),
        "SPACE_TO_DEPTH": ("SpaceToDepthOptions", "BlockSize"),
        "SPLIT": ("SplitOptions", "NumSplits"),
        "STRIDED_SLICE": (
            "StridedSliceOptions",
            "BeginMask EndMask EllipsisMask NewAxisMask ShrinkAxisMask Offset",
        ),
        "SUB": ("SubOptions", "FusedActivationFunction"),
        "SUM": ("ReducerOptions", "KeepDims"),
        "TRANSPOSE_CONV": (
            "TransposeConvOptions",
            "Padding StrideW StrideH FusedActivationFunction",
        ),
        "UNPACK": ("UnpackOptions", "Num Axis"),
    }
)
#: what a field is when the file leaves its table out, where that is not 0
_DEFAULTS: Mapping[str, int] = MappingProxyType({"DilationWFactor": 1, "DilationHFactor": 1})


@dataclass(frozen=True, slots=True)
class LiteTensor:
    """A tensor. ``data`` is None for one that is computed, else float32, int64 or bool.

    ``stored`` names the type in the file ('INT8'), ``quantized`` says that it stands for floats.
    ``any_batch``: the file leaves the first dimension open; ``shape`` then has 1 there.
    """

    name: str
    shape: tuple[int, ...]
    stored: str
    quantized: bool
    any_batch: bool
    data: Array | None

    @property
    def is_float(self) -> bool:
        """Whether it holds real numbers."""
        return self.quantized or self.stored in ("FLOAT32", "FLOAT16", "FLOAT64")


@dataclass(frozen=True, slots=True)
class LiteOp:
    """An operator; absent inputs are -1. ``options`` holds the fields named in ``_OPTIONS``."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LiteFile:
    """The one graph of a file."""

    tensors: tuple[LiteTensor, ...]
    ops: tuple[LiteOp, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_tflite(path: Path, data: bytes) -> LiteFile:
    """The graph in ``data``; raises ModelError when it is damaged or of a kind we cannot read."""
    try:
        schema = importlib.import_module("tflite")
    except ImportError as error:
        raise ToolMissing(
            f"{path}: expected the Python package 'tflite' to read a TensorFlow Lite file, "
            "got none; install poet-mcu[tflite]"
        ) from error
    try:
        return _Reader(path, data, schema).read()
    except _DAMAGE as error:
        raise ModelError(
            f"{path}: expected a TensorFlow Lite file, got a damaged or truncated one "
            f"({error}); copy or convert it again"
        ) from error


def _names(enum: Any) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


class _Reader:
    """Walks the tables of one file."""

    def __init__(self, path: Path, data: bytes, schema: Any) -> None:
        self.path, self.data, self.schema = path, data, schema
        self.types, self.codes = _names(schema.TensorType), _names(schema.BuiltinOperator)

    def read(self) -> LiteFile:
        """The graph."""
        model = self.schema.Model.GetRootAs(self.data, 0)
        if model.Version() != 3:
            raise ModelError(
                f"{self.path}: expected schema version 3, got {model.Version()}; convert again"
            )
        if model.SubgraphsLength() != 1:
            raise ModelError(
                f"{self.path}: expected one subgraph, got {model.SubgraphsLength()}; "
                "convert without control flow"
            )
        graph = model.Subgraphs(0)
        tensors = [self._tensor(model, t) for t in self._all(graph.TensorsLength, graph.Tensors)]
        ops = [self._op(model, op) for op in self._all(graph.OperatorsLength, graph.Operators)]
        found = LiteFile(
            tuple(tensors),
            tuple(ops),
            self._ints(graph.InputsLength, graph.InputsAsNumpy),
            self._ints(graph.OutputsLength, graph.OutputsAsNumpy),
        )
        self._check_order(found)
        return found

    def _check_order(self, found: LiteFile) -> None:
        """Every operand is stored, an input, or the output of an operator before its reader."""
        known = {i for i, tensor in enumerate(found.tensors) if tensor.data is not None}
        known |= {-1, *found.inputs}
        for op in found.ops:
            if not known.issuperset(op.inputs) or -1 in op.outputs or not op.outputs:
                raise ValueError(f"{op.name} reads a tensor that nothing made")
            known.update(op.outputs)
        if not known.issuperset(found.outputs) or max(known) >= len(found.tensors):
            raise ValueError("a tensor's number is out of range")
        if min(known) < -1 or -1 in found.outputs:
            raise ValueError("a tensor's number is negative")

    def _all(self, length: Callable[[], int], at: Callable[[int], Any]) -> list[Any]:
        """All tables of a vector, whose length may be damage: each takes four bytes or more."""
        count = length()
        if count > len(self.data) // 4:
            raise ValueError(f"a vector of {count} tables")
        return [at(i) for i in range(count)]

    @staticmethod
    def _ints(length: Callable[[], int], array: Callable[[], Any]) -> tuple[int, ...]:
        return tuple(int(i) for i in array()) if length() else ()

    def _tensor(self, model: Any, tensor: Any) -> LiteTensor:
        name = (tensor.Name() or b"").decode("utf-8", "replace").replace("\0", "")
        shape = self._ints(tensor.ShapeLength, tensor.ShapeAsNumpy)
        open_shape = self._ints(tensor.ShapeSignatureLength, tensor.ShapeSignatureAsNumpy)
        stored = self.types.get(tensor.Type(), str(tensor.Type()))
        if tensor.Sparsity() is not None or tensor.IsVariable():
            what = "a variable" if tensor.IsVariable() else "sparse elements"
            raise ModelError(
                f"{self.path}: tensor '{name}': expected a dense tensor without state, got "
                f"{what}; convert without them"
            )
        if any(dim < 0 for dim in shape):
            raise ValueError(f"the shape {list(shape)}")
        quantized = stored.startswith(("INT", "UINT")) and self._scales(tensor).size > 0
        data = self._data(model, tensor, stored, shape)
        if data is not None and quantized:
            data = self._real(tensor, data)
        any_batch = bool(open_shape) and open_shape[0] == -1
        return LiteTensor(name, shape, stored, quantized, any_batch, _widened(data))

    def _scales(self, tensor: Any) -> Array:
        found = tensor.Quantization()
        if found is None or not found.ScaleLength():
            return np.zeros(0, np.float32)
        return np.asarray(found.ScaleAsNumpy())

    def _data(self, model: Any, tensor: Any, stored: str, shape: tuple[int, ...]) -> Array | None:
        index = tensor.Buffer()
        if not 0 <= index < model.BuffersLength():
            raise ValueError(f"buffer {index} of {model.BuffersLength()}")
        buffer = model.Buffers(index)
        if not buffer.DataLength():
            return None
        kind = _KINDS.get(stored)
        if kind is None:
            return None
        raw = np.asarray(buffer.DataAsNumpy(), np.uint8).tobytes()
        return np.frombuffer(raw, kind).reshape(shape)

    def _real(self, tensor: Any, data: Array) -> Array:
        """Dequantized in double, rounded once: an int32 bias does not fit a float32."""
        about = tensor.Quantization()
        scales = self._scales(tensor).astype(np.float64)
        zeros = np.asarray(about.ZeroPointAsNumpy() if about.ZeroPointLength() else 0, np.float64)
        if scales.size > 1 or zeros.size > 1:
            axis = about.QuantizedDimension()
            shape = [1] * data.ndim
            shape[axis] = data.shape[axis]
            scales = np.broadcast_to(scales, (data.shape[axis],)).reshape(shape)
            zeros = np.broadcast_to(zeros, (data.shape[axis],)).reshape(shape)
        return np.asarray((scales * (data - zeros)).reshape(data.shape), np.float32)

    def _op(self, model: Any, op: Any) -> LiteOp:
        if not 0 <= op.OpcodeIndex() < model.OperatorCodesLength():
            raise ValueError(f"operator code {op.OpcodeIndex()}")
        code = model.OperatorCodes(op.OpcodeIndex())
        # Old files have the code in the deprecated byte, new ones in both where it fits.
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = self.codes.get(number, f"operator {number}")
        if name == "CUSTOM":
            name = f"custom '{(code.CustomCode() or b'').decode('utf-8', 'replace')}'"
        return LiteOp(
            name,
            self._ints(op.InputsLength, op.InputsAsNumpy),
            self._ints(op.OutputsLength, op.OutputsAsNumpy),
            self._options(name, op),
        )

    def _options(self, name: str, op: Any) -> Mapping[str, Any]:
        if name not in _OPTIONS:
            return {}
        kind, fields = _OPTIONS[name]
        table = op.BuiltinOptions()
        if table is None or op.BuiltinOptionsType() != getattr(self.schema.BuiltinOptions, kind):
            return {field: _DEFAULTS.get(field, 0) for field in fields.split()}
        options = getattr(self.schema, kind)()
        options.Init(table.Bytes, table.Pos)
        return {field: getattr(options, field)() for field in fields.split()}


_KINDS: Mapping[str, npt.DTypeLike] = MappingProxyType(
    {
        "FLOAT32": np.dtype("<f4"),
        "FLOAT16": np.dtype("<f2"),
        "FLOAT64": np.dtype("<f8"),
        "INT8": np.dtype("i1"),
        "UINT8": np.dtype("u1"),
        "INT16": np.dtype("<i2"),
        "INT32": np.dtype("<i4"),
        "INT64": np.dtype("<i8"),
        "BOOL": np.dtype("?"),
    }
)


def _widened(data: Array | None) -> Array | None:
    """float32, int64 or bool, whatever the file stores."""
    if data is None or data.dtype == np.bool_:
        return data
    return data.astype(np.float32 if data.dtype.kind == "f" else np.int64)
