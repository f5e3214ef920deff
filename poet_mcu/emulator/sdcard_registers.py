"""Kinds of SD cards and what they say of themselves: OCR, CID, CSD, SCR, function status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from poet_mcu.errors import InputError, nearest

BLOCK = 512
CCS, POWERED_UP = 1 << 30, 1 << 31
#: 2.7 to 3.6 V (5.1)
_ALL_VOLTAGES = 0x00FF_8000
CID = bytes.fromhex("00504d5043415244100badc0de018b") + b"\x01"
#: the most that the CSD of version 1 says with blocks of 512 bytes (5.3.2)
_MOST_SMALL_BLOCKS = 4096 * 512
_ACCESS_TIME, _SPEED, _CLASSES = 0x0E, 0x32, 0x5B5  # 1 ms, 25 MHz, what a card must know


@dataclass(frozen=True, slots=True)
class CardKind:
    """A sort of card.

    ``high_capacity``: its addresses are blocks, not bytes, and it starts only for a host that says
    it knows that. ``csd_structure`` and ``sd_spec`` (with SD_SPEC3 as 3) as in its registers.
    ``unknown``: commands that it does not know, though others do.
    """

    high_capacity: bool
    csd_structure: int
    sd_spec: int
    unknown: frozenset[str] = frozenset({"cmd1"})
    voltages: int = _ALL_VOLTAGES

    @property
    def version_2(self) -> bool:
        """Whether it knows CMD8, and wants it before it starts."""
        return "cmd8" not in self.unknown

    @property
    def ocr(self) -> int:
        """The OCR when it is ready (5.1)."""
        return self.voltages | POWERED_UP | (CCS if self.high_capacity else 0)


_MMC = frozenset({"cmd8", "cmd55", "acmd6", "acmd13", "acmd23", "acmd41", "acmd51"})
KINDS: Mapping[str, CardKind] = {
    "sdsc1": CardKind(False, 0, 0, unknown=frozenset({"cmd1", "cmd6", "cmd8"})),
    "sdsc": CardKind(False, 0, 2),
    "sdhc": CardKind(True, 1, 3),
    "sdxc": CardKind(True, 1, 3),
    "sduc": CardKind(True, 2, 3),
    "low-voltage": CardKind(True, 1, 3, voltages=0x80),
    "mmc": CardKind(False, 0, 0, unknown=_MMC),
}


def find_kind(name: str) -> CardKind:
    """The kind of that name. Raises InputError."""
    if name not in KINDS:
        hint = nearest(name, list(KINDS)) or "; choose one of them"
        raise InputError(f"--kind: expected one of {', '.join(KINDS)}, got '{name}'{hint}")
    return KINDS[name]


def csd(kind: CardKind, blocks: int) -> bytes:
    """The card-specific data (5.3) of a card of ``blocks`` blocks, with its CRC."""
    fields = {
        (127, 126): kind.csd_structure, (119, 112): _ACCESS_TIME, (103, 96): _SPEED,
        (95, 84): _CLASSES, (46, 46): 1, (45, 39): 0x7F, (28, 26): 2, (25, 22): 9,
    }  # fmt: skip
    if kind.csd_structure:
        fields |= {(83, 80): 9, (69, 48): blocks // 1024 - 1}
    else:  # as cards of 2 GB have it: above 1 GiB the length stands for more, not the blocks
        length = 9 if blocks <= _MOST_SMALL_BLOCKS else 10
        fields |= {(83, 80): length, (73, 62): (blocks >> length) - 1, (49, 47): 7}
    register = bytearray(_packed(fields, 16))
    register[15] = crc7(bytes(register[:15])) << 1 | 1
    return bytes(register)


def scr(kind: CardKind) -> bytes:
    """The configuration (5.6): which specification, one and four bits."""
    spec, spec3 = min(kind.sd_spec, 2), kind.sd_spec > 2
    return _packed({(59, 56): spec, (54, 52): 3, (51, 48): 5, (47, 47): int(spec3)}, 8)


def function_status(chosen: int) -> bytes:
    """The 64 bytes of CMD6 (4.3.10): group 1 has default and high speed; ``chosen`` of them."""
    supported = {(415 + 16 * n, 400 + 16 * n): 0x8001 for n in range(1, 6)}
    return _packed({(511, 496): 100, **supported, (415, 400): 0x8003, (379, 376): chosen}, 64)


def crc7(data: bytes) -> int:
    """Of commands, CSD and CID (4.5): x^7 + x^3 + 1."""
    crc = 0
    for byte in data:
        for shift in range(7, -1, -1):
            top = crc >> 6 ^ byte >> shift & 1
            crc = crc << 1 & 0x7F ^ (0x09 if top & 1 else 0)
    return crc


def _packed(fields: Mapping[tuple[int, int], int], nbytes: int) -> bytes:
    """A register of (highest bit, lowest bit) -> value, the highest byte first."""
    word = 0
    for (high, low), value in fields.items():
        word |= (value & (1 << high - low + 1) - 1) << low
    return word.to_bytes(nbytes, "big")
