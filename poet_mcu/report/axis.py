"""Round ticks and short labels for axes, and the rows of a legend."""

from __future__ import annotations

import math
from collections.abc import Sequence

from poet_mcu.report.svg import Svg

#: (key: the class of the swatch, second class laid over it or '', letter on it, label)
Key = tuple[str, str, str, str]
_CHAR_PX = 6.0


def ticks(
    limit: float, count: int = 5, factors: Sequence[float] = (1, 2, 2.5, 5, 10)
) -> list[float]:
    """About ``count`` round numbers from 0 up to ``limit``, evenly spaced."""
    if not limit > 0:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(limit / count))
    step = next(f * power for f in factors if f * power >= limit / count * (1 - 1e-9))
    return [k * step for k in range(int(limit / step * (1 + 1e-9)) + 1)]


def byte_ticks(limit: int, count: int = 5) -> list[int]:
    """Multiples of a power of two bytes from 0 up to ``limit``: about ``count``, at most twice."""
    step = 1
    while step * count < limit:
        step *= 2
    return list(range(0, limit + 1, step))


def index_ticks(limit: int, count: int = 12) -> list[int]:
    """Whole numbers below ``limit``, evenly spaced."""
    return [int(t) for t in ticks(max(limit - 1, 1), count, (1, 2, 5, 10)) if t == int(t)]


def bytes_label(size_bytes: int) -> str:
    """``49152`` as ``48K``."""
    for factor, letter in ((1024**2, "M"), (1024, "K")):
        if size_bytes >= factor:
            return f"{size_bytes / factor:g}{letter}"
    return str(size_bytes)


def scaled(limit: float) -> tuple[float, str]:
    """(factor, prefix) that bring ``limit`` between 1 and 1000."""
    for factor, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "u")):
        if limit >= factor:
            return factor, prefix
    return 1e-9, "n"


def legend(svg: Svg, x: float, y: float, keys: Sequence[Key]) -> float:
    """Draws swatches with labels in one row from (x, y); where the row ends."""
    for css, over, letter, label in keys:
        if css == "card":
            svg.line(x, y + 6, x + 14, y + 6, css)
        else:
            svg.rect(x, y, 14, 12, css)
        if over:
            svg.rect(x, y, 14, 12, over)
        if letter:
            svg.text(x + 7, y + 6.5, letter, f"on-{css} middle strong", anchor="middle", size=9)
        svg.text(x + 19, y + 6.5, label, "middle")
        x += 19 + len(label) * _CHAR_PX + 16
    return x
