"""Committed figures of the benchmarks: reading, writing, and the check against a regression."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

TOLERANCE = 0.02

Figures = Mapping[str, Mapping[str, Mapping[str, int]]]  # core -> row -> 'instructions', ...


def load(path: Path) -> dict[str, Any]:
    """The committed figures by core; none when the file does not exist yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def save(
    path: Path, figures: Mapping[str, Mapping[str, Any]], known: Collection[str] | None = None
) -> None:
    """Rows that were not counted now stay as they are; with ``known`` all others than those go."""
    kept = load(path)
    both = {core: {**kept.get(core, {}), **rows} for core, rows in {**kept, **figures}.items()}
    merged = {
        core: {name: row for name, row in rows.items() if known is None or name in known}
        for core, rows in both.items()
    }
    text = json.dumps(merged, indent=1)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def regressions(now: Figures, then: Figures, name: str) -> list[str]:
    """A message for each row that needs over TOLERANCE more, or has no figure in file ``name``."""
    found = []
    for core, rows in now.items():
        for row, figures in rows.items():
            value = figures["instructions"]
            limit = then.get(core, {}).get(row, {}).get("instructions")
            if limit is None:
                found.append(
                    f"{name}: {core} {row}: expected a committed figure, got none; run --update"
                )
            # One instruction more: kernels of a few dozen would jump over 2 % by it.
            elif value > limit * (1 + TOLERANCE) + 1:
                found.append(
                    f"{name}: {core} {row}: expected at most {limit} instructions and 2 %, got "
                    f"{value} (+{value / limit - 1:.1%}); make it faster or run --update"
                )
    return found


def better(now: Figures, then: Figures) -> int:
    """How many rows need over TOLERANCE less than committed."""
    pairs = [
        (figures["instructions"], then[core][row]["instructions"])
        for core, rows in now.items()
        for row, figures in rows.items()
        if row in then.get(core, {})
    ]
    return sum(value < limit * (1 - TOLERANCE) for value, limit in pairs)


def check(now: Figures, path: Path) -> int:
    """Say on stderr how ``now`` lies to the committed figures of ``path``; 1 on a regression."""
    then = load(path)
    found = regressions(now, then, path.name)
    rows = sum(len(figures) for figures in now.values())
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    print(
        f"{path.name}: {rows} rows checked, {len(found)} worse than committed, "
        f"{better(now, then)} better by over 2 %",
        file=sys.stderr,
    )
    return 1 if found else 0
