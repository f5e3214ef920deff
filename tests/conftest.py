"""Lets tests import the helpers beside them, and refuses to skip where a tool is missing."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
