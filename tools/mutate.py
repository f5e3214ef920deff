"""Breaks each rule of the verifiers in turn; a test must notice every one.

    python tools/mutate.py [--only TEXT] [--jobs N]

Rules are found in the source: every ``if`` of ``ir/verify_*.py`` that tells a fault when it holds.
``tests/unit/test_mutate.py`` holds them against the messages in the source. Each mutation is made
in a copy of the tree, where only the tests meant to notice it run. Status 1: some survived.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("poet_mcu", "firmware", "tests", "boards", "templates", "tools", "examples", "docs")
FILES = ("pyproject.toml", "SPEC.md")
UNIT = "tests/unit/test_"
VERIFIERS = {
    "card": f"{UNIT}card_layout.py",
    "graph": f"{UNIT}verify_graph.py",
    "placement": f"{UNIT}verify_placement.py",
    "program": f"{UNIT}verify_program.py",
    "schedule": f"{UNIT}verify_schedule.py {UNIT}card_homes.py",
}


@dataclass(frozen=True, slots=True)
class Mutation:
    """Lines ``first`` to ``last`` (from 0) of ``file`` become ``text``; then ``tests`` fail."""

    name: str
    file: str
    first: int
    last: int
    text: str
    tests: tuple[str, ...]


def tells(node: ast.If) -> bool:
    """Whether the body itself, not a nested condition, tells a fault."""
    for statement in node.body:
        if isinstance(statement, ast.Raise):
            return True
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.List):
            return bool(statement.value.elts)
        if isinstance(statement, ast.Expr):
            if isinstance(statement.value, ast.Yield):
                return True
            called = statement.value.func if isinstance(statement.value, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in ("append", "_fail"):
                return True
    return False


def rules(source: str) -> Iterator[tuple[str, ast.If]]:
    """(function:number, condition) of every rule of a verifier, in order."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            found = [n for n in ast.walk(function) if isinstance(n, ast.If) and tells(n)]
            found.sort(key=lambda node: node.lineno)
            for number, node in enumerate(found, 1):
                yield f"{function.name}:{number}", node


def mutations() -> Iterator[Mutation]:
    """One for each rule."""
    for name, tests in VERIFIERS.items():
        file = f"poet_mcu/ir/verify_{name}.py"
        source = (ROOT / file).read_text(encoding="utf-8")
        lines = source.splitlines()
        for where, node in rules(source):
            test = node.test
            first, last = test.lineno - 1, (test.end_lineno or test.lineno) - 1
            head = lines[first][: test.col_offset]
            text = f"{head}False{lines[last][test.end_col_offset :]}"
            yield Mutation(f"{name}.{where}", file, first, last, text, tuple(tests.split()))


def copy_tree(folder: Path) -> None:
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copyfile(ROOT / name, folder / name)


def noticed(mutation: Mutation, folder: Path) -> bool:
    """Whether the tests fail in ``folder`` with the mutation; the file is as before afterwards."""
    path = folder / mutation.file
    before = path.read_text(encoding="utf-8")
    lines = before.splitlines()
    lines[mutation.first : mutation.last + 1] = [mutation.text]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *mutation.tests],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(folder)},
            capture_output=True,
            check=False,
        )
    finally:
        path.write_text(before, encoding="utf-8")
    return done.returncode == 1


def run_share(share: list[Mutation]) -> list[str]:
    """Names of those of ``share`` that survived, in a copy of their own."""
    with tempfile.TemporaryDirectory(prefix="poet-mcu-mutate-") as name:
        folder = Path(name)
        copy_tree(folder)
        survived = []
        for mutation in share:
            if not noticed(mutation, folder):
                survived.append(mutation.name)
                print(f"survived: {mutation.name}", flush=True)
        return survived


def main() -> int:
    """0 when every mutation was noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="mutations with this in their name")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    chosen = [m for m in mutations() if given.only in m.name]
    shares = [chosen[i :: given.jobs] for i in range(given.jobs)]
    with ThreadPoolExecutor(given.jobs) as pool:
        survived = [name for names in pool.map(run_share, shares) for name in names]
    print(f"{len(chosen)} mutations, {len(survived)} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
