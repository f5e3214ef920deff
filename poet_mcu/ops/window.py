"""Geometry of a 2-D convolution with names."""

from __future__ import annotations

from dataclasses import dataclass

_FIELDS = (
    "n", "c", "h", "w", "m", "oh", "ow", "kh", "kw", "stride_h", "stride_w",
    "pad_top", "pad_left", "dilation_h", "dilation_w", "groups",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Window:
    """Geometry of a convolution with names, from the shapes of x, w, y and the attributes."""

    n: int
    c: int
    h: int
    w: int
    m: int
    oh: int
    ow: int
    kh: int
    kw: int
    sh: int
    sw: int
    top: int
    left: int
    dh: int
    dw: int
    groups: int

    @property
    def fields(self) -> tuple[tuple[str, int], ...]:
        """Initializers of ``poet_conv2d_shape`` in C order."""
        values = (self.n, self.c, self.h, self.w, self.m, self.oh, self.ow, self.kh, self.kw)
        rest = (self.sh, self.sw, self.top, self.left, self.dh, self.dw, self.groups)
        return tuple(zip(_FIELDS, values + rest, strict=True))

    @property
    def macs(self) -> int:
        """Multiply-adds of one direction, padding positions counted."""
        return self.n * self.m * self.oh * self.ow * (self.c // self.groups) * self.kh * self.kw
