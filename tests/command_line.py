"""The command line as a user has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from poet_mcu.cli import main


class Outcome:
    """Exit code, standard output and standard error of one call."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: object) -> Outcome:
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        return Outcome(code, said.out, " ".join(said.err.split()))

    return call
