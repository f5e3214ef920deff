"""Breaks each check of the builder and each test of a checksum in turn; a test must notice.

    python tools/mutate.py [--only TEXT] [--list]

What is broken, and how, is found by ``mutants.py``; ``tests/unit/test_mutate.py`` holds it against
the messages in the source. Each mutation is made in a copy of the tree, where only the tests meant
to notice it run. They run once before with nothing broken. Status 1: some mutations survived.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from mutants import ROOT, Mutation, mutations

PARTS = ("poet_mcu", "firmware", "tests", "boards", "templates", "tools", "examples", "docs")
FILES = ("pyproject.toml", "SPEC.md")
#: what most tests import beside what is mutated
PRELOADED = ("numpy", "onnx", "onnx.helper", "hypothesis", "pulp", "highspy", "jinja2", "pydantic")


def copy_tree(folder: Path) -> None:
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copyfile(ROOT / name, folder / name)


def _run_tests(tests: Sequence[str], folder: Path) -> NoReturn:
    """In a process of its own: ends it with pytest's status. No plugin keeps what it has seen."""
    with (folder / "tests.log").open("w") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path[:] = [str(folder), *(path for path in sys.path if Path(path) != ROOT)]
    sys.dont_write_bytecode = True
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    status = pytest.main([*options, *tests])
    sys.stdout.flush()
    os._exit(status)


def all_pass(tests: Sequence[str], folder: Path) -> bool:
    """Whether the tests pass in ``folder``; RuntimeError when they do not even run."""
    child = os.fork()  # what costs most at the start of Python has been imported: PRELOADED
    if child == 0:
        _run_tests(tests, folder)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError((folder / "tests.log").read_text(encoding="utf-8")[-4000:])
    return status == pytest.ExitCode.OK


def survives(mutation: Mutation, folder: Path) -> bool:
    """Whether the tests pass all the same; the file is as before afterwards."""
    path = folder / mutation.file
    before = path.read_text(encoding="utf-8")
    path.write_text(mutation.apply(before), encoding="utf-8")
    try:
        return all_pass(mutation.tests, folder)
    finally:
        path.write_text(before, encoding="utf-8")


def run(chosen: Sequence[Mutation]) -> list[str]:
    """Names of the mutations that survived, in a copy of the tree."""
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="poet-mcu-mutate-") as name:
        folder = Path(name)
        copy_tree(folder)
        survived: list[str] = []
        known: set[tuple[str, ...]] = set()
        for mutation in chosen:
            began_s = time.monotonic()
            if mutation.tests not in known and not all_pass(mutation.tests, folder):
                raise RuntimeError(f"{mutation.tests}: expected to pass with nothing broken")
            known.add(mutation.tests)
            lives = survives(mutation, folder)
            outcome = "SURVIVED" if lives else "noticed"
            print(f"{outcome} {mutation.name} ({time.monotonic() - began_s:.1f} s)", flush=True)
            survived += [mutation.name] if lives else []
        return survived


def main() -> int:
    """0 when every mutation was noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="mutations with this in file or name")
    parser.add_argument("--list", action="store_true", help="only say what would be broken")
    given = parser.parse_args()
    chosen = [m for m in mutations() if given.only in f"{m.file} {m.name}"]
    if given.list:
        for mutation in chosen:
            source = (ROOT / mutation.file).read_text(encoding="utf-8")
            broken = " ".join(source[mutation.first : mutation.last].split())
            print(f"{mutation.name}: {broken} -> {' '.join(mutation.text.split())}")
        return 0
    survived = run(chosen)
    print(f"{len(chosen)} mutations, {len(survived)} survived", *survived, sep="\n")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
