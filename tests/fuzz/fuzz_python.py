"""Runs a Python fuzz target under atheris: ``fuzz_python.py TARGET [libFuzzer's options]``.

``fuzz_python.py TARGET --seeds FOLDER`` writes the target's first inputs instead.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

TARGETS = ("onnx", "files")
MOST_BYTES = 8192


def load(target: str):
    """The target's module."""
    if target == "onnx":
        import onnx_target as module  # noqa: PLC0415  instrumented while it is imported
    else:
        import files_target as module  # noqa: PLC0415
    return module


def write_seeds(target: str, folder: Path) -> None:
    """One file per seed, named by its content."""
    with tempfile.TemporaryDirectory() as scratch:
        for data in load(target).seeds(MOST_BYTES, Path(scratch)):
            name = hashlib.sha256(data).hexdigest()[:12]
            (folder / name).write_bytes(data)


def fuzz(target: str, options: list[str]) -> None:
    import atheris  # noqa: PLC0415  not a dependency of the tests

    with atheris.instrument_imports(include=["poet_mcu"]):
        module = load(target)
    scratch = tempfile.mkdtemp(prefix=f"fuzz-{target}-", dir=os.environ.get("FUZZ_SCRATCH"))

    def one_input(data: bytes) -> None:
        module.one_input(data, Path(scratch))

    def mutate(data: bytes, most_bytes: int, seed: int) -> bytes:
        return module.mutate(data, most_bytes, seed, atheris.Mutate)

    atheris.Setup([sys.argv[0], *options], one_input, custom_mutator=mutate)
    atheris.Fuzz()


def main() -> None:
    target, *rest = sys.argv[1:]
    if target not in TARGETS:
        sys.exit(f"fuzz_python: expected one of {', '.join(TARGETS)}, got {target}")
    if rest[:1] == ["--seeds"]:
        write_seeds(target, Path(rest[1]))
    else:
        fuzz(target, rest)


if __name__ == "__main__":
    main()
