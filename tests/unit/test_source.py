"""What the package never does, whatever a file asks for (docs/security.md)."""

from __future__ import annotations

import re

import pytest

from poet_mcu import resources

FORBIDDEN = {
    "pickle": r"\b(c?pickle|dill|joblib|marshal|shelve)\b",
    "evaluation": r"(?<![\w.])(eval|exec)\(",
    "a shell": r"shell\s*=\s*True|\bos\.(system|popen)\b|\bgetoutput\b",
    "yaml": r"\byaml\b",
    "pickled arrays": r"allow_pickle\s*=\s*True",
    "unsafe XML and archives": r"\bextractall\(|\bxml\.(sax|dom|etree)",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_package_never_uses(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    files = sorted((resources.root() / "poet_mcu").rglob("*.py"))
    assert len(files) > 150
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []
