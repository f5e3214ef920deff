"""UF2 files: what a boot loader takes as a copy onto its volume.

Layout: github.com/microsoft/uf2, README "File format". The RP2040's boot ROM takes blocks of 256
bytes at multiples of 256 (RP2040 datasheet 2.8.4.2) and counts them by number.
"""

from __future__ import annotations

import struct
from pathlib import Path

from elftools.elf.elffile import ELFFile

PAGE_BYTES = 256
BLOCK_BYTES = 512
MAGIC = (0x0A324655, 0x9E5D5157)
MAGIC_END = 0x0AB16F30
FAMILY_PRESENT = 0x2000


def write_uf2(elf: Path, out: Path, family: int) -> Path:
    """Write what ``elf`` loads as UF2 blocks of ``family`` into ``out``, which is returned."""
    pages = _pages(elf)
    blocks = [
        struct.pack(
            "<8I476sI", *MAGIC, FAMILY_PRESENT, address, PAGE_BYTES, number, len(pages), family,
            bytes(pages[address]), MAGIC_END,
        )
        for number, address in enumerate(sorted(pages))
    ]  # fmt: skip
    out.write_bytes(b"".join(blocks))
    return out


def _pages(elf: Path) -> dict[int, bytearray]:
    """Page address -> its 256 bytes; what nothing loads is 0."""
    pages: dict[int, bytearray] = {}
    with elf.open("rb") as file:
        for segment in ELFFile(file).iter_segments("PT_LOAD"):
            data = segment.data()
            for i, byte in enumerate(data):
                at = segment["p_paddr"] + i
                page = pages.setdefault(at - at % PAGE_BYTES, bytearray(PAGE_BYTES))
                page[at % PAGE_BYTES] = byte
    return pages
