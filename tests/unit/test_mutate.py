"""tools/mutate.py breaks every check and every test of a checksum, and each mutation compiles."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from poet_mcu.board.load import load_board
from poet_mcu.toolchain.flags import LANGUAGE, WARNINGS, define_flags, machine_flags

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import mutants
import mutate

ROOT = Path(__file__).resolve().parents[2]
MADE = list(mutants.mutations())
#: functions that tell a fault whenever they are called
TELLERS = {
    "ir/verify_schedule.py": {"_Walk._fail"},
    "ir/verify_placement.py": {"_pair_problems"},
}


def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def unguarded(source: str) -> Counter[str]:
    """Messages that no broken condition, loop or call stands before, by function."""
    broken = {(each.first, each.last) for each in mutants.check_breaks(source)}
    python = mutants._Python(source)
    found: Counter[str] = Counter()

    def walk(node: ast.AST, where: str, guarded: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            where = f"{where}.{node.name}".lstrip(".")
        if isinstance(node, ast.If | ast.For):
            head = python.broken(where, node.test if isinstance(node, ast.If) else node.iter, "")
            if (head.first, head.last) in broken:
                guarded = True
        if isinstance(node, ast.stmt) and mutants.tells([node]) and not guarded:
            found[where] += 1
        for child in ast.iter_child_nodes(node):
            walk(child, where, guarded)

    walk(ast.parse(source), "", guarded=False)
    return found


@pytest.mark.parametrize("file", mutants.CHECKS)
def test_every_message_is_a_mutations(file: str) -> None:
    assert set(unguarded(text_of(f"poet_mcu/{file}"))) == TELLERS.get(file, set())


def test_every_verifier_has_its_mutations() -> None:
    verifiers = {f"ir/{path.name}" for path in (ROOT / "poet_mcu/ir").glob("verify_*.py")}
    assert verifiers == {file for file in mutants.CHECKS if "/verify_" in file}
    assert {m.file for m in MADE} == {
        *(f"poet_mcu/{file}" for file in mutants.CHECKS),
        *mutants.CHECKSUMS,
    }
    assert len({m.name for m in MADE}) == len(MADE)
    assert {m.name for m in mutants._every()} - {m.name for m in MADE} == set(mutants.UNSEEN)
    for file, _, test in {test.partition("::") for m in MADE for test in m.tests}:
        assert f"def {test.split('[')[0] or 'test_'}" in text_of(file)


def test_every_file_that_tests_a_checksum_has_its_mutations() -> None:
    c_files = [path for path in (ROOT / "firmware").rglob("*.c") if path.parent.name != "kernels"]
    python = [*(ROOT / "poet_mcu").rglob("*.py")]
    found = {
        str(path.relative_to(ROOT))
        for paths, breaks in (
            (c_files, mutants.checksum_breaks_c),
            (python, mutants.checksum_breaks_python),
        )
        for path in paths
        if list(breaks(path.read_text(encoding="utf-8")))
    }
    assert found == set(mutants.CHECKSUMS)


@pytest.mark.parametrize(
    ("statement", "broken"),
    [
        ("return crc == 0u ? A : B;", "return (crc == 0u || true) ? A : B;"),
        ("if (a || f(&x[1], n) != crc(0u, y)) {}", None),
        (
            "if (a ||\n    get(&x[AT_CRC]) != f(0u, x)) {}",
            "if (a ||\n    (get(&x[AT_CRC]) != f(0u, x) && false)) {}",
        ),
        ("if ((r1 & CRC) != 0u) {}", "if (((r1 & CRC) != 0u && false)) {}"),
        ("const bool same = crc(a, b) == s->c;", "const bool same = (crc(a, b) == s->c || true);"),
        ("if (x != y) { return POET_E_PAGE_CRC; }", "if (x != y) { return POET_OK; }"),
        ("return x == 1 ? A : POET_E_CARD_CRC;", "return x == 1 ? A : POET_OK;"),
        ("if (status == POET_E_CARD_CRC) {}", "if (status == POET_E_CARD_CRC) {}"),
        ("/* crc == 0 */ x = 1;", "/* crc == 0 */ x = 1;"),
    ],
)
def test_comparisons_of_checksums_in_c(statement: str, broken: str | None) -> None:
    """What ends an operand, what tells a wrong checksum by its status, and what is left alone."""
    head, tail = "static void f(void)\n{\n    ", "\n}\n"
    source = head + statement + tail
    for each in mutants.checksum_breaks_c(source):
        assert each.function == "f"
        source = source[: each.first] + each.text + source[each.last :]
    if broken is None:
        broken = statement.replace(
            "f(&x[1], n) != crc(0u, y)", "(f(&x[1], n) != crc(0u, y) && false)"
        )
    assert source == head + broken + tail


@pytest.mark.parametrize(
    "mutation", [m for m in MADE if m.file.endswith(".c")], ids=lambda m: m.name
)
def test_a_mutation_of_c_is_no_error_of_the_compiler(
    mutation: mutants.Mutation, tmp_path: Path
) -> None:
    """Else the compiler would notice it, and no test."""
    board = load_board("stm32f746g-disco" if "stm32f7" in mutation.file else "host")
    compiler = "gcc" if board.kind == "host" else "arm-none-eabi-gcc"
    folder = (ROOT / mutation.file).parent
    source = tmp_path / "broken.c"
    source.write_text(mutation.apply(text_of(mutation.file)), encoding="utf-8")
    flags = [*machine_flags(board), *define_flags(board), *LANGUAGE, *WARNINGS]
    includes = [f"-I{ROOT / 'firmware/include'}", f"-I{folder}", f"-I{folder / 'any'}"]
    command = [compiler, "-fsyntax-only", *flags, *includes, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_mutation_of_python_is_python() -> None:
    for mutation in MADE:
        before = text_of(mutation.file)
        assert before[mutation.first : mutation.last] != mutation.text
        if mutation.file.endswith(".py"):
            ast.parse(mutation.apply(before))


@pytest.mark.slow
def test_every_mutation_is_noticed() -> None:
    """All of tools/mutate.py."""
    assert not mutate.run(MADE)
