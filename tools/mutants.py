"""Finds what ``tools/mutate.py`` breaks: each check of the builder, each test of a checksum.

Nothing is picked by hand but the files. In the Python of ``CHECKS``:

- a condition that tells a fault when it holds never holds, nor does any one side of its ``or``;
  one that tells it when it does not hold always holds;
- a loop, or a comprehension of messages, that tells what it finds finds nothing, and so does a
  ``yield from`` another check;
- ``require`` finds that all is well; a call of another check is left out.

In all of ``poet_mcu`` a comparison with a checksum finds no difference. So it does in the C of
``firmware``, where moreover every status that tells a wrong checksum becomes POET_OK.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNIT = "tests/unit/test_"
HOST = "tests/host/test_"

#: file below poet_mcu -> the tests meant to notice that one of its checks is broken
CHECKS = {
    "ir/verify_card.py": f"{UNIT}card_layout.py",
    "ir/verify_graph.py": f"{UNIT}verify_graph.py",
    "ir/verify_placement.py": f"{UNIT}verify_placement.py",
    "ir/verify_program.py": f"{UNIT}verify_program.py",
    "ir/verify_schedule.py": f"{UNIT}verify_schedule.py {UNIT}card_homes.py",
    "memory/lifetimes.py": f"{UNIT}memory.py",
    "memory/pages.py": f"{UNIT}memory.py",
    "pipeline/build.py": f"{UNIT}checks_run.py",
    "pipeline/plan.py": f"{UNIT}checks_run.py",
    "pipeline/prepare.py": f"{UNIT}checks_run.py",
    "pipeline/selfcheck.py": f"{UNIT}sim.py",
    "pipeline/stepplan.py": f"{UNIT}checks_run.py",
    "schedule/decode.py": f"{UNIT}schedule_executor.py",
    "schedule/executor.py": f"{UNIT}schedule_executor.py",
    "schedule/planner.py": f"{UNIT}checks_run.py",
    "schedule/touch.py": f"{UNIT}schedule_executor.py",
    "sim/card.py": f"{UNIT}sim.py",
    "sim/interpreter.py": f"{UNIT}sim.py",
}
#: without the longest sweep over every byte of a session
_SD = " ".join(
    f"{HOST}storage_sd.py::test_{name}"
    for name in (
        "always_damaged_reads_are_an_error",
        "damaged_capacity_is_an_error",
        "always_refused_writes_are_an_error",
        "a_command_misheard_once_is_repeated",
        "a_command_always_misheard_is_an_error_of_the_bus",
        "another_echo_is_asked_for_again",
        "some_disturbed_bytes_under_sanitizers",
        "any_disturbed_byte_is_never_silent[sdsc-7]",
    )
)
_IO = f"{HOST}power.py::test_every_operation_fails_once_for_ever_or_turns_a_bit"
_POWER = f"{HOST}power.py::test_every_operation_of_a_restore_fails"
_F7 = "tests/emulator/test_sdmmc_faults.py"
#: file -> the tests meant to notice that one of its tests of a checksum is broken
CHECKSUMS = {
    "firmware/link/link.c": f"{HOST}trainer_line.py",
    "firmware/port/stm32f7/sdmmc.c": _F7,
    "firmware/port/stm32f7/sdmmc_command.c": _F7,
    "firmware/storage/checkpoint.c": f"{HOST}checkpoint_sequence.py {HOST}card_faults.py {_POWER}",
    "firmware/storage/page_store.c": f"{HOST}storage.py",
    "firmware/storage/sd_bus.c": _SD,
    "firmware/storage/sd_csd.c": f"{HOST}sd_csd.py",
    "firmware/storage/sd_spi.c": _SD,
    "firmware/train/card.c": _IO,
    "firmware/train/tensors.c": f"{HOST}trainer.py {_IO}",
    "poet_mcu/link/card_image.py": "tests/e2e/test_cli_card.py",
    "poet_mcu/link/client.py": f"{HOST}trainer.py",
    "poet_mcu/link/frame.py": f"{UNIT}link_frame.py",
    "poet_mcu/pipeline/position.py": "tests/e2e/test_cli_card.py",
    "poet_mcu/testing/suite/test_1_selftest.py": "tests/hil/test_suite.py",
}

#: mutations that no test can notice yet, and why
_STOP = (
    "the blocks before it have checksums of their own, and the command after it is repeated while "
    "the card still sends: that the stop was misheard changes only which of the two is repeated"
)
UNSEEN = {
    "sdmmc_command.c:read_switch_status~1": "the emulated FIFO loses its words as soon as the "
    "status that answers CMD6 has a wrong CRC, so the driver's next load ends the machine",
    "sd_spi.c:stop_reading~1": _STOP,
    "sd_spi.c:stop_reading~2": _STOP,
}


@dataclass(frozen=True, slots=True)
class Mutation:
    """Characters [``first``, ``last``) of ``file`` become ``text``; then ``tests`` fail."""

    name: str
    file: str
    first: int
    last: int
    text: str
    tests: tuple[str, ...]

    def apply(self, source: str) -> str:
        return source[: self.first] + self.text + source[self.last :]


@dataclass(frozen=True, slots=True)
class Break:
    """Characters [``first``, ``last``) of a source become ``text``, in a function."""

    function: str
    first: int
    last: int
    text: str


## Python


class _Python:
    """Positions of syntax in a source, and the functions that enclose it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def broken(self, function: str, node: ast.expr | ast.stmt, text: str) -> Break:
        first = self._place(node.lineno, node.col_offset)
        last = self._place(node.end_lineno or 1, node.end_col_offset or 0)
        return Break(function, first, last, text)

    def _place(self, line: int, column_bytes: int) -> int:
        before = self.lines[line - 1].encode()[:column_bytes]
        return self.starts[line - 1] + len(before.decode())

    def nodes(self) -> Iterator[tuple[str, ast.AST]]:
        """(enclosing function, node), each node once, in the order of the source."""
        waiting: list[tuple[str, ast.AST]] = [("", ast.parse(self.source))]
        while waiting:
            where, node = waiting.pop()
            yield where, node
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                where = f"{where}.{node.name}".lstrip(".")
            waiting += [(where, child) for child in reversed(list(ast.iter_child_nodes(node)))]


