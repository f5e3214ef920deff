"""Is what a problem file says a problem? Its numbers come from outside: each is looked at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from poet_mcu.schedule import Op, Problem, Tensor


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_amount(value: Any) -> bool:
    """Seconds, joules, watts: a finite number, 0 or more, that a float holds."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return 0 <= value < _HUGE and math.isfinite(value)


def _are_ids(value: Any) -> bool:
    return isinstance(value, tuple) and all(_is_int(each) for each in value)


def _are_pairs(value: Any) -> bool:
    pairs = isinstance(value, tuple) and all(_are_ids(each) for each in value)
    return pairs and all(len(each) == len(("output", "input")) for each in value)


_HUGE = 1e30  # sums of what is allowed stay finite
_MOST = 2**48  # bytes: products with counts stay exact in a float
#: by the annotation of the field: (is it one, what is expected)
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = MappingProxyType(
    {
        "int": (lambda v: _is_int(v) and abs(v) < _MOST, f"an integer below {_MOST}"),
        "float": (_is_amount, f"a number in 0..{_HUGE:g}"),
        "bool": (lambda v: isinstance(v, bool), "true or false"),
        "str": (lambda v: isinstance(v, str), "text"),
        "tuple[int, ...]": (_are_ids, "a list of ids"),
        "tuple[tuple[int, int], ...]": (_are_pairs, "a list of pairs of ids"),
    }
)
_AT_LEAST_0 = frozenset({"nbytes", "workspace_bytes", "max_write_bytes"})
_AT_LEAST_1 = frozenset({"alignment_bytes"})


def check_problem(problem: Problem) -> None:
    """Raise ValueError for the first field that is not what ``schedule/problem.py`` says.

    Types and ranges only: which ids there must be is the planner's own question.
    """
    for i, tensor in enumerate(problem.tensors):
        _check_row(f"tensors[{i}]", tensor)
    for i, op in enumerate(problem.ops):
        _check_row(f"ops[{i}]", op)
    _check_row("problem", problem)
    if len({tensor.id for tensor in problem.tensors}) != len(problem.tensors):
        raise ValueError("tensors: expected ids that differ, got one twice")
    if len({op.id for op in problem.ops}) != len(problem.ops):
        raise ValueError("ops: expected ids that differ, got one twice")


def _check_row(where: str, row: Tensor | Op | Problem) -> None:
    for field in fields(row):
        if field.name in ("tensors", "ops"):
            continue
        value, kind = getattr(row, field.name), str(field.type)
        if kind.endswith(" | None") and value is None:
            continue
        holds, expected = _KINDS[kind.removesuffix(" | None")]
        least = 1 if field.name in _AT_LEAST_1 else 0 if field.name in _AT_LEAST_0 else None
        if not holds(value) or (least is not None and value < least):
            floor = "" if least is None else f" of {least} or more"
            raise ValueError(f"{where}.{field.name}: expected {expected}{floor}, got {value!r:.60}")
