"""A board as a TOML file of its own: everything in it, nothing to look up elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from poet_mcu.board.schema import Board


def board_toml(board: Board, comment: str) -> str:
    """The file's text; ``comment`` becomes its first lines."""
    tree = board.model_dump(mode="json", by_alias=True, exclude_none=True)
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    return "\n".join([*lines, *_table(tree, "")]) + "\n"


def _table(tree: Mapping[str, Any], name: str) -> list[str]:
    """Plain keys first, then the tables below, each under its whole name."""
    plain = {key: value for key, value in tree.items() if not _is_table(value)}
    lines = ["", f"[{name}]"] if name and plain else []
    lines += [f"{key} = {_value(value)}" for key, value in plain.items()]
    for key, value in tree.items():
        where = f"{name}.{key}" if name else key
        if isinstance(value, Mapping):
            lines += _table(value, where)
        elif _is_table(value):
            for entry in value:
                lines += ["", f"[[{where}]]"]
                lines += [f"{k} = {_value(v)}" for k, v in entry.items() if not _is_table(v)]
                below = {k: v for k, v in entry.items() if _is_table(v)}
                for k, v in below.items():
                    lines += _table(v, f"{where}.{k}")
    return lines


def _is_table(value: object) -> bool:
    """A table, or a list of them."""
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    )


def _value(value: object) -> str:
    """JSON's spelling is TOML's, for texts, numbers, booleans and lists of them."""
    return json.dumps(value, ensure_ascii=False)
