"""How numbers are written in C."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

PER_ROW = 6
COLUMNS = 100


def c_float(value: float) -> str:
    """A float32 as a C literal that reads back to the same bits (finite values)."""
    text = f"{np.float32(value):.9g}"
    if "." not in text and "e" not in text:
        text += ".0"
    return text + "f"


def c_bytes(head: str, data: bytes, tail: str, indent: int) -> str:
    """``head``, the bytes as hex initializers in braces, ``tail``, broken into lines."""
    return wrapped(head + "{", [f"0x{byte:02x}" for byte in data], "}" + tail, indent)


def wrapped(head: str, items: list[str], tail: str, indent: int = 4) -> str:
    """``head``, the items with commas, ``tail``, broken within 100 columns below the first item.

    ``indent`` is how far the template indents the first line.
    """
    lines, line = [], head
    hang = " " * min(len(head), 56)
    for i, item in enumerate(items):
        piece = item + (tail if i == len(items) - 1 else ", ")
        if len(line) + len(piece.rstrip()) + indent > COLUMNS and line.strip() != head.strip():
            lines.append(line.rstrip())
            line = hang
        line += piece
    lines.append(line)
    return ("\n" + " " * indent).join(lines)


def c_rows(array: npt.NDArray[np.generic]) -> tuple[str, ...]:
    """An array's elements as lines of initializers, in memory order."""
    spell = c_float if array.dtype == np.float32 else lambda value: str(int(value))
    words = [spell(value) for value in array.reshape(-1).tolist()]
    return tuple(
        ", ".join(words[start : start + PER_ROW]) + "," for start in range(0, len(words), PER_ROW)
    )
