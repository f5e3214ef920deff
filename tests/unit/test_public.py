"""The public names: all there, all documented, and nothing heavy is imported before its use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import poet_mcu


@pytest.mark.parametrize("name", [n for n in poet_mcu.__all__ if n != "__version__"])
def test_every_public_name_exists_and_says_what_it_is(name: str) -> None:
    assert getattr(poet_mcu, name).__doc__
    assert getattr(poet_mcu, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        poet_mcu.fly  # noqa: B018 - the access is the test


def test_import_is_light() -> None:
    code = "import sys, poet_mcu; print([m for m in ('onnx', 'pulp', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
