"""The kept inputs of all fuzz targets, played again: by gcc's sanitizers, and without atheris."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import c_targets
import files_target
import onnx_target
import pytest

PYTHON = {"onnx": (onnx_target.one_input, "planned"), "files": (files_target.one_input, "read")}
MOST_BYTES = 300_000  # of all archives


@pytest.mark.parametrize("target", c_targets.TARGETS)
def test_kept_inputs_break_no_rule_of_the_firmware(target: str, tmp_path: Path) -> None:
    program = c_targets.build_replay(target, tmp_path / "replay")
    (tmp_path / "inputs").mkdir()
    files = c_targets.unpack(target, tmp_path / "inputs")
    assert len(files) > 100
    done = subprocess.run(
        [str(program), *map(str, files)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == f"{len(files)} inputs\n"


@pytest.mark.parametrize("target", PYTHON)
def test_kept_inputs_are_read_or_refused(target: str, tmp_path: Path) -> None:
    one_input, whole = PYTHON[target]
    (tmp_path / "inputs").mkdir()
    files = c_targets.unpack(target, tmp_path / "inputs")
    ends = Counter(one_input(path.read_bytes(), tmp_path) for path in files)
    assert min(ends["refused"], ends[whole]) > 10, ends


def test_the_archives_stay_small() -> None:
    names = (*c_targets.TARGETS, *PYTHON)
    sizes = {name: (c_targets.CORPUS / f"{name}.zip").stat().st_size for name in names}
    assert sum(sizes.values()) < MOST_BYTES, sizes
