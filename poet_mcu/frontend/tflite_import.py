"""TensorFlow Lite to an ONNX model in memory, which then goes the way of every ONNX model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from poet_mcu.errors import ModelError
from poet_mcu.frontend import tflite_moves, tflite_ops
from poet_mcu.frontend.problems import Problem, UnsupportedModel
from poet_mcu.frontend.tflite_file import LiteFile, LiteOp, read_tflite
from poet_mcu.frontend.tflite_graph import Lite
from poet_mcu.version import __version__

_RULES = {**tflite_ops.RULES, **tflite_moves.RULES}
_OPSET, _IR = 20, 9
_ELEMENTS = {"INT32": TensorProto.INT64, "INT64": TensorProto.INT64, "BOOL": TensorProto.BOOL}
#: key in the ONNX model's metadata: the batch that the file itself has
BATCH_KEY = "poet_mcu.batch"


def onnx_of_tflite(path: Path, data: bytes) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """The model in ``data`` as ONNX, and sentences for the user.

    Float32 throughout: stored integers are dequantized and the quantization of activations is
    left out. The batch is symbolic where the file leaves it open or every operator treats its
    samples apart. Raises UnsupportedModel with every operator that has no counterpart.
    """
    file = read_tflite(path, data)
    if not file.inputs or not file.outputs:
        raise ModelError(f"{path}: expected an input and an output, got none; convert again")
    lite = Lite(file, _batch_of_one(file))
    _convert(path, lite)
    if lite.free and lite.bound and not file.tensors[file.inputs[0]].any_batch:
        lite = Lite(file, free=False)
        _convert(path, lite)
    return _model(path, lite), _notes(lite)


def _batch_of_one(file: LiteFile) -> bool:
    shapes = [file.tensors[i].shape for i in (*file.inputs, *file.outputs)]
    return all(shape and shape[0] == 1 for shape in shapes)


def _convert(path: Path, lite: Lite) -> None:
    problems: list[Problem] = []
    for index, op in enumerate(lite.file.ops):
        rule = _RULES.get(op.name)
        where = f"node {index} -> '{lite.name(op.outputs[0])}'"
        if rule is None:
            problems.append(Problem(where, op.name, _unsupported(op)))
            continue
        try:
            rule(lite, op)
        except ModelError as error:
            problems.append(Problem(where, op.name, str(error)))
        except (ValueError, IndexError, TypeError, ArithmeticError) as error:
            problems.append(Problem(where, op.name, f"expected consistent shapes, got: {error}"))
        for i in op.outputs:
            _check_sample(lite, op, i)
    if problems:
        raise UnsupportedModel(path, problems)


def _check_sample(lite: Lite, op: LiteOp, index: int) -> None:
    """Real numbers without a leading batch of 1 mean that samples are no longer apart."""
    tensor = lite.file.tensors[index]
    if tensor.is_float and lite.data(index) is None:
        lite.apart(bool(tensor.shape) and tensor.shape[0] == 1, op)


def _unsupported(op: LiteOp) -> str:
    if op.name.startswith("custom 'Flex"):
        hint = "convert without SELECT_TF_OPS"
    elif "LSTM" in op.name or "RNN" in op.name:
        hint = "convert the Keras model to ONNX with tf2onnx instead"
    else:
        hint = f"replace it before conversion; supported are {', '.join(sorted(_RULES))}"
    return f"expected a supported operator, got {op.name}; {hint}"


def _model(path: Path, lite: Lite) -> onnx.ModelProto:
    inputs, outputs = lite.file.inputs, lite.file.outputs
    graph = helper.make_graph(
        lite.nodes,
        path.stem or "tflite",
        _infos(lite, inputs),
        _infos(lite, outputs),
        lite.initializers(),
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR,
        producer_name="poet-mcu from TensorFlow Lite",
        producer_version=__version__,
    )
    if lite.free:
        helper.set_model_props(made, {BATCH_KEY: "1"})
    return made


def _infos(lite: Lite, indices: Sequence[int]) -> list[onnx.ValueInfoProto]:
    found = []
    for i in indices:
        tensor = lite.file.tensors[i]
        shape: list[int | str] = list(tensor.shape)
        if lite.free:
            shape[0] = "batch"
        kind = TensorProto.FLOAT if tensor.is_float else _ELEMENTS.get(tensor.stored, 0)
        found.append(helper.make_tensor_value_info(lite.name(i), kind, shape))
    return found


def _notes(lite: Lite) -> tuple[str, ...]:
    stored = [t for t in lite.file.tensors if t.data is not None]
    whole = sum(t.quantized for t in stored)
    half = sum(t.stored == "FLOAT16" for t in stored)
    computed = sum(t.quantized for t in lite.file.tensors if t.data is None)
    notes = []
    if whole:
        notes.append(f"{whole} quantized tensors were dequantized: training is in float32")
    if computed:
        notes.append(
            f"the quantization of {computed} activations is left out: outputs differ from the "
            "int8 model's by its rounding"
        )
    if half:
        notes.append(f"{half} tensors in float16 were widened to float32")
    if not lite.free and lite.bound:
        notes.append(f"the batch stays as in the file: {lite.bound} does not keep samples apart")
    return tuple(notes)
