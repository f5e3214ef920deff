"""Every message of the verifiers belongs to a mutation of tools/mutate.py, or is named here."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import mutate

ROOT = Path(__file__).resolve().parents[2]

#: rules whose condition is a loop's or a comprehension's, by function: no mutation breaks them yet
IN_LOOPS = {
    "card": {},
    "graph": {"_reference_problems": 3, "_skipped_problems": 2},
    "placement": {"_pair_problems": 1, "_slot_problems": 2},
    "program": {},
    "schedule": {},
}


def unguarded(source: str) -> Counter[str]:
    """Statements that tell a fault outside of the body of any rule, by function."""
    found: Counter[str] = Counter()
    tree = ast.parse(source)
    rules = {node.lineno for _, node in mutate.rules(source)}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        inside = {
            part.lineno
            for node in ast.walk(function)
            if isinstance(node, ast.If) and node.lineno in rules
            for each in node.body
            for part in ast.walk(each)
            if isinstance(part, ast.Yield)
        }
        yields = [node for node in ast.walk(function) if isinstance(node, ast.Yield)]
        count = sum(node.lineno not in inside for node in yields)
        if count:
            found[function.name] = count
    return found


@pytest.mark.parametrize("name", mutate.VERIFIERS)
def test_every_message_is_a_mutations(name: str) -> None:
    source = (ROOT / "poet_mcu" / "ir" / f"verify_{name}.py").read_text(encoding="utf-8")
    assert unguarded(source) == IN_LOOPS[name]


def test_every_verifier_has_its_mutations() -> None:
    files = {
        path.stem.removeprefix("verify_") for path in (ROOT / "poet_mcu/ir").glob("verify_*.py")
    }
    assert set(mutate.VERIFIERS) == files
    made = list(mutate.mutations())
    assert len({m.name for m in made}) == len(made) > 80
    for mutation in made:
        lines = (ROOT / mutation.file).read_text(encoding="utf-8").splitlines()
        assert lines[mutation.first] != mutation.text
        lines[mutation.first : mutation.last + 1] = [mutation.text]
        ast.parse("\n".join(lines))
        assert all((ROOT / test).is_file() for test in mutation.tests)
