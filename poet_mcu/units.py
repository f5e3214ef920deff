"""Rounding and printing of quantities. Bytes and blocks are ints, everything else is SI floats."""

from __future__ import annotations

import re

from poet_mcu.errors import InputError

BLOCK_BYTES = 512

_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmg]?)(i?)b?\s*$", re.IGNORECASE)
_TIME = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|m|h)?\s*$", re.IGNORECASE)
_TIME_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def round_up(size_bytes: int, multiple_bytes: int) -> int:
    """``size_bytes`` rounded up to a multiple of ``multiple_bytes`` (> 0)."""
    return -(-size_bytes // multiple_bytes) * multiple_bytes


def round_down(size_bytes: int, multiple_bytes: int) -> int:
    """``size_bytes`` rounded down to a multiple of ``multiple_bytes`` (> 0)."""
    return size_bytes // multiple_bytes * multiple_bytes


def blocks(size_bytes: int) -> int:
    """Number of 512-byte card blocks that hold ``size_bytes``."""
    return -(-size_bytes // BLOCK_BYTES)


def parse_bytes(text: str, option: str) -> int:
    """Bytes of ``64K``, ``64KiB``, ``1.5M`` or ``65536``; K, M, G are powers of 1024."""
    found = _SIZE.match(text)
    if not found:
        raise InputError(f"{option}: expected a size such as 192K or 65536, got '{text}'")
    factor = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}[found[2].lower()]
    return int(float(found[1]) * factor)


def parse_seconds(text: str, option: str) -> float:
    """Seconds of ``2s``, ``150ms``, ``1h`` or ``0.5``."""
    found = _TIME.match(text)
    if not found:
        raise InputError(f"{option}: expected a time such as 2s, 150ms or 1h, got '{text}'")
    return float(found[1]) * _TIME_S[(found[2] or "s").lower()]


def format_bytes(size_bytes: int | None) -> str:
    """``65536`` as ``64.0 KiB``, for people."""
    if size_bytes is None:
        return "-"
    if size_bytes < 1024:
        return f"{size_bytes} B"
    if size_bytes < 1024**2:
        return f"{size_bytes / 1024:.1f} KiB"
    return f"{size_bytes / 1024**2:.2f} MiB"


def format_si(value: float | None, unit: str) -> str:
    """A float with an SI prefix and four significant digits, for people."""
    if value is None:
        return "-"
    for factor, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"
