"""ONNX's own backend tests as cases for the generated C: which count, what goes in at run time.

Our programs have one input and one output. A case with several float32 inputs gets them in one
vector, which Slice and Reshape take apart on the board; several outputs leave in one vector, which
Reshape and Concat make. Everything between is the model of the case as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.version_converter
from onnx import TensorProto, helper, numpy_helper

from poet_mcu.frontend.model_file import OLDEST_OPSET

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
#: the operators of the plan; cases of others are not counted
_NAMES = """
    Abs Add AveragePool BatchNormalization Cast Celu Clip Concat Constant ConstantOfShape Conv
    ConvTranspose DepthToSpace Div Dropout Elu Erf Exp Expand Flatten Gather Gelu Gemm
    GlobalAveragePool GlobalMaxPool GroupNormalization GRU HardSigmoid HardSwish Identity
    InstanceNormalization LayerNormalization LeakyRelu Log LogSoftmax LSTM MatMul Max MaxPool Mean
    Min Mish Mul Neg Pad Pow PRelu Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare Relu Reshape Resize RNN Selu Shape
    Shrink Sigmoid Slice Softmax Softplus Softsign Split Sqrt Squeeze Sub Sum Swish Tanh
    ThresholdedRelu Transpose Unsqueeze Where
"""
OPERATORS = frozenset(_NAMES.split())
Array = npt.NDArray[Any]
_PACKED = "all_inputs"
_RESULT = "all_outputs"


@dataclass(frozen=True)
class Case:
    """One test: a model, arrays for its real inputs, and what it must give."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    y: Sequence[Array]
    rtol: float
    atol: float

    @property
    def floats(self) -> tuple[str, ...]:
        """Inputs that may be given at run time."""
        return tuple(n for n, a in self.inputs.items() if a.dtype == np.float32)

    @property
    def flat(self) -> Array:
        """The expected outputs one after the other."""
        return np.concatenate([array.ravel() for array in self.y])


@dataclass(frozen=True)
class Runnable:
    """A case as a model of one input, whose array is ``x``, and one output."""

    case: Case
    model: onnx.ModelProto
    x: Array
    live: tuple[str, ...]


@cache
def cases() -> Mapping[str, Case]:
    """Every case with float32 outputs, static shapes and operators of the plan."""
    found = {}
    for test in _loaded():
        if not {node.op_type for node in test.model.graph.node} <= OPERATORS:
            continue
        made = _case(test)
        if made is not None:
            found[made.name] = made
    return found


def _loaded() -> Iterator[Any]:
    from onnx.backend.test.loader import load_model_tests  # noqa: PLC0415 - takes seconds

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        tests = [(kind, t) for kind in KINDS for t in load_model_tests(kind=kind)]
    for kind, test in tests:
        name = f"{kind}/{test.name.removeprefix('test_')}"
        model = test.model or _recent(onnx.load(Path(test.model_dir) / "model.onnx"))
        data = test.data_sets or [_stored_data(Path(test.model_dir))]
        yield replace(test, name=name, model=model, data_sets=data)


def _recent(model: onnx.ModelProto) -> onnx.ModelProto:
    """Models before opset 7 by onnx's own converter, as our refusal of them advises."""
    if all(item.version >= OLDEST_OPSET for item in model.opset_import if not item.domain):
        return model
    try:
        return onnx.version_converter.convert_version(model, OLDEST_OPSET)
    except (RuntimeError, ValueError, onnx.version_converter.ConvertError):
        return model


def _stored_data(folder: Path) -> tuple[list[Array], list[Array]]:
    sides = []
    for side in ("input", "output"):
        files = sorted(
            (folder / "test_data_set_0").glob(f"{side}_*.pb"),
            key=lambda path: int(path.stem.rsplit("_", 1)[1]),
        )
        sides.append([numpy_helper.to_array(onnx.load_tensor(path)) for path in files])
    return sides[0], sides[1]


def _case(test: Any) -> Case | None:
    """The case; None when its outputs are not float32 tensors or it has no float32 input."""
    inputs, outputs = test.data_sets[0]
    arrays = [a for a in (*inputs, *outputs) if isinstance(a, np.ndarray | np.generic)]
    if len(arrays) < len(inputs) + len(outputs):
        return None
    if any(np.asarray(y).dtype != np.float32 for y in outputs):
        return None
    graph = test.model.graph
    stored = {tensor.name for tensor in graph.initializer}
    names = [info.name for info in graph.input if info.name not in stored]
    named = {n: np.asarray(a) for n, a in zip(names, inputs, strict=False)}
    y = [np.asarray(array) for array in outputs]
    made = Case(test.name, test.model, named, y, test.rtol, test.atol)
    return made if any(named[name].ndim for name in made.floats) else None


def runnable(case: Case, live: Sequence[str], *, negate: bool = False) -> Runnable:
    """The case with ``live`` inputs given at run time and the other ones stored.

    With ``negate`` the one input passes a Neg first: for models that only show it in another
    shape, which would be programs without an operator.
    """
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    opset = max(item.version for item in model.opset_import if not item.domain)
    for name, array in case.inputs.items():
        if name not in live:
            graph.initializer.append(numpy_helper.from_array(array, name))
    kept = [info for info in graph.input if info.name not in live]
    del graph.input[:]
    graph.input.extend(kept)
    model.ir_version = max(model.ir_version, 4)  # stored tensors need be no inputs
    before: list[onnx.NodeProto] = []
    if len(live) == 1 and case.inputs[live[0]].ndim:
        x = case.inputs[live[0]]
        source = "negated_input" if negate else live[0]
        if negate:
            before, x = [helper.make_node("Neg", [source], [live[0]])], -x
    else:
        source = _PACKED
        x = np.concatenate([case.inputs[name].ravel() for name in live])
        before = _unpacked(graph, {name: case.inputs[name] for name in live}, opset)
    graph.input.append(helper.make_tensor_value_info(source, TensorProto.FLOAT, x.shape))
    after = _joined(graph) if len(graph.output) > 1 else []
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return Runnable(case, model, x, tuple(live))


def _unpacked(
    graph: onnx.GraphProto, arrays: Mapping[str, Array], opset: int
) -> list[onnx.NodeProto]:
    """Nodes that take the vector of all inputs apart."""
    nodes, start = [], 0
    for name, array in arrays.items():
        flat, end = f"{name}_flat", start + array.size
        if opset < 10:
            bounds = {"starts": [start], "ends": [end], "axes": [0]}
            made = helper.make_node("Slice", [_PACKED], [flat], **bounds)
        else:
            where = [_ints(graph, f"{flat}_{i}", [n]) for i, n in enumerate((start, end, 0))]
            made = helper.make_node("Slice", [_PACKED, *where], [flat])
        shape = _ints(graph, f"{name}_shape", array.shape)
        nodes += [made, helper.make_node("Reshape", [flat, shape], [name])]
        start = end
    return nodes


def _joined(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Nodes that put all outputs into one vector, which becomes the only output."""
    shape = _ints(graph, f"{_RESULT}_shape", [-1])
    names = [info.name for info in graph.output]
    nodes = [helper.make_node("Reshape", [name, shape], [f"{name}_row"]) for name in names]
    nodes.append(helper.make_node("Concat", [f"{n}_row" for n in names], [_RESULT], axis=0))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(_RESULT, TensorProto.FLOAT, [None]))
    return nodes


def _ints(graph: onnx.GraphProto, name: str, numbers: Sequence[int]) -> str:
    graph.initializer.append(numpy_helper.from_array(np.asarray(numbers, np.int64), name))
    return name
