"""TensorFlow Lite files made piece by piece, for what the converter does not write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite
from ai_edge_litert.interpreter import Interpreter

Array = npt.NDArray[Any]
_TYPES = {
    "float32": tflite.TensorType.FLOAT32,
    "float16": tflite.TensorType.FLOAT16,
    "int8": tflite.TensorType.INT8,
    "int32": tflite.TensorType.INT32,
    "bool": tflite.TensorType.BOOL,
}


@dataclass(frozen=True)
class T:
    """A tensor; ``scale`` and ``zero`` quantize it, along ``axis`` where there are several."""

    name: str
    shape: Sequence[int]
    kind: str = "float32"
    data: Array | None = None
    scale: Sequence[float] = ()
    zero: Sequence[int] = ()
    axis: int = 0
    variable: bool = False


@dataclass(frozen=True)
class Op:
    """An operator by its name in the schema; ``options`` is (table, fields)."""

    name: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: tuple[str, Mapping[str, Any]] | None = None
    custom: str = ""


@dataclass
class _Writer:
    builder: flatbuffers.Builder = field(default_factory=lambda: flatbuffers.Builder(1024))

    def ints(self, start: Any, values: Sequence[int], wide: bool = False) -> int:
        start(self.builder, len(values))
        for value in reversed(values):
            (self.builder.PrependInt64 if wide else self.builder.PrependInt32)(int(value))
        return self.builder.EndVector()

    def tables(self, start: Any, offsets: Sequence[int]) -> int:
        start(self.builder, len(offsets))
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return self.builder.EndVector()

    def table(self, name: str, fields: Mapping[str, Any]) -> int:
        getattr(tflite, f"{name}Start")(self.builder)
        for key, value in fields.items():
            getattr(tflite, f"{name}Add{key}")(self.builder, value)
        return getattr(tflite, f"{name}End")(self.builder)

    def floats(self, start: Any, values: Sequence[float]) -> int:
        start(self.builder, len(values))
        for value in reversed(values):
            self.builder.PrependFloat32(value)
        return self.builder.EndVector()

    def quantization(self, tensor: T) -> int:
        scale = self.floats(tflite.QuantizationParametersStartScaleVector, tensor.scale)
        start = tflite.QuantizationParametersStartZeroPointVector
        zero = self.ints(start, tensor.zero or [0] * len(tensor.scale), wide=True)
        fields = {"Scale": scale, "ZeroPoint": zero, "QuantizedDimension": tensor.axis}
        return self.table("QuantizationParameters", fields)

    def tensor(self, tensor: T, buffer: int) -> int:
        fields = {
            "Name": self.builder.CreateString(tensor.name),
            "Shape": self.ints(tflite.TensorStartShapeVector, tensor.shape),
            "Type": _TYPES[tensor.kind],
            "Buffer": buffer,
        }
        if tensor.variable:
            fields["IsVariable"] = True
        if tensor.scale:
            fields["Quantization"] = self.quantization(tensor)
        return self.table("Tensor", fields)

    def operator(self, op: Op, code: int) -> int:
        fields = {
            "OpcodeIndex": code,
            "Inputs": self.ints(tflite.OperatorStartInputsVector, op.inputs),
            "Outputs": self.ints(tflite.OperatorStartOutputsVector, op.outputs),
        }
        if op.options:
            kind, values = op.options
            fields["BuiltinOptions"] = self.table(kind, values)
            fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, kind)
        return self.table("Operator", fields)

    def code(self, op: Op) -> int:
        number = getattr(tflite.BuiltinOperator, op.name)
        fields = {"DeprecatedBuiltinCode": min(number, 127), "BuiltinCode": number, "Version": 1}
        if op.custom:
            fields["CustomCode"] = self.builder.CreateString(op.custom)
        return self.table("OperatorCode", fields)


def made(
    tensors: Sequence[T],
    ops: Sequence[Op],
    inputs: Sequence[int],
    outputs: Sequence[int],
    version: int = 3,
    subgraphs: int = 1,
) -> bytes:
    """The bytes of a file with one graph (or the same one several times)."""
    w = _Writer()
    buffers = [w.table("Buffer", {})]
    numbers = []
    for tensor in tensors:
        numbers.append(0 if tensor.data is None else len(buffers))
        if tensor.data is not None:
            data = w.builder.CreateByteVector(tensor.data.tobytes())
            buffers.append(w.table("Buffer", {"Data": data}))
    made_tensors = [w.tensor(t, n) for t, n in zip(tensors, numbers, strict=True)]
    made_ops = [w.operator(op, i) for i, op in enumerate(ops)]
    fields = {
        "Tensors": w.tables(tflite.SubGraphStartTensorsVector, made_tensors),
        "Inputs": w.ints(tflite.SubGraphStartInputsVector, inputs),
        "Outputs": w.ints(tflite.SubGraphStartOutputsVector, outputs),
        "Operators": w.tables(tflite.SubGraphStartOperatorsVector, made_ops),
    }
    graph = w.table("SubGraph", fields)
    codes = [w.code(op) for op in ops]
    model = {
        "Version": version,
        "OperatorCodes": w.tables(tflite.ModelStartOperatorCodesVector, codes),
        "Subgraphs": w.tables(tflite.ModelStartSubgraphsVector, [graph] * subgraphs),
        "Buffers": w.tables(tflite.ModelStartBuffersVector, buffers),
    }
    w.builder.Finish(w.table("Model", model), b"TFL3")
    return bytes(w.builder.Output())


def interpreted(data: bytes, x: Array) -> Array:
    """The interpreter's output for one input."""
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
