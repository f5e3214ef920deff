"""Which weights are trained: glob patterns against the model's own names."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from poet_mcu.errors import InputError, nearest


def selector(train: Sequence[str], freeze: Sequence[str], names: Sequence[str]) -> frozenset[str]:
    """The names to train: those that match ``train`` (all when empty) and none of ``freeze``.

    ``names`` are all weights of the model. A pattern is a glob, or a name as it is (names may
    hold brackets). Raises InputError for a pattern that matches nothing, so a misspelt one is
    never ignored.
    """
    chosen = _matches("--train", train, names) if train else frozenset(names)
    return chosen - _matches("--freeze", freeze, names)


def _matches(option: str, patterns: Sequence[str], names: Sequence[str]) -> frozenset[str]:
    found: set[str] = set()
    for pattern in patterns:
        hits = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        if not hits:
            raise InputError(_no_match(option, pattern, names))
        found.update(hits)
    return frozenset(found)


def _no_match(option: str, pattern: str, names: Sequence[str]) -> str:
    hint = nearest(pattern, list(names))
    if not hint:
        shown = ", ".join(f"'{name}'" for name in list(names)[:8])
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        hint = f"; the weights are {shown}{more}" if names else "; the model has none"
    return f"{option} '{pattern}': expected a pattern that matches a weight, got no match{hint}"