def _called(node: ast.AST) -> str:
    """Name of the function that an expression calls."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def _tells_itself(statement: ast.stmt) -> bool:
    """Whether the statement, not one inside it, tells a fault."""
    if isinstance(statement, ast.Raise):
        return isinstance(statement.exc, ast.Call) and _called(statement.exc) == "InternalError"
    if isinstance(statement, ast.Return) and isinstance(statement.value, ast.List):
        return bool(statement.value.elts)
    if isinstance(statement, ast.Expr):
        value = statement.value
        appends = isinstance(value, ast.Call) and ast.unparse(value.func) == "faults.append"
        return isinstance(value, ast.Yield) or appends or _called(value) == "_fail"
    return False


def tells(body: list[ast.stmt]) -> bool:
    """Whether a body tells a fault, outside of conditions and loops inside it."""
    return any(map(_tells_itself, body))


def _messages(node: ast.AST) -> ast.comprehension | None:
    """The loop of a comprehension of messages that has a condition."""
    if isinstance(node, ast.ListComp | ast.GeneratorExp) and isinstance(node.elt, ast.JoinedStr):
        return node.generators[-1] if node.generators[-1].ifs else None
    return None


_CHECK_CALL = re.compile(r"_?(check|verify)_\w+$")


def check_breaks(source: str) -> Iterator[Break]:
    """Every check of a Python source."""
    python = _Python(source)
    for where, node in python.nodes():
        messages = _messages(node)
        if isinstance(node, ast.If) and tells(node.body):
            yield python.broken(where, node.test, "False")
            if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or):
                for side in node.test.values:
                    yield python.broken(where, side, "False")
        elif isinstance(node, ast.If) and tells(node.orelse):
            yield python.broken(where, node.test, "True")
        elif isinstance(node, ast.For) and tells(node.body):
            yield python.broken(where, node.iter, "()")
        elif messages:
            yield python.broken(where, messages.ifs[0], "False")
        elif isinstance(node, ast.Call) and _called(node) == "require":
            yield python.broken(where, node.args[0], "True")
        elif isinstance(node, ast.Expr) and _CHECK_CALL.match(_called(node.value)):
            yield python.broken(where, node, "pass")
        elif isinstance(node, ast.YieldFrom):
            yield python.broken(where, node.value, "()")


def checksum_breaks_python(source: str) -> Iterator[Break]:
    """Every comparison with a checksum, or with a name that was given one in the function."""
    python = _Python(source)
    given: dict[str, set[str]] = {}
    for where, node in python.nodes():
        if isinstance(node, ast.Assign) and "crc" in ast.unparse(node.value).lower():
            names = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            given.setdefault(where, set()).update(names)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            if "crc" in ast.unparse(node).lower() or names & given.get(where, set()):
                same = isinstance(node.ops[0], ast.Eq)
                yield python.broken(where, node, str(same))


## C

_COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_EQUALITY = re.compile(r"[=!]=")
_TOLD = re.compile(r"\bPOET_E_\w*CRC\b")
_FUNCTION = re.compile(r"^[a-z][\w *]*?\b(\w+)\([^;{]*\)\n\{", re.MULTILINE)
#: what ends an operand of a comparison, at its own depth of parentheses
_LEFT_ENDS = re.compile(r"&&|\|\||[;{}?:,]|\breturn\b|(?<![=!<>])=(?!=)")
_RIGHT_ENDS = re.compile(r"&&|\|\||[;{}?:,]")


def _depths(code: str) -> list[int]:
    """Parentheses open before each character."""
    depth, found = 0, []
    for character in code:
        depth -= character == ")"
        found.append(depth)
        depth += character == "("
    return found


def _comparison(code: str, depths: list[int], at: int, end: int) -> tuple[int, int]:
    """[first, last) of the comparison whose operator is [at, end)."""
    first, depth = at, depths[at]
    while first > 0 and depths[first - 1] >= depth:  # the parenthesis around it lies one lower
        first -= 1
    ends = [m.end() for m in _LEFT_ENDS.finditer(code, first, at) if depths[m.start()] == depth]
    first = ends[-1] if ends else first
    last = end
    while depths[last] > depth or (depths[last] == depth and not _RIGHT_ENDS.match(code, last)):
        last += 1
    spaces = len(code[first:at]) - len(code[first:at].lstrip())
    return first + spaces, first + len(code[first:last].rstrip())


def checksum_breaks_c(source: str) -> Iterator[Break]:
    """Every comparison with a checksum, and every other statement that tells a wrong one."""
    code = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)
    depths = _depths(code)
    heads = [(m.start(), m[1]) for m in _FUNCTION.finditer(code)]

    def function(at: int) -> str:
        return [name for start, name in heads if start < at][-1]

    def begins(at: int) -> int:
        return max(code.rfind(end, 0, at) for end in ";{}")

    done: set[int] = set()  # statements, by where they begin
    functions = heads[0][0] if heads else len(code)
    for match in _EQUALITY.finditer(code, functions):
        first, last = _comparison(code, depths, match.start(), match.end())
        text = code[first:last]
        if "crc" in text.lower() and "POET_E_" not in text:
            always = "|| true" if match[0] == "==" else "&& false"
            yield Break(function(first), first, last, f"({source[first:last]} {always})")
            done.add(begins(first))
    for match in _TOLD.finditer(code, functions):
        begin = max(begins(match.start()), code.rfind(":", 0, match.start()))
        compared = _EQUALITY.search(code, begin, match.start())
        if not compared and begins(match.start()) not in done:
            yield Break(function(match.start()), match.start(), match.end(), "POET_OK")


## All


def mutations() -> Iterator[Mutation]:
    """One for each check and each test of a checksum, named by file and function, but UNSEEN."""
    yield from (mutation for mutation in _every() if mutation.name not in UNSEEN)


def _every() -> Iterator[Mutation]:
    for file, tests in CHECKS.items():
        source = (ROOT / "poet_mcu" / file).read_text(encoding="utf-8")
        yield from _named(f"poet_mcu/{file}", list(check_breaks(source)), tests)
    for file, tests in CHECKSUMS.items():
        source = (ROOT / file).read_text(encoding="utf-8")
        breaks = checksum_breaks_c if file.endswith(".c") else checksum_breaks_python
        yield from _named(file, list(breaks(source)), tests, "~")


def _named(file: str, breaks: list[Break], tests: str, mark: str = ":") -> Iterator[Mutation]:
    counts: Counter[str] = Counter()
    for each in breaks:
        counts[each.function] += 1
        name = f"{Path(file).name}:{each.function}{mark}{counts[each.function]}"
        yield Mutation(name, file, each.first, each.last, each.text, tuple(tests.split()))
