"""Boxes of elements that are moved between two dense layouts: what transpose, slice and pad share.

A box is a set of nested loops; each loop has a count, and a step in elements in the source and in
the target. Loops that continue each other are one, so that few are left for the C kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import TensorType
from poet_mcu.ops.operator import Kernel

SOURCE = "strided.c"
_AXES = 6


@dataclass(frozen=True, slots=True)
class Box:
    """Loops outermost first: element i is read at start + i . from_step, written likewise."""

    size: tuple[int, ...]
    from_step: tuple[int, ...]
    to_step: tuple[int, ...]
    from_start: int = 0
    to_start: int = 0

    def merged(self) -> Box:
        """The same moves in the same order by as few loops as possible."""
        loops: list[tuple[int, int, int]] = []
        for size, source, target in zip(self.size, self.from_step, self.to_step, strict=True):
            if size == 1:
                continue
            if loops:
                outer, outer_source, outer_target = loops[-1]
                if (outer_source, outer_target) == (source * size, target * size):
                    loops[-1] = (outer * size, source, target)
                    continue
            loops.append((size, source, target))
        if len(loops) > _AXES:
            raise ModelError(
                f"expected a layout of at most {_AXES} loops, got {len(loops)} for "
                f"{list(self.size)}; do it in two steps, or merge dimensions before export"
            )
        loops = [(1, 0, 0)] * (_AXES - len(loops)) + loops
        sizes, reads, writes = (tuple(loop[i] for loop in loops) for i in range(3))
        return Box(sizes, reads, writes, self.from_start, self.to_start)


def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from one index to the next along each axis of a dense tensor."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))


def box_kernel(function: str, box: Box, output: TensorType, fill: float = 0.0) -> Kernel:
    """The C call that moves ``box`` into ``output``."""
    merged = box.merged()
    fields: list[tuple[str, int | float]] = []
    for name in ("size", "from_step", "to_step"):
        fields += [(f"{name}[{i}]", item) for i, item in enumerate(getattr(merged, name))]
    fields += [("from", box.from_start), ("to", box.to_start)]
    fields += [("count", output.elements), ("fill", float(fill))]
    return Kernel(function, SOURCE, ("in0", "out0"), "poet_strided_shape", tuple(fields))
