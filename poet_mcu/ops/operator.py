"""What every operator must tell: shape rule, numpy reference, gradient rule, cost, kernel.

One operator is one Python file beside this one and one C file in ``firmware/kernels``; the file
defines the forward operator and its backward operators and lists them in ``OPERATORS``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import Attr, Node, TensorType, Value

Attrs = Mapping[str, Attr]
Array = npt.NDArray[np.generic]
Types = Sequence[TensorType]


@dataclass(frozen=True, slots=True)
class Cost:
    """Features of one run of an operator that a board's table turns into seconds.

    ``family`` names the row of the board's cost table: conv_fwd, conv_bwd_x, conv_bwd_w,
    dense_fwd, dense_bwd, pool, elementwise, loss, update. ``like`` is the row to take where a board
    has none of ``family``, which then is one that not every board has: conv_general, conv_packed.
    ``macs`` multiply-adds, ``elements`` outputs written, ``transcendental`` calls of exp, log and
    their like, ``calls`` of the kernel for one node. ``then`` is what a node does besides.
    """

    family: str
    macs: int = 0
    elements: int = 0
    transcendental: int = 0
    calls: int = 1
    then: Cost | None = None
    like: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """How C calls the operator: ``function(&descriptor, args...)``.

    ``descriptor`` is the C struct type ('' when the kernel takes none) and ``fields`` its
    initializers in order. ``args`` are 'in0', 'out1', 'ws' (workspace pointer), 'null' and
    what the trainer knows of the step: 'lr' (its learning rate), 'bias1', 'bias2' (1 - beta^n at
    the optimizer's n-th update) and 'step' (the steps done before), in the order of the C
    prototype.
    """

    function: str
    source: str
    args: tuple[str, ...]
    descriptor: str = ""
    fields: tuple[tuple[str, int | float], ...] = ()


def ints(attrs: Attrs, key: str) -> tuple[int, ...]:
    """An attribute as a tuple of ints (a single int as a tuple of one)."""
    value = attrs[key]
    if isinstance(value, int):
        return (value,)
    if isinstance(value, tuple):
        return value
    raise InternalError(f"attribute {key}: expected ints, got {value!r}")


def variant_of(attrs: Attrs) -> str:
    """The form of its kernel that a node takes; '' for the one that is always there."""
    return str(attrs.get("variant", ""))


def number(attrs: Attrs, key: str) -> float:
    """An attribute as a float."""
    value = attrs[key]
    if isinstance(value, (int, float)):
        return float(value)
    raise InternalError(f"attribute {key}: expected a number, got {value!r}")


def in_memory_order(
    bwd_x: Callable[[], Value | None], bwd_w: Callable[[], Value | None], x: Value, w: Value
) -> tuple[Value | None, Value | None]:
    """(dx, dw), emitted weight gradient first where dw is no larger than x, which it may free."""
    if w.type.nbytes <= x.type.nbytes:
        dw = bwd_w()
        return bwd_x(), dw
    dx = bwd_x()
    return dx, bwd_w()


class Emitter(Protocol):
    """What a gradient rule may do to the graph under construction."""

    def emit(self, op: str, inputs: Sequence[Value], attrs: Attrs, name: str) -> tuple[Value, ...]:
        """Append a node; its outputs, typed by the operator's shape rule."""

    def view(self, value: Value, shape: tuple[int, ...], name: str) -> Value:
        """The same bytes under another shape."""


class Operator(ABC):
    """One operator. Instances are stateless; everything about a node comes in as arguments."""

    name: str
    #: pure: may be run again with the same result
    recomputable: bool = True
    #: (output index, input index) pairs that the kernel may run in place
    in_place: tuple[tuple[int, int], ...] = ()
    #: indices of inputs that the node overwrites (updates)
    mutates: tuple[int, ...] = ()
    #: (input index, input index) pairs of a node without outputs that tracks values over the steps:
    #: an evaluation leaves the node out and reads the second value wherever the first was read
    in_evaluation: tuple[tuple[int, int], ...] = ()
    #: the result depends on the number of the step, which the reference gets as attribute ``step``
    by_step: bool = False
    #: an evaluation reads the first input in place of the output
    only_in_training: bool = False
    #: what is put behind a node's name to name its outputs
    suffixes: tuple[str, ...] = ("",)

    @abstractmethod
    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        """Types of the outputs; raises ModelError with 'expected ..., got ...' on a mismatch."""

    @abstractmethod
    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        """Outputs computed by numpy in float32; for updates the new mutated values instead."""

    @abstractmethod
    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        """Features of one run."""

    @abstractmethod
    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        """The C call."""

    def ends_in(self, activation: str, inputs: Types, attrs: Attrs) -> bool:
        """Whether the kernel has a form that applies ``activation`` to output 0 (ops/ending.py)."""
        return False

    def variants(self, inputs: Types, outputs: Types, attrs: Attrs) -> tuple[str, ...]:
        """Other forms of the kernel, which give the same bits.

        A node takes one by attribute ``variant``, to which cost, kernel and workspace belong.
        """
        return ()

    def workspace_bytes(self, inputs: Types, outputs: Types, attrs: Attrs) -> int:
        """Scratch bytes the kernel needs while it runs."""
        return 0

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        """Gradients of the inputs for which ``needs`` is true, given that of the first output."""
        raise InternalError(f"{self.name}: expected a forward operator, got one without gradient")

    def gradients(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value | None],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        """``gradient`` for an operator that more than its first output may be differentiated by.

        One of ``grads`` at least is there; None stands for an output that the loss does not read.
        """
        if grads[0] is None:
            return (None,) * len(inputs)
        return self.gradient(node, inputs, outputs, (grads[0],), needs, build)


def vector_kernel(function: str, source: str, args: tuple[str, ...], over: TensorType) -> Kernel:
    """The call of an element-wise kernel over ``over``'s elements."""
    return Kernel(function, source, args, "poet_vector_shape", (("count", over.elements),))
