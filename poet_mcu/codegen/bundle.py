"""The folder that a build leaves: generated files, a copy of the runtime, card image, manifest.

Everything is put together in a temporary folder beside the target and renamed into place at the
end, so a failed build leaves nothing half-written and an earlier build as it was.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from poet_mcu.errors import InputError
from poet_mcu.ir.placement import CheckpointSlots
from poet_mcu.units import BLOCK_BYTES

MANIFEST = "manifest.json"
#: the board as it was at the build, so that the folder needs no board file
BOARD_FILE = "board.json"
CARD_MAGIC = b"POET-MCU CARD\0\0\0"
CARD_VERSION = 2
MIN_CARD_BYTES = 8 * 1024 * 1024


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``target`` when the block ends well.

    An existing target is replaced only if it is empty or an earlier build of ours.
    """
    if target.exists() and not _replaceable(target):
        raise InputError(
            f"{target}: expected a new folder or an earlier build, got something else; "
            "choose another folder for -o or remove it"
        )
    parent = target.resolve().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=parent))
    except OSError as error:
        raise InputError(f"{target}: expected a folder that can be written: {error}") from error
    try:
        staging.chmod(0o755)
        yield staging
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=parent))
            target.rename(old / "build")
            staging.rename(target)
            shutil.rmtree(old)
        else:
            staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _replaceable(target: Path) -> bool:
    if not target.is_dir():
        return False
    return (target / MANIFEST).is_file() or not any(target.iterdir())


def card_header(build_id: bytes, region_blocks: int, slots: CheckpointSlots) -> bytes:
    """The first block of the raw region (SPEC.md, card header)."""
    places = (region_blocks, slots.first_block, slots.blocks)
    body = CARD_MAGIC + struct.pack("<I16s3I", CARD_VERSION, build_id, *places)
    return (body + struct.pack("<I", zlib.crc32(body))).ljust(BLOCK_BYTES, b"\0")


def write_card(
    path: Path, build_id: bytes, first_block: int, region_blocks: int, slots: CheckpointSlots
) -> None:
    """A sparse card image, a power of two in size, prepared for a build."""
    needed = (first_block + region_blocks) * BLOCK_BYTES
    size = MIN_CARD_BYTES
    while size < needed:
        size *= 2
    with path.open("wb") as image:
        image.truncate(size)
        image.seek(first_block * BLOCK_BYTES)
        image.write(card_header(build_id, region_blocks, slots))


def write_blank_card(path: Path) -> None:
    """A sparse card image of the least size, prepared for nothing."""
    with path.open("wb") as image:
        image.truncate(MIN_CARD_BYTES)


def digest(parts: Mapping[str, bytes]) -> bytes:
    """SHA-256 over named parts in the order of their names."""
    total = hashlib.sha256()
    for name in sorted(parts):
        total.update(name.encode() + b"\0" + hashlib.sha256(parts[name]).digest())
    return total.digest()


def write_manifest(folder: Path, facts: dict[str, Any]) -> None:
    """manifest.json: ``facts`` and the SHA-256 and size of every other file, sorted."""
    files = {
        str(path.relative_to(folder)): {
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    text = json.dumps({**facts, "files": files}, indent=2, sort_keys=True)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8", newline="\n")
