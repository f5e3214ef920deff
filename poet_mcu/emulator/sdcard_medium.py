"""The memory of a card: an image file, and what bad cards make of it."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from poet_mcu.emulator.card_faults import CardFaults
from poet_mcu.emulator.sdcard_registers import BLOCK

_UNIT_BLOCKS = 1024  # a capacity that every CSD can say is a multiple of this


class Medium:
    """Blocks of ``image``, behind whose end there are zeros up to ``blocks``."""

    def __init__(self, image: Path, faults: CardFaults) -> None:
        self._faults = faults
        self._file: BinaryIO = image.open("r+b")
        self.blocks = -(-image.stat().st_size // (_UNIT_BLOCKS * BLOCK)) * _UNIT_BLOCKS

    def read(self, block: int) -> bytes:
        """What is stored there."""
        self._seek(block)
        return self._file.read(BLOCK).ljust(BLOCK, b"\0")

    def write(self, block: int, data: bytes) -> None:
        """Store it; in the image at once."""
        self._seek(block)
        self._file.write(_turned(data) if self._faults.strikes("rot") else data)
        self._file.flush()

    def _seek(self, block: int) -> None:
        """Somewhere else when the card has less memory than it claims."""
        fake = self._faults.strikes("fake")
        self._file.seek((block % fake.at if fake else block) * BLOCK)


def _turned(data: bytes) -> bytes:
    """One bit in the middle turned, as a worn cell does it."""
    at = len(data) // 2
    return data[:at] + bytes((data[at] ^ 0x10,)) + data[at + 1 :]
