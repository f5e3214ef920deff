"""The state of an import: what each ONNX name stands for, and the questions handlers ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.checks import check_float_tensor, check_size
from poet_mcu.frontend.problems import SkipNode
from poet_mcu.ir.graph import Attr, DType, Role, TensorType, Value
from poet_mcu.ops.builder import GraphBuilder
from poet_mcu.ops.table import OPERATORS

Array = npt.NDArray[np.generic]
_SPELLED = {DType.F32: "float32", DType.I32: "integer", DType.U8: "boolean"}


@dataclass(frozen=True, slots=True)
class Active:
    """An ONNX name that stands for a value computed on the board (or the input)."""

    value: Value


@dataclass(frozen=True, slots=True)
class Tensor:
    """An ONNX name whose elements are known at build time.

    ``sources`` are the stored float tensors the elements come from. ``change`` is '' when the
    bytes are exactly those of the one source (a reshape keeps them), else it says what was done
    to them. ``transposed_from`` is the stored tensor when this one is its 2-D transpose.
    ``made_by`` is the node that did it, which the board runs when a source is trained.
    """

    array: Array
    sources: tuple[str, ...] = ()
    change: str = ""
    transposed_from: Tensor | None = None
    made_by: onnx.NodeProto | None = None

    def changed(self, array: Array, how: str) -> Tensor:
        """The same sources with other elements; ``how`` completes 'got it ...'."""
        change = f"{self.change} and {how}" if self.change else how
        return Tensor(np.asarray(array), self.sources, change)


@dataclass(frozen=True, slots=True)
class Pending:
    """A matrix product or convolution without bias that waits for the Add which brings one."""

    op: str
    inputs: tuple[Value, ...]
    attrs: Mapping[str, Attr]
    channels: int
    out_shape: tuple[int, ...]
    name: str
    origin: str


@dataclass(frozen=True, slots=True)
class SoftmaxOf:
    """The output of a Softmax or Sigmoid: left to the loss as the model's output, else computed."""

    logits: Value
    out_shape: tuple[int, ...]
    label: str
    compute: Callable[[], Value]
    op: str = "Softmax"


@dataclass(frozen=True, slots=True)
class Transposed:
    """``value`` with its axes in the order ``perm``: left out where the model turns it back."""

    value: Value
    perm: tuple[int, ...]
    compute: Callable[[], Value]


Entry = Active | Tensor | Pending | SoftmaxOf | Transposed


