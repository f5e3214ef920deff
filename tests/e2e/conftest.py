"""The command line as a user has it, for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import models
import pytest
from command_line import run

from poet_mcu.cli import main

__all__ = ["run"]
BOARD = "qemu-m7-sd"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.save(models.cnn("N"), tmp_path_factory.mktemp("m") / "cnn.onnx")


@pytest.fixture(scope="module")
def built(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("b") / "build"
    assert main(["build", str(model), "--board", BOARD, "--batch", "2", "-o", str(folder)]) == 0
    return folder
