"""Frames of the serial link: COBS between zero bytes, CRC-32 over the content (SPEC.md).

COBS: S. Cheshire, M. Baker, "Consistent Overhead Byte Stuffing", IEEE/ACM Transactions on
Networking 7(2), 1999.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass

VERSION = 1
PAYLOAD_BYTES = 512
_HEADER = struct.Struct("<BBH")
_CRC = struct.Struct("<I")
_LEAST_BYTES = _HEADER.size + _CRC.size
# COBS adds one byte, and one for each whole 254.
_MOST_ENCODED_BYTES = _LEAST_BYTES + PAYLOAD_BYTES + 1 + (_LEAST_BYTES + PAYLOAD_BYTES) // 254
_FULL = 254


@dataclass(frozen=True, slots=True)
class Frame:
    """One good frame."""

    type: int
    sequence: int
    payload: bytes = b""
    version: int = VERSION


def cobs_encode(data: bytes) -> bytes:
    """``data`` without its zero bytes, a little longer."""
    out = bytearray()
    runs = data.split(b"\0")
    for index, run in enumerate(runs):
        full = len(run) // _FULL * _FULL
        for start in range(0, full, _FULL):
            out.append(0xFF)
            out += run[start : start + _FULL]
        rest = run[full:]
        # After a full block the end of the data needs no block of its own.
        if rest or not full or index < len(runs) - 1:
            out.append(len(rest) + 1)
            out += rest
    return bytes(out)


def cobs_decode(encoded: bytes) -> bytes | None:
    """What was encoded, or None where no encoder wrote this."""
    out = bytearray()
    at = 0
    while at < len(encoded):
        code = encoded[at]
        block = encoded[at + 1 : at + code]
        if code == 0 or len(block) != code - 1 or 0 in block:
            return None
        out += block
        at += code
        if code != 0xFF and at < len(encoded):
            out.append(0)
    return bytes(out)


def encode_frame(frame: Frame) -> bytes:
    """The bytes on the wire, both delimiters included; the first ends any noise before."""
    content = _HEADER.pack(frame.version, frame.type, frame.sequence) + frame.payload
    return b"\0" + cobs_encode(content + _CRC.pack(zlib.crc32(content))) + b"\0"


def decode_frame(encoded: bytes) -> Frame | None:
    """The frame between two delimiters, or None when it is damaged."""
    content = cobs_decode(encoded)
    if content is None or not _LEAST_BYTES <= len(content) <= _LEAST_BYTES + PAYLOAD_BYTES:
        return None
    covered, crc = content[: -_CRC.size], content[-_CRC.size :]
    if _CRC.unpack(crc)[0] != zlib.crc32(covered):
        return None
    version, kind, sequence = _HEADER.unpack_from(covered)
    return Frame(kind, sequence, covered[_HEADER.size :], version)


#: what a start-up file says on the line when the core has stopped (firmware/port/common/startup.c)
_LAST_WORDS = re.compile(rb"poet: [a-z ]+(?: [a-z]+=[0-9a-f]{8})+\r\n")


class FrameDecoder:
    """Finds good frames in a stream of bytes; counts the damaged ones in ``damaged``.

    ``last_words`` is the report of a fault, which a board sends as text before it stops, or ''.
    """

    def __init__(self) -> None:
        self.damaged = 0
        self.last_words = ""
        self._open = bytearray()

    @property
    def unfinished(self) -> bool:
        """Bytes have come since the last frame."""
        return bool(self._open)

    def feed(self, data: bytes) -> list[Frame]:
        """The good frames that end within ``data``, which may be any piece of the stream."""
        *ended, rest = data.split(b"\0")
        found: list[Frame] = []
        for piece in ended:
            encoded = bytes(self._open) + piece
            self._open.clear()
            if not encoded:
                continue  # two delimiters in a row
            frame = decode_frame(encoded)
            if frame is None:
                self.damaged += 1
                self._listen(encoded)
            else:
                found.append(frame)
        # One byte too many is enough to know a frame as damaged: endless noise takes no memory.
        self._open += rest[: _MOST_ENCODED_BYTES + 1 - len(self._open)]
        self._listen(self._open)
        return found

    def _listen(self, noise: bytes | bytearray) -> None:
        said = _LAST_WORDS.search(noise)
        if said:
            self.last_words = said[0].decode("ascii").strip()
