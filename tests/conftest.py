"""Lets tests import the helpers beside them, and refuses to skip where a tool is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# A test says what is computed, not how fast: no example has a time limit of its own.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Builds in tests compile the same runtime again and again; the key is the preprocessed text.
os.environ.setdefault(
    "POET_MCU_OBJECT_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "objects")
)


@pytest.fixture(autouse=True)
def _no_defect_passes_for_a_bad_model(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The front end refuses a model at which one of its lowerings raises a Python error: files may
    be damaged in any way. A test whose models are whole sees the error, which is a defect of ours.
    """
    if request.node.get_closest_marker("damaged_model") is None:
        monkeypatch.setattr("poet_mcu.frontend.walk.CONTRADICTIONS", ())
