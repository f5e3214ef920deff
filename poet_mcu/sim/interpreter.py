"""Runs a program in numpy over a poisoned arena and a fake card: the oracle of the generated C.

Every byte of the arena is either valid or poison (0xFF, a NaN in float32). Reading a poisoned
byte is an error. Operators are computed by their numpy reference, so values agree with the C
within rounding (numpy sums in another order); addresses, lifetimes, transfers and the peak are
exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import DType, Graph, Role
from poet_mcu.ir.program import Call, Instruction, Opcode, OperandKind, PageRange, Program
from poet_mcu.ops.operator import Array
from poet_mcu.ops.table import OPERATORS
from poet_mcu.sim.card import FakeCard

POISON = 0xFF


@dataclass
class Interpreter:
    """State that lives on from step to step: the arena (home RAM) and the card.

    ``peak_bytes`` is the largest number of arena bytes live at one moment, padding and workspace
    included; ``actions`` the number of instructions run.
    """

    graph: Graph
    program: Program
    card: FakeCard = field(default_factory=FakeCard)
    peak_bytes: int = 0
    actions: int = 0

    def __post_init__(self) -> None:
        self.arena: npt.NDArray[np.uint8] = np.full(self.program.arena_bytes, POISON, np.uint8)
        self.valid: npt.NDArray[np.bool_] = np.zeros(self.program.arena_bytes, np.bool_)
        self.live: dict[int, int] = {}
        self.homes = {home.value: home for home in self.program.homes}
        self.home_pages = {
            page.value: page for page in self.program.pages if page.value in self.graph.card_homes
        }
        for page in self.home_pages.values():
            self._store_page(page)
        for home in self.program.homes:
            value = self.graph.values[home.value]
            if value.role in (Role.PARAMETER, Role.STATISTIC):
                self.store(home.offset, self.graph.initial[value.id])
            elif value.role is Role.STATE:
                self.store(home.offset, np.zeros(value.shape, value.type.dtype.numpy))

    def _store_page(self, page: PageRange) -> None:
        """The start value of a home on the card: the initial one, zero for state."""
        value = self.graph.values[page.value]
        raw = np.zeros(page.nbytes, np.uint8)
        if value.role in (Role.PARAMETER, Role.STATISTIC):
            start = np.ascontiguousarray(self.graph.initial[value.id]).view(np.uint8).reshape(-1)
            raw[: start.size] = start
        self.card.pages[page.number] = raw
        self.card.homes.add(page.number)

    def store(self, offset: int, array: Array) -> None:
        """Put an array's bytes at an offset."""
        raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        self.arena[offset : offset + raw.size] = raw
        self.valid[offset : offset + raw.size] = True

    def load(self, offset: int, shape: tuple[int, ...], dtype: DType) -> Array:
        """Copy of the array at an offset; raises InternalError when a byte of it is poison."""
        count = int(np.prod(shape, dtype=np.int64)) * dtype.item_bytes
        if not self.valid[offset : offset + count].all():
            raise InternalError(f"sim: read of poisoned bytes in [{offset}, {offset + count})")
        return self.arena[offset : offset + count].copy().view(dtype.numpy).reshape(shape)

    def poison(self, offset: int, nbytes: int) -> None:
        """Make bytes unreadable."""
        self.arena[offset : offset + nbytes] = POISON
        self.valid[offset : offset + nbytes] = False

    def run(self, feeds: Mapping[int, Array], lr: float = 0.0) -> dict[int, Array]:
        """Run one step; the graph's outputs by value id. ``feeds`` are inputs and labels by id."""
        self.card.begin_step()
        self.live = {home.offset: home.nbytes for home in self.program.homes}
        kept = {h.offset for h in self.program.homes if h.value not in feeds}
        saved = {o: self.arena[o : o + self.live[o]].copy() for o in kept}
        masks = {o: self.valid[o : o + self.live[o]].copy() for o in kept}
        self.poison(0, self.arena.size)
        for offset, raw in saved.items():
            self.arena[offset : offset + raw.size] = raw
            self.valid[offset : offset + raw.size] = masks[offset]
        for value, array in feeds.items():
            self.store(self.homes[value].offset, array)
        self._note_peak(0)
        for instruction in self.program.instructions:
            self._RUN[instruction.opcode](self, instruction, lr)
            self.actions += 1
        return {
            home.value: self.load(
                home.offset,
                self.graph.values[home.value].shape,
                self.graph.values[home.value].type.dtype,
            )
            for home in self.program.results
        }

    def home_value(self, value: int) -> Array:
        """The current content of a parameter or of optimizer state."""
        kind = self.graph.values[value].type
        if value in self.home_pages:
            raw = self.card.pages[self.home_pages[value].number][: kind.nbytes]
            return raw.copy().view(kind.dtype.numpy).reshape(kind.shape)
        return self.load(self.homes[value].offset, kind.shape, kind.dtype)

    def _note_peak(self, scratch_bytes: int) -> None:
        self.peak_bytes = max(self.peak_bytes, sum(self.live.values()) + scratch_bytes)

    def _claim(self, offset: int, nbytes: int) -> None:
        for other, size in self.live.items():
            if other != offset and other < offset + nbytes and offset < other + size:
                raise InternalError(f"sim: bytes at {offset} overlap live bytes at {other}")
        self.live[offset] = nbytes

    def _call(self, instruction: Instruction, lr: float) -> None:
        call = instruction.call
        if call is None:
            raise InternalError("sim: a call instruction without a call")
        node = self.graph.nodes[call.node]
        by_role = dict(zip(call.roles, call.operands, strict=True))
        inputs = [self._input(call, i) for i in range(len(node.inputs))]
        attrs = {**node.attrs, "lr": lr} if node.mutates else node.attrs
        results = OPERATORS[node.op].reference(inputs, attrs)
        targets = [by_role[f"out{i}"] for i in range(len(node.outputs))]
        targets += [by_role[f"in{node.inputs.index(v)}"] for v in node.mutates]
        for target in targets:
            self._claim(target.offset, target.nbytes)
        scratch = by_role.get("ws")
        self._note_peak(scratch.nbytes if scratch else 0)
        for target, result in zip(targets, results, strict=True):
            self.poison(target.offset, target.nbytes)
            self.store(target.offset, result)

    def _input(self, call: Call, index: int) -> Array:
        node = self.graph.nodes[call.node]
        value = self.graph.values[node.inputs[index]]
        operand = call.operands[call.roles.index(f"in{index}")]
        if operand.kind is OperandKind.FLASH:
            return self.graph.initial[operand.value].reshape(value.shape)
        return self.load(operand.offset, value.shape, value.type.dtype)

    def _page_out(self, instruction: Instruction, lr: float) -> None:
        window = slice(instruction.offset, instruction.offset + instruction.nbytes)
        self.card.start_write(instruction.page, self.arena[window])

    def _page_in(self, instruction: Instruction, lr: float) -> None:
        self._claim(instruction.offset, instruction.nbytes)
        self._note_peak(0)
        self.poison(instruction.offset, instruction.nbytes)
        window = slice(instruction.offset, instruction.offset + instruction.nbytes)
        self.card.start_read(instruction.page, self.arena[window])

    def _wait(self, instruction: Instruction, lr: float) -> None:
        reading = instruction.page in self.card.reading
        self.card.wait(instruction.page)
        if reading:
            value = self.graph.values[instruction.value]
            end = instruction.offset + value.type.nbytes
            self.valid[instruction.offset : end] = True

    def _drop(self, instruction: Instruction, lr: float) -> None:
        self.poison(instruction.offset, instruction.nbytes)
        if self.live.pop(instruction.offset, None) is None:
            raise InternalError(f"sim: drop of bytes at {instruction.offset} that are not live")

    _RUN = {  # noqa: RUF012 - a table of methods, never changed
        Opcode.CALL: _call,
        Opcode.PAGE_OUT: _page_out,
        Opcode.PAGE_IN: _page_in,
        Opcode.WAIT: _wait,
        Opcode.DROP: _drop,
    }
