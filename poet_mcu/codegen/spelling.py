"""How numbers are written in C."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

PER_ROW = 8


def c_float(value: float) -> str:
    """A float32 as a C literal that reads back to the same bits (finite values)."""
    text = f"{np.float32(value):.9g}"
    if "." not in text and "e" not in text:
        text += ".0"
    return text + "f"


def c_bytes(data: bytes) -> str:
    """Bytes as a list of hex initializers."""
    return ", ".join(f"0x{byte:02x}" for byte in data)


def c_rows(array: npt.NDArray[np.generic]) -> tuple[str, ...]:
    """An array's elements as lines of initializers, in memory order."""
    spell = c_float if array.dtype == np.float32 else lambda value: str(int(value))
    words = [spell(value) for value in array.reshape(-1).tolist()]
    return tuple(
        ", ".join(words[start : start + PER_ROW]) + "," for start in range(0, len(words), PER_ROW)
    )
