"""Fails when a file or a function is longer than the house allows.

Python: 400 lines a file, 40 a function. C: 500 a file, 60 a function. Headers count as C.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {".py": (400, 40), ".c": (500, 60), ".h": (500, 60)}

#: path or path:function -> (lines allowed, why). Keep it short.
EXCEPTIONS: dict[str, tuple[int, str]] = {}

_C_HEAD = re.compile(r"^[A-Za-z_][\w\s\*,()\[\]]*?\b(\w+)\s*\(")


def python_functions(text: str) -> list[tuple[str, int]]:
    """(name, lines) of every function, decorators not counted."""
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def c_functions(text: str) -> list[tuple[str, int]]:
    """(name, lines) of every function of a file in our layout: head and '}' in column one."""
    found, name, start = [], "", 0
    for number, line in enumerate(text.splitlines(), 1):
        head = _C_HEAD.match(line)
        if head and not line.rstrip().endswith(";"):
            name, start = head[1], number
        elif line.startswith("}") and name:
            if line.rstrip() == "}":
                found.append((name, number - start + 1))
            name = ""
    return found


def check(path: str, text: str) -> list[str]:
    """Complaints about one file."""
    file_limit, function_limit = LIMITS[Path(path).suffix]
    measured = [(path, len(text.splitlines()), file_limit)]
    functions = python_functions(text) if path.endswith(".py") else c_functions(text)
    measured += [(f"{path}:{name}", lines, function_limit) for name, lines in functions]
    return [
        f"{what}: expected at most {EXCEPTIONS.get(what, (limit, ''))[0]} lines, got {lines}; "
        "split it, or list it with a reason in tools/check_limits.py"
        for what, lines, limit in measured
        if lines > EXCEPTIONS.get(what, (limit, ""))[0]
    ]


def tracked_files(root: Path = ROOT) -> list[str]:
    """Files git knows or would add, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return sorted({name for name in run.stdout.splitlines() if (root / name).is_file()})


def main() -> int:
    """0 when everything is within the limits."""
    names = [name for name in tracked_files() if Path(name).suffix in LIMITS]
    complaints = []
    for name in names:
        complaints += check(name, (ROOT / name).read_text(encoding="utf-8"))
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    print(f"check_limits: {len(names)} files, {len(complaints)} too long")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
