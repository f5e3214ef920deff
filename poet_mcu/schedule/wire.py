"""A solver's job as one line of text: its arrays in base64, since numbers in JSON are slow to read.

A model of 15,000 slots has two million coefficients.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

#: arrays of a job and what they hold
ARRAYS = {
    "cost": "<f8", "lower": "<f8", "upper": "<f8", "row_lower": "<f8", "row_upper": "<f8",
    "value": "<f8", "start": "<i4", "index": "<i4", "integer": "<i1",
}  # fmt: skip


def to_line(job: dict[str, Any]) -> str:
    """``job`` as a line of text."""
    packed = {
        key: base64.b64encode(np.asarray(job[key], dtype=kind).tobytes()).decode("ascii")
        for key, kind in ARRAYS.items()
    }
    return json.dumps({**job, **packed}) + "\n"


def from_line(line: str) -> dict[str, Any]:
    """The job of a line; its arrays are numpy's."""
    job: dict[str, Any] = json.loads(line)
    unpacked = {
        key: np.frombuffer(base64.b64decode(job[key]), dtype=kind) for key, kind in ARRAYS.items()
    }
    return {**job, **unpacked}
