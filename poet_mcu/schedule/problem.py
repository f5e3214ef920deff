"""The planner's problem as plain data: sizes, costs, budget, edges. Nothing here knows ONNX or C.

Ops are listed in their order of execution. Ids are the graph's (root value ids and node ids), so
that a decoded schedule needs no translation; they need not be consecutive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tensor:
    """One value that occupies RAM while it is resident.

    ``nbytes`` is the padded size. ``at_start``: resident when the step begins (inputs, labels).
    ``at_end``: must be resident when the step ends. Values with their home in RAM all along are
    not tensors of the problem: they are taken off the budget before.

    ``at_start_paged``: its home is the card; its page is valid when the step begins and it is not
    resident. ``at_end_paged``: its page must hold its newest content when the step ends. Both need
    ``pageable``; neither goes with ``at_start`` or ``at_end``.
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
    at_start_paged: bool = False
    at_end_paged: bool = False


@dataclass(frozen=True, slots=True)
class Op:
    """One operator; ``inputs`` and ``outputs`` are tensor ids without doubles.

    ``in_place`` lists (output id, input id) pairs the kernel may run in place.
    ``recomputable``: pure, and reads nothing that an update of this step changes before the last
    moment it could be recomputed. ``mutates`` lists the inputs that the op overwrites (an update
    its parameter): their pages are stale then, no later op reads them, and it runs once.
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
    mutates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Minimise energy subject to ``memory_bytes`` at every moment and ``deadline_s`` over all.

    Without ``overlap`` a transfer blocks the CPU (SPI by polling): its seconds count in full
    towards the deadline and its joules already hold the CPU's share. With ``overlap`` (DMA) it
    runs beside compute, one at a time on the bus; its joules are the card's alone, and only the
    seconds in which the CPU waits for it (stall) count, each with ``wait_w`` joules.
    ``max_write_bytes`` bounds the bytes that go to the card in a step.
    """

    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    memory_bytes: int
    deadline_s: float | None = None
    alignment_bytes: int = 1
    overlap: bool = False
    wait_w: float = 0.0
    max_write_bytes: int | None = None

    @property
    def base_s(self) -> float:
        """Seconds of running every op once."""
        return sum(op.compute_s for op in self.ops)

    @property
    def base_j(self) -> float:
        """Joules of running every op once."""
        return sum(op.compute_j for op in self.ops)

    @property
    def grain_bytes(self) -> int:
        """Every sum of sizes in the problem is a multiple of this."""
        sizes = [t.nbytes for t in self.tensors]
        return math.gcd(*sizes, *(op.workspace_bytes for op in self.ops)) or 1

    @property
    def fixed_s(self) -> float:
        """Seconds of every op once and, where transfers block, of the forced writes."""
        return self.base_s + (0.0 if self.overlap else self.forced_write_s)

    @property
    def fixed_j(self) -> float:
        """Joules of every op once and of the forced writes."""
        return self.base_j + sum(t.page_out_j for t in self.forced_writes)

    @property
    def forced_writes(self) -> tuple[Tensor, ...]:
        """Tensors that every plan writes: homes on the card that an op overwrites."""
        changed = {i for op in self.ops for i in op.mutates}
        return tuple(t for t in self.tensors if t.at_end_paged and t.id in changed)

    @property
    def forced_write_s(self) -> float:
        """Seconds of the bus for the forced writes."""
        return sum(t.page_out_s for t in self.forced_writes)

    @property
    def forced_reads(self) -> tuple[Tensor, ...]:
        """Tensors that every plan reads from the card: homes there that an op reads."""
        read = {i for op in self.ops for i in op.inputs}
        return tuple(t for t in self.tensors if t.at_start_paged and t.id in read)

    @property
    def floor_j(self) -> float:
        """Joules that no plan saves: every op once, and the transfers of homes on the card."""
        return self.fixed_j + sum(t.page_in_j for t in self.forced_reads)

    @property
    def floor_s(self) -> float:
        """Seconds that no plan saves; with overlap the bus and the CPU each need their own."""
        moved = self.forced_write_s + sum(t.page_in_s for t in self.forced_reads)
        return max(self.base_s, moved) if self.overlap else self.base_s + moved
