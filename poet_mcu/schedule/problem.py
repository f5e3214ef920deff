"""The planner's problem as plain data: sizes, costs, budget, edges. Nothing here knows ONNX or C.

Ops are listed in their order of execution. Ids are the graph's (root value ids and node ids), so
that a decoded schedule needs no translation; they need not be consecutive.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tensor:
    """One value that occupies RAM while it is resident.

    ``nbytes`` is the padded size. ``at_start``: resident when the step begins (inputs, labels).
    ``at_end``: must be resident when the step ends. Values with their home in RAM all along are
    not tensors of the problem: they are taken off the budget before.
    """

    id: int
    name: str
    nbytes: int
    pageable: bool
    page_in_s: float
    page_out_s: float
    page_in_j: float
    page_out_j: float
    at_start: bool = False
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class Op:
    """One operator; ``inputs`` and ``outputs`` are tensor ids without doubles.

    ``in_place`` lists (output id, input id) pairs the kernel may run in place.
    ``recomputable``: pure, and reads nothing that an update of this step changes before the last
    moment it could be recomputed.
    """

    id: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    compute_s: float
    compute_j: float
    workspace_bytes: int
    recomputable: bool
    backward: bool
    in_place: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Minimise energy subject to ``memory_bytes`` at every moment and ``deadline_s`` over all.

    Transfers block the CPU (SPI by polling): their seconds count in full towards the deadline and
    their joules already hold the CPU's share.
    """

    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    memory_bytes: int
    deadline_s: float | None = None
    alignment_bytes: int = 1

    @property
    def base_s(self) -> float:
        """Seconds of running every op once."""
        return sum(op.compute_s for op in self.ops)

    @property
    def base_j(self) -> float:
        """Joules of running every op once."""
        return sum(op.compute_j for op in self.ops)