@dataclass(slots=True)
class Context:
    """Everything known while the nodes are walked in order."""

    builder: GraphBuilder
    opset: int
    trainable: Callable[[str], bool]
    batchnorm: str = "auto"
    dropout: str = "model"
    seed: int = 0
    dropouts: int = 0
    env: dict[str, Entry] = field(default_factory=dict)
    consumers: dict[str, list[onnx.NodeProto]] = field(default_factory=dict)
    static: set[str] = field(default_factory=set)
    outputs: frozenset[str] = frozenset()
    weights: dict[str, Value | None] = field(default_factory=dict)
    identity_copies: dict[str, str] = field(default_factory=dict)
    #: weights of one element that only arithmetic reads: more often a formula's than learned
    numbers: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    fuse_softmax: bool = True
    fuse_sigmoid: bool = False
    #: lowers a node whose operands are values; None when the board cannot compute it
    lower_computed: Callable[[Context, onnx.NodeProto], Value] | None = None
    _computed: dict[str, Value] = field(default_factory=dict)
    _tracked: set[str] = field(default_factory=set)
    _constants: dict[str, Value] = field(default_factory=dict)

    def entry(self, name: str) -> Entry:
        """What ``name`` stands for; SkipNode when its producer was refused."""
        found = self.env.get(name)
        if found is None:
            raise SkipNode
        return found

    def activation(self, name: str, dtype: DType = DType.F32) -> Value:
        """The value of ``name``, which must be computed on the board, and of type ``dtype``."""
        value = self.computed(name)
        if value.type.dtype is not dtype:
            raise ModelError(
                f"expected a value of type {_SPELLED[dtype]}, got '{name}' of type "
                f"{_SPELLED[value.type.dtype]}; indices serve Gather, comparisons Where alone"
            )
        return value

    def computed(self, name: str) -> Value:
        """The value of ``name``: the input, computed from it, or trained; any type."""
        found = self.entry(name)
        if isinstance(found, Pending):
            found = Active(self.materialize(found))
            self.env[name] = found
        if isinstance(found, SoftmaxOf | Transposed):
            found = Active(found.compute())
            self.env[name] = found
        if isinstance(found, Tensor):
            if found.sources:
                return self.weight(name, found)
            raise ModelError(
                "expected a value that depends on the input or a weight, got the constant "
                f"'{name}'; fold it before export"
            )
        return found.value

    def tensor(self, name: str, what: str) -> Tensor:
        """The elements of ``name``, which must be known at build time; ``what`` is its part."""
        found = self.entry(name)
        if not isinstance(found, Tensor):
            raise ModelError(
                f"expected {what} as an initializer or constant, got '{name}', which is computed; "
                "export with fixed values"
            )
        return found

    def ints(self, name: str, what: str) -> tuple[int, ...]:
        """The integers of ``name``, flattened."""
        array = self.tensor(name, what).array
        if array.dtype.kind not in "iu":
            raise ModelError(f"expected integers as {what}, got {array.dtype} in '{name}'")
        return tuple(int(i) for i in array.ravel())

    def weight(self, name: str, tensor: Tensor, shape: tuple[int, ...] | None = None) -> Value:
        """A parameter or constant with the elements of ``tensor``, made once per stored tensor."""
        array = tensor.array if shape is None else tensor.array.reshape(shape)
        check_float_tensor(name, array)
        trained = self.trained(tensor)
        if tensor.change and trained:
            return self.builder.view(self._recomputed(tensor, trained[0]), array.shape, name)
        if not trained:
            return self._constant(name, tensor, array)
        origin = tensor.sources[0]
        known = self.weights[origin]
        if known is None:
            known = self.builder.value(
                origin, TensorType(array.shape), Role.PARAMETER, origin, array
            )
            self.weights[origin] = known
        if known.shape != array.shape:
            raise ModelError(
                f"expected the trained tensor '{origin}' in one shape, got {list(array.shape)} "
                f"here and {list(known.shape)} before; store it twice or freeze it "
                f"(--freeze '{origin}')"
            )
        return known

    def _recomputed(self, tensor: Tensor, trained: str) -> Value:
        """``tensor``, which was folded from trained ones, computed from them in every step."""
        node = tensor.made_by
        if node is None or self.lower_computed is None:
            raise ModelError(
                f"expected the trained tensor '{trained}' as it is stored, got it "
                f"{tensor.change}; fold this into the tensor before export, or freeze it "
                f"(--freeze '{trained}')"
            )
        name = node.output[0]
        if name not in self._computed:
            folded = {key: self.entry(key) for key in (*node.input, name) if key}
            for key, found in folded.items():
                if key != name and isinstance(found, Tensor) and self.trained(found):
                    self.env[key] = Active(self.weight(key, found))
            self._computed[name] = self.lower_computed(self, node)
            self.env.update(folded)
        return self._computed[name]

    def fixed(self, name: str, tensor: Tensor) -> Value:
        """A constant that is no weight (running statistics)."""
        check_float_tensor(name, tensor.array)
        return self._constant(name, tensor, tensor.array)

    def statistic(self, name: str, tensor: Tensor) -> Value:
        """A value that the step tracks, from ``tensor`` on; each needs a stored tensor of its own.

        It is written back to the file by its name, like a trained weight.
        """
        check_float_tensor(name, tensor.array)
        origin = tensor.sources[0] if tensor.sources else name
        if tensor.change or not tensor.sources or origin in self.weights or origin in self._tracked:
            raise ModelError(
                f"expected running statistics stored for this node alone, got '{name}', which is "
                "computed or used elsewhere; export again, or choose --batchnorm frozen"
            )
        self._tracked.add(origin)
        kind = TensorType(tensor.array.shape)
        return self.builder.value(origin, kind, Role.STATISTIC, origin, tensor.array)

    def trained(self, tensor: Tensor) -> list[str]:
        """Those stored tensors behind ``tensor`` that are trained; all are noted as weights."""
        for source in tensor.sources:
            self.weights.setdefault(source, None)
        return [source for source in tensor.sources if self.trainable(source)]

    def _constant(self, name: str, tensor: Tensor, array: Array) -> Value:
        # Only tensors as they are stored are shared: two changes of one tensor are two tensors.
        if tensor.change:
            return self.builder.value(name, TensorType(array.shape), Role.CONSTANT, "", array)
        origin = tensor.sources[0] if tensor.sources else ""
        return self._shared(origin or name, origin, TensorType(array.shape), array)

    def _shared(self, key: str, origin: str, kind: TensorType, array: Array) -> Value:
        """The one constant for ``key``, seen in the shape of ``kind``."""
        found = self._constants.get(key)
        if found is None or found.type.nbytes != kind.nbytes:
            found = self.builder.value(key, kind, Role.CONSTANT, origin, array)
            self._constants[key] = found
        return self.builder.view(found, kind.shape, f"{key}_view")

    def mask(self, name: str) -> Value:
        """The booleans of ``name`` as bytes 0 and 1: a constant or the result of a comparison."""
        found = self.entry(name)
        if not isinstance(found, Tensor):
            return self.activation(name, DType.U8)
        array = found.array
        if array.dtype != np.bool_:
            raise ModelError(f"expected a condition of booleans, got {array.dtype}; export again")
        kind = TensorType(array.shape, DType.U8)
        return self._shared(f"{name}_mask", "", kind, array.astype(np.uint8))

    def indices(self, name: str, rows: int) -> Value:
        """The int32 row numbers of ``name``: a constant, or the model's integer input."""
        found = self.entry(name)
        if not isinstance(found, Tensor):
            return self.activation(name, DType.I32)
        numbers = np.asarray(self.ints(name, "indices"), np.int64).reshape(found.array.shape)
        outside = numbers[(numbers < -rows) | (numbers >= rows)]
        if outside.size:
            raise ModelError(
                f"expected indices in {-rows}..{rows - 1}, got {int(outside.ravel()[0])} in "
                f"'{name}'; repair the model"
            )
        kind = TensorType(numbers.shape, DType.I32)
        return self._shared(f"{name}_rows", "", kind, numbers.astype(np.int32))

    def materialize(self, pending: Pending, bias: Value | None = None) -> Value:
        """Emit a waiting product, with the bias that was found or without."""
        inputs = pending.inputs if bias is None else (*pending.inputs, bias)
        value = self.builder.emit(
            pending.op, inputs, pending.attrs, pending.name, origin=pending.origin
        )[0]
        check_size(value.name, value.shape)
        return self.builder.view(value, pending.out_shape, f"{pending.name}_view")

    def emit(
        self, node: onnx.NodeProto, op: str, inputs: Iterable[Value], attrs: Mapping[str, Attr]
    ) -> Value:
        """Append a node of ours for ``node``; its first output becomes that of ``node``."""
        name = node.output[0]
        outputs = self.builder.emit(op, tuple(inputs), attrs, name, origin=node.name or name)
        for value in outputs:
            check_size(value.name, value.shape)
        self.env[name] = Active(outputs[0])
        return outputs[0]

    def operand(self, name: str) -> Value:
        """The value of ``name``: computed on the board, or a stored weight."""
        found = self.entry(name)
        return self.weight(name, found) if isinstance(found, Tensor) else self.activation(name)

    def emit_as(
        self,
        node: onnx.NodeProto,
        op: str,
        inputs: Iterable[Value],
        attrs: Mapping[str, Attr],
        shape: tuple[int, ...],
    ) -> None:
        """``emit``; the node's output is the result seen under ``shape``."""
        value = self.emit(node, op, inputs, attrs)
        self.show(node, value, shape)

    def show(self, node: onnx.NodeProto, value: Value, shape: tuple[int, ...]) -> Value:
        """The node's output is ``value`` under ``shape``: no bytes move."""
        name = node.output[0]
        view = self.builder.view(value, shape, f"{name}_view")
        self.env[name] = Active(view)
        return view

    def infer(self, op: str, inputs: Iterable[Value], attrs: Mapping[str, Attr]) -> tuple[int, ...]:
        """Shape of the first output ``op`` would have; raises ModelError when it does not fit."""
        shape = OPERATORS[op].infer([value.type for value in inputs], attrs)[0].shape
        check_size(op, shape)
        return shape

    def waits_for_bias(self, node: onnx.NodeProto) -> bool:
        """True when the one consumer of ``node`` is an Add with a tensor known at build time."""
        name = node.output[0]
        users = self.consumers.get(name, [])
        if name in self.outputs or len(users) != 1 or users[0].op_type != "Add":
            return False
        others = [other for other in users[0].input if other != name]
        return len(others) == 1 and others[0] in self.static


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """The attribute as int, float, str, TensorProto or tuple; ``default`` when absent."""
    for item in node.attribute:
        if item.name == name:
            found = onnx.helper.get_attribute_value(item)
            if isinstance(found, bytes):
                return found.decode("utf-8", "replace")
            return tuple(found) if isinstance(found, list) else found
    return default


def reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The same bytes under another shape."""
    return replace(tensor, array=tensor.array.reshape(shape), transposed_from=None)
