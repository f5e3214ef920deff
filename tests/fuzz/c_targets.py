"""The C fuzz targets: what they are made of, how they are built, where their inputs are kept."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from poet_mcu.toolchain.flags import LANGUAGE, WARNINGS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CORPUS = HERE / "corpus"

_STORAGE = tuple(f"firmware/storage/{n}.c" for n in ("checkpoint", "crc", "page_store", "status"))
#: harness files, then files or globs of the firmware
TARGETS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "link": (
        ("link_fuzz.c", "line.c", "link_model.c", "memory_card.c"),
        ("firmware/link/link.c", "firmware/train/*.c", *_STORAGE),
    ),
    "card": (("card_fuzz.c", "memory_card.c"), _STORAGE),
}

_STRICT = (*(flag for flag in LANGUAGE if flag != "-ffreestanding"), *WARNINGS)
_COMMON = ("-g", "-O1", "-DPOET_FMA_FUSED=0", "-fno-sanitize-recover=all")


def sources(target: str) -> list[Path]:
    """The C files of a target without an entry point."""
    ours, patterns = TARGETS[target]
    found = [HERE / name for name in ours]
    for pattern in patterns:
        found += sorted(p for p in ROOT.glob(pattern) if p.name != "main.c")
    return found


def build_fuzzer(target: str, out: Path, clang: str) -> Path:
    """The target with libFuzzer, ASan and UBSan. Strictness is gcc's business: see build_replay."""
    flags = [*LANGUAGE[:2], *_COMMON, "-fsanitize=fuzzer,address,undefined"]
    return _compile([clang, *flags], sources(target), out)


def build_replay(target: str, out: Path) -> Path:
    """A program that plays files through the target, by gcc with ASan and UBSan."""
    flags = [*_STRICT, *_COMMON, "-fsanitize=address,undefined"]
    return _compile(["gcc", *flags], [*sources(target), HERE / "replay_main.c"], out)


def _compile(command: list[str], files: list[Path], out: Path) -> Path:
    include = f"-I{ROOT / 'firmware' / 'include'}"
    subprocess.run([*command, include, *map(str, files), "-o", str(out), "-lm"], check=True)
    return out


def unpack(target: str, folder: Path) -> list[Path]:
    """The kept inputs of a target as files in ``folder``."""
    archive = CORPUS / f"{target}.zip"
    if archive.is_file():
        with zipfile.ZipFile(archive) as kept:
            kept.extractall(folder)
    return sorted(folder.iterdir())


def pack(target: str, folder: Path) -> Path:
    """Keep the files of ``folder``; the same files give the same archive."""
    archive = CORPUS / f"{target}.zip"
    CORPUS.mkdir(exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as kept:
        for path in sorted(folder.iterdir()):
            kept.writestr(zipfile.ZipInfo(path.name[:12]), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return archive
