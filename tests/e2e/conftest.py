"""The command line as a user has it, for all tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import models
import pytest

from poet_mcu.cli import main

BOARD = "qemu-m7-sd"


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


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.save(models.cnn("N"), tmp_path_factory.mktemp("m") / "cnn.onnx")


@pytest.fixture(scope="module")
def built(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("b") / "build"
    assert main(["build", str(model), "--board", BOARD, "--batch", "2", "-o", str(folder)]) == 0
    return folder
