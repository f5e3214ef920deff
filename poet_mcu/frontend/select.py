"""Which weights are trained: glob patterns against the model's own names."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from poet_mcu.errors import InputError, nearest
from poet_mcu.ir.graph import Graph, Role


def selector(
    train: Sequence[str],
    freeze: Sequence[str],
    names: Sequence[str],
    numbers: frozenset[str] = frozenset(),
) -> frozenset[str]:
    """The names to train: those that match ``train`` and none of ``freeze``.

    ``names`` are all weights of the model. Without ``train`` they are meant, but not ``numbers``
    unless nothing else is left. A pattern is a glob, or a name as it is (names may
    hold brackets). Raises InputError for a pattern that matches nothing, so a misspelt one is
    never ignored.
    """
    usual = frozenset(names) - numbers or frozenset(names)
    chosen = _matches("--train", train, names) if train else usual
    return chosen - _matches("--freeze", freeze, names)


def last_layers(graph: Graph, count: int) -> frozenset[str]:
    """Names of the weights that the last ``count`` operators with weights of their own read.

    ``graph`` is a forward graph with every weight trainable; its order is that of execution. An
    operator of the model that became several nodes (an LSTM) counts once. Raises InputError when
    there are fewer such operators.
    """
    by_operator: dict[str, set[str]] = {}
    for node in graph.nodes:
        read = (graph.values[graph.root(v)] for v in node.inputs)
        names = {value.origin or value.name for value in read if value.role is Role.PARAMETER}
        if names:
            by_operator.setdefault(node.origin or f"#{node.id}", set()).update(names)
    found = list(by_operator.values())
    if count > len(found):
        raise InputError(
            f"--train-last: expected at most the {len(found)} operators that have weights, "
            f"got {count}; lower it or leave it out"
        )
    return frozenset[str]().union(*found[-count:])


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
