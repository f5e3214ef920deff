"""The packed form of a convolution, forward and back: workspace, and what is moved through it.

The C is firmware/kernels/conv_packed.h: operands of four positions and of four channels are packed
term by term. It pays where positions that meet the same taps are apart in memory (strides) or taps
are many; elsewhere conv2d has blocks that need no packing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from poet_mcu.ops.operator import Cost
from poet_mcu.ops.window import Window

#: variant -> most bytes of workspace
LIMITS = {"packed": 8 * 1024, "packed_wide": 24 * 1024}
_MOST_PANELS = 16  # PACKED_PANELS
_FLOAT = 4


@dataclass(frozen=True, slots=True)
class Packing:
    """One direction: outputs of a group, the terms of each, positions that meet the same taps."""

    groups: int
    outs: int
    terms: int
    positions: int
    classes: int

    def panels(self, variant: str) -> int:
        """Panels of four positions that fit beside one of weights; 0: no use."""
        panel = 4 * self.terms * _FLOAT
        return min(_MOST_PANELS, LIMITS[variant] // panel - 1, -(-self.positions // 4))

    def work_floats(self, variant: str) -> int:
        """Size of the workspace."""
        return 4 * self.terms * (self.panels(variant) + 1)

    def work_bytes(self, variant: str) -> int:
        """The workspace of a variant; '' needs none."""
        return _FLOAT * self.work_floats(variant) if variant else 0

    def moved(self, variant: str) -> int:
        """Floats packed: inputs once for each group, weights once for each band of positions."""
        bands = -(-self.positions // (4 * self.panels(variant)))
        inputs = self.positions * self.terms
        weights = bands * -(-self.outs // 4) * 4 * self.terms
        return self.groups * self.classes * (inputs + weights)

    def cost(self, variant: str, macs: int) -> Cost:
        """Multiply-adds, and as elements what is moved."""
        return Cost("conv_packed", macs=macs, elements=self.moved(variant))


def forward(g: Window) -> Packing:
    """From x to y: all positions meet all taps, but for borders."""
    terms = g.c // g.groups * g.kh * g.kw
    return Packing(g.groups, g.m // g.groups, terms, g.n * g.oh * g.ow, 1)


def back(g: Window) -> Packing:
    """From dy to dx: positions of one residue modulo the stride meet the same taps."""
    taps = -(-g.kh * gcd(g.sh, g.dh) // g.sh) * -(-g.kw * gcd(g.sw, g.dw) // g.sw)
    positions = g.n * -(-g.h // g.sh) * -(-g.w // g.sw)
    terms = g.m // g.groups * taps
    return Packing(g.groups, g.c // g.groups, terms, positions, g.sh * g.sw)


def has_blocks(g: Window) -> bool:
    """Whether conv2d has blocks of its own for the shape: 1 x 1, rows of three taps, depthwise."""
    whole = (g.kh, g.kw, g.sh, g.sw, g.top, g.left) == (1, 1, 1, 1, 0, 0)
    rows = g.kw == 3 and g.sw == 1 and g.dw == 1 and min(g.w, g.ow) >= 4
    depthwise = g.c == g.groups == g.m
    return whole or rows or depthwise


def useful(g: Window, packing: Packing) -> tuple[str, ...]:
    """The variants that may pay: those that hold some positions, and more than the one before."""
    if has_blocks(g):
        return ()
    found: list[str] = []
    most = 0
    for variant in LIMITS:
        panels = packing.panels(variant)
        if panels > most:
            found.append(variant)
            most = panels
    return tuple(found)
