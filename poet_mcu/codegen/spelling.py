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
    flat = array.reshape(-1)
    words = _float_words(flat) if flat.dtype == np.float32 else [str(int(v)) for v in flat.tolist()]
    return tuple(
        ", ".join(words[start : start + PER_ROW]) + "," for start in range(0, len(words), PER_ROW)
    )


def _float_words(flat: npt.NDArray[np.generic]) -> list[str]:
    """``c_float`` of each element, by one formatting: a network has millions of them."""
    values = np.asarray(flat, np.float32)
    words = ("%.9g " * values.size % tuple(values.tolist())).split()
    # below 1e9 %.9g writes a whole number without a point, from there on with an exponent
    for i in np.flatnonzero((values == np.trunc(values)) & (np.abs(values) < 1e9)):
        words[i] += ".0"
    return [word + "f" for word in words]
