"""What a golden vector is made of. Nothing here needs PyTorch: a case is handed the module."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import models
import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

Array = npt.NDArray[Any]
#: (torch, torch.nn.functional, the operators' input, tensors by name) -> output
Torch = Callable[[ModuleType, Any, Any, Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Case:
    """``nodes`` lead from ``h`` to ``y``; ``torch`` does the same on tensors.

    ``h`` is the input x plus the trained tensor ``shift``, so that the gradient of ``shift`` is
    that of the operators' input. ``x`` is a shape to be filled with normal numbers or the input
    itself; one of integers is read by the nodes directly, as ``x``. ``fixed`` names the float
    tensors that are not trained. ``recipe`` and ``batchnorm`` are the options of those names. With
    ``steps`` losses and weights of that many steps are compared, without them the gradients of
    one. ``exp``: an exp-like function lies on the way.
    """

    nodes: Sequence[onnx.NodeProto]
    x: Sequence[int] | Array
    torch: Torch
    tensors: Mapping[str, Array] = field(default_factory=dict)
    opset: int = 17
    exp: bool = False
    fixed: tuple[str, ...] = ()
    recipe: Mapping[str, Any] = field(default_factory=dict)
    batchnorm: str = "auto"
    steps: int = 0

    def input(self, name: str) -> Array:
        """The input; ``name`` seeds it."""
        if isinstance(self.x, np.ndarray):
            return self.x
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        return rng.standard_normal(tuple(self.x)).astype(np.float32)

    def model(self, name: str, output: Sequence[int]) -> onnx.ModelProto:
        """The ONNX model, with an output of that shape."""
        x = self.input(name)
        nodes, tensors = list(self.nodes), dict(self.tensors)
        if x.dtype == np.float32:
            nodes.insert(0, models.node("Add", "x shift", "h", "shift"))
            tensors["shift"] = np.zeros(x.shape, np.float32)
        made = models.model(nodes, x.shape, tensors, y=list(output), opset=self.opset)
        if x.dtype != np.float32:
            kind = helper.np_dtype_to_tensor_dtype(x.dtype)
            made.graph.input[0].type.tensor_type.elem_type = kind
        if not output:
            made.graph.output[0].CopyFrom(models.info("y", [], TensorProto.FLOAT))
        return made

    def meta(self) -> str:
        """All that the model and the arrays do not say, as JSON."""
        recipe = {"loss": "mse", **self.recipe}
        return json.dumps(
            {
                "recipe": recipe,
                "batchnorm": self.batchnorm,
                "fixed": self.fixed,
                "steps": self.steps,
                "tolerance": 1e-4 if self.exp else 1e-5,
            },
            sort_keys=True,
        )


def positive(*shape: int, seed: int = 0) -> Array:
    """Numbers in 0.5..2.5."""
    rng = np.random.default_rng([seed, *shape])
    return (0.5 + 2 * rng.random(shape)).astype(np.float32)


def ints(*values: int) -> Array:
    """A row of int64."""
    return np.asarray(values, np.int64)


def number(value: float) -> Array:
    """A float without axes."""
    return np.asarray(value, np.float32)
