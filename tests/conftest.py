"""Lets tests import the helpers beside them, and refuses to skip where a tool is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# Builds in tests compile the same runtime again and again; the key is the preprocessed text.
os.environ.setdefault(
    "POET_MCU_OBJECT_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "objects")
)
