"""A TensorFlow Lite graph on its way to ONNX: names, constants, layouts, and the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from poet_mcu.errors import ModelError
from poet_mcu.frontend.tflite_file import Array, LiteFile, LiteOp

#: the end of an axis whatever its size (ONNX Operators, Slice)
TO_THE_END = 2**63 - 1
_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
#: ActivationFunctionType of the schema: ONNX operator, its bounds for Clip. TensorFlow Lite's own
#: kernels leave Tanh and the sign bit out without a word, so that what is meant is not known.
_ACTIVATIONS: dict[int, tuple[str, tuple[float, ...]]] = {
    1: ("Relu", ()),
    2: ("Clip", (-1.0, 1.0)),
    3: ("Clip", (0.0, 6.0)),
}


@dataclass(slots=True)
class Lite:
    """ONNX nodes under construction, in channels-last order with Transposes where ONNX wants.

    The file's batch of 1 stays open (``free``) as long as every operator treats samples apart;
    the first that does not is noted in ``bound``.
    """

    file: LiteFile
    free: bool
    bound: str = ""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    stored: dict[str, Array] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)
    _same: dict[int, int] = field(default_factory=dict)
    _layout: dict[int, str] = field(default_factory=dict)
    _numbers: dict[tuple[str, bytes], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for i, tensor in enumerate(self.file.tensors):
            self._names.append(self.fresh(tensor.name or f"tensor_{i}"))

    def fresh(self, base: str) -> str:
        """A name that nothing has yet."""
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def name(self, index: int) -> str:
        """The ONNX name of a tensor."""
        return self._names[self.source(index)]

    def source(self, index: int) -> int:
        """The stored tensor behind a dequantized copy of it."""
        return self._same.get(index, index)

    def alias(self, index: int, source: int) -> None:
        """Tensor ``index`` is ``source``, which is stored."""
        self._same[index] = self.source(source)

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape in the file."""
        return self.file.tensors[index].shape

    def data(self, index: int) -> Array | None:
        """The elements of a stored tensor, None for a computed one."""
        return self.file.tensors[self.source(index)].data

    def ints(self, index: int, what: str) -> list[int]:
        """The elements of a stored tensor of integers."""
        found = self.data(index)
        if found is None or found.dtype != np.int64:
            raise ModelError(f"expected {what} as stored integers, got none; convert again")
        return [int(i) for i in found.ravel()]

    def operand(self, index: int) -> str:
        """The name of a tensor, stored or computed, in the layout of the file."""
        found = self.data(index)
        if found is None:
            return self.name(index)
        return self.weight(index, "as it is", lambda array: array)

    def weight(self, index: int, layout: str, turn: Callable[[Array], Array]) -> str:
        """The name of a stored tensor in the order of axes that ``turn`` makes."""
        found = self.data(index)
        if found is None:
            raise ModelError(
                f"expected '{self.name(index)}' as a stored tensor, got a computed one; "
                "convert again"
            )
        known = self._layout.setdefault(self.source(index), layout)
        if known != layout:
            raise ModelError(
                f"expected '{self.name(index)}' to be read in one layout, got it {known} and "
                f"{layout}; store it twice"
            )
        name = self.name(index)
        self.stored[name] = np.array(turn(found), order="C")
        return name

    def number(self, value: float | Sequence[int], base: str) -> str:
        """A constant of ours: a float without axes, or a row of integers."""
        array = np.asarray(value, np.float32 if isinstance(value, float) else np.int64)
        key = (str(array.dtype), array.tobytes())
        if key not in self._numbers:
            self._numbers[key] = self.fresh(f"{base}/number")
            self.stored[self._numbers[key]] = array
        return self._numbers[key]

    def add(self, op: str, inputs: Sequence[str], like: str, output: str = "", **attrs: Any) -> str:
        """A node; the name of its output, ``output`` or one made from ``like``."""
        made = output or self.fresh(f"{like}/{op.lower()}")
        self.nodes.append(helper.make_node(op, list(inputs), [made], name=made, **attrs))
        return made

    def activated(self, name: str, op: LiteOp, output: str = "") -> str:
        """What the operator's fused activation makes of ``name``."""
        fused = op.options.get("FusedActivationFunction", 0)
        if not fused:
            return self.add("Identity", [name], output, output) if output else name
        if fused not in _ACTIVATIONS:
            raise ModelError(f"expected Relu or Relu6 as fused activation, got {fused}")
        kind, bounds = _ACTIVATIONS[fused]
        numbers = [self.number(bound, self.name(op.outputs[0])) for bound in bounds]
        return self.add(kind, [name, *numbers], self.name(op.outputs[0]), output)

    def split(self, name: str, outputs: Sequence[str], sizes: Sequence[int], axis: int) -> None:
        """Parts of ``name`` along an axis, each an output."""
        numbers = self.number(list(sizes), outputs[0])
        self.nodes.append(
            helper.make_node("Split", [name, numbers], outputs, name=outputs[0], axis=axis)
        )

    def result(self, op: LiteOp, kind: str, inputs: Sequence[str], **attrs: Any) -> None:
        """A node of ONNX, behind it the fused activation; the output of ``op``."""
        output = self.name(op.outputs[0])
        if not op.options.get("FusedActivationFunction", 0):
            self.add(kind, inputs, output, output, **attrs)
            return
        self.activated(self.add(kind, inputs, output, **attrs), op, output)

    def channels_first(self, index: int, rank: int = 4) -> str:
        """An operand [N, H, W, C] as [N, C, H, W]."""
        if len(self.shape(index)) != rank:
            raise ModelError(f"expected [N, H, W, C], got {list(self.shape(index))}")
        name = self.operand(index)
        return self.add("Transpose", [name], name, perm=_TO_NCHW)

    def channels_last(self, op: LiteOp, name: str) -> None:
        """The output of ``op`` from ``name`` [N, C, H, W], after the fused activation."""
        output = self.name(op.outputs[0])
        self.add("Transpose", [self.activated(name, op)], output, output, perm=_TO_NHWC)

    def reshape(self, op: LiteOp, name: str, rows: bool) -> None:
        """The output of ``op`` from ``name`` by its shape; ``rows``: samples stay apart."""
        shape = list(self.shape(op.outputs[0]))
        self.apart(rows and bool(shape) and shape[0] == 1, op)
        if self.free and shape:
            shape[0] = -1
        output = self.name(op.outputs[0])
        self.add("Reshape", [name, self.number(shape, output)], output, output)

    def apart(self, samples: bool, op: LiteOp) -> None:
        """Note whether ``op`` treats samples apart."""
        if not samples and not self.bound:
            self.bound = f"{op.name} '{self.name(op.outputs[0])}'"

    def initializers(self) -> list[onnx.TensorProto]:
        """All constants."""
        return [numpy_helper.from_array(array, name) for name, array in self.stored.items()]
