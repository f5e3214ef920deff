"""The page region and the checkpoints on a card or in its image; their bytes stand in SPEC.md.

What is read here is not trusted: every number is checked before it is used.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from poet_mcu.errors import InputError
from poet_mcu.units import BLOCK_BYTES

MAGIC = b"POET-MCU CARD\0\0\0"
SLOT_MAGIC = b"POET-MCU CHECKPT"
VERSION = 2
SLOT_VERSION = 1
SLOTS = 2
_HEADER = struct.Struct("<16sI16s3I")
_SLOT = struct.Struct("<16sI16s32s5If16sI")
_CRC = struct.Struct("<I")
_CHUNK_BYTES = 1 << 20

SlotState = Literal["whole", "damaged", "torn", "foreign", "empty"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One checkpoint slot. Everything but ``state`` and ``number`` is meaningless when empty.

    ``foreign``: of another build than the region's. ``damaged``: its data has another checksum.
    ``torn``: its header is not whole, as power failed while it was written, or it has rotted; then
    only ``sequence`` is kept, and may be wrong.
    """

    number: int
    state: SlotState
    build_id: bytes = b""
    model_hash: bytes = b""
    sequence: int = 0
    data_blocks: int = 0
    step: int = 0
    loss: float = 0.0
    position: bytes = b""


@dataclass(frozen=True, slots=True)
class CardImage:
    """A region found on a card: its header and both slots."""

    path: Path
    region_block: int
    build_id: bytes
    region_blocks: int
    slot_block: int
    slot_blocks: int
    slots: tuple[Slot, ...]

    @property
    def newest(self) -> Slot | None:
        """The whole checkpoint with the highest sequence number: what the board would take."""
        whole = [slot for slot in self.slots if slot.state == "whole"]
        if len(whole) == SLOTS:
            ahead = (whole[1].sequence - whole[0].sequence) % 2**32
            return whole[1] if 0 < ahead < 2**31 else whole[0]
        return whole[0] if whole else None

    @property
    def doubtful(self) -> Slot | None:
        """A slot that is not whole and may hold a newer checkpoint than ``newest``."""
        newest = self.newest
        for slot in self.slots:
            ahead = (slot.sequence - newest.sequence) % 2**32 if newest else 1
            newer = {"damaged": ahead < 2**31, "torn": ahead != 2**32 - 1}
            if newer.get(slot.state, False):
                return slot
        return None

    def data(self, slot: Slot) -> bytes:
        """The bytes of a checkpoint, whole blocks."""
        first = self.region_block + self.slot_block + slot.number * self.slot_blocks + 1
        with self.path.open("rb") as file:
            return _read(file, first, slot.data_blocks)


def read_card(path: Path, region_block: int | None = None) -> CardImage:
    """The region on the card or image ``path``.

    It begins at ``region_block``, or, when that is None, where the first whole header is found.

    Raises:
        InputError: no such file, no header, or a header that contradicts itself or the file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            first = _find(file, path, size) if region_block is None else region_block
            return _region(file, path, size // BLOCK_BYTES, first)
    except OSError as error:
        raise InputError(f"{path}: expected a card or its image, got '{error}'") from error


def _read(file: BinaryIO, block: int, count: int) -> bytes:
    file.seek(block * BLOCK_BYTES)
    return file.read(count * BLOCK_BYTES)


def _find(file: BinaryIO, path: Path, size: int) -> int:
    for start in range(0, size, _CHUNK_BYTES):
        file.seek(start)
        chunk = file.read(_CHUNK_BYTES)
        at = chunk.find(MAGIC)
        while at >= 0:
            if at % BLOCK_BYTES == 0 and _sealed(chunk[at : at + BLOCK_BYTES], _HEADER):
                return (start + at) // BLOCK_BYTES
            at = chunk.find(MAGIC, at + 1)
    raise InputError(
        f"{path}: expected a card that was prepared for a build, got none with a whole header; "
        "format it, or give --block if the header is elsewhere"
    )


def _sealed(block: bytes, layout: struct.Struct) -> bool:
    """Whether the checksum behind ``layout`` is right."""
    if len(block) < layout.size + _CRC.size:
        return False
    (stored,) = _CRC.unpack_from(block, layout.size)
    return bool(stored == zlib.crc32(block[: layout.size]))


def _region(file: BinaryIO, path: Path, blocks: int, first: int) -> CardImage:
    header = _read(file, first, 1)
    if not _sealed(header, _HEADER) or not header.startswith(MAGIC):
        raise InputError(
            f"{path}: block {first}: expected the header of a page region, got something else; "
            "the card was not prepared, or its header is damaged"
        )
    _, version, build_id, region_blocks, slot_block, slot_blocks = _HEADER.unpack_from(header)
    if version != VERSION:
        raise InputError(
            f"{path}: block {first}: expected region version {VERSION}, got {version}; "
            "use the poet-mcu that prepared the card"
        )
    fits = slot_block + SLOTS * slot_blocks <= region_blocks <= blocks - first
    if not fits or (slot_blocks != 0 and (slot_block < 1 or slot_blocks < SLOTS)):
        raise InputError(
            f"{path}: block {first}: expected a region of {region_blocks} blocks with {SLOTS} "
            f"slots of {slot_blocks} in it, got {blocks - first} blocks; the image was cut short, "
            "or the header is damaged"
        )
    slots = [
        _slot(file, number, first + slot_block + number * slot_blocks, slot_blocks, build_id)
        for number in range(SLOTS if slot_blocks else 0)
    ]
    used = any(slot.state == "whole" and slot.sequence > 1 for slot in slots)
    for slot in slots:
        # Written in turn: from the second checkpoint on both slots have been used.
        if slot.state == "empty" and used:
            header = _read(file, first + slot_block + slot.number * slot_blocks, 1)
            slots[slot.number] = Slot(slot.number, "torn" if any(header) else "empty")
    where = (path, first, build_id, region_blocks, slot_block, slot_blocks)
    return CardImage(*where, tuple(slots))


def _slot(file: BinaryIO, number: int, block: int, slot_blocks: int, build_id: bytes) -> Slot:
    header = _read(file, block, 1)
    if not header.startswith(SLOT_MAGIC) or not _sealed(header, _SLOT):
        # One of its long fields alone is enough: rot takes few bits, a torn write an end.
        known = header.startswith(SLOT_MAGIC) or header[20:36] == build_id != bytes(16)
        torn = known and len(header) == BLOCK_BYTES
        sequence = _SLOT.unpack_from(header)[6] if torn else 0
        return Slot(number, "torn" if torn else "empty", sequence=sequence)
    (
        _, version, build, model, own_number, own_blocks, sequence, data_blocks, step, loss,
        position, crc,
    ) = _SLOT.unpack_from(header)  # fmt: skip
    state: SlotState = "whole"
    if (version, build, own_number, own_blocks) != (SLOT_VERSION, build_id, number, slot_blocks):
        state, data_blocks = "foreign", 0
    elif data_blocks >= slot_blocks:
        state, data_blocks = "damaged", 0
    elif zlib.crc32(_read(file, block + 1, data_blocks), sequence) != crc:
        state = "damaged"
    return Slot(number, state, build, model, sequence, data_blocks, step, loss, position)
