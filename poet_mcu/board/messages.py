"""What pydantic finds wrong in a file, in our words: file, key, range, nearest match."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from poet_mcu.board.schema import Board
from poet_mcu.errors import nearest

_HELP: dict[type[BaseModel], str] = {Board: " (boards/README.md)"}


#: no unit makes a larger number right, and no float holds every integer
_MOST = 1e30


def describe(path: Path, detail: ErrorDetails, root: type[BaseModel]) -> list[str]:
    """Our message lines for one problem that pydantic found in a file of the model ``root``."""
    kind = detail["type"]
    keys = tuple(str(part) for part in detail["loc"] if part != "[key]")
    where = f"{path}: {'.'.join(keys)}" if keys else f"{path}"
    got = detail["input"]
    if kind == "missing":
        return [f"{where}: expected this key, got none; add it{_HELP.get(root, '')}"]
    if kind == "extra_forbidden" or (kind == "literal_error" and "[key]" in detail["loc"]):
        known = _known_keys(root, keys[:-1])
        hint = nearest(keys[-1], known) or "; remove it"
        return [f"{where}: expected one of {', '.join(known)}, got '{keys[-1]}'{hint}"]
    if kind == "value_error":
        texts = str(detail["ctx"]["error"]).splitlines()
        return [f"{where}: {text}; correct the file" for text in texts]
    limits = _range(root, keys)
    if limits is not None and isinstance(got, int | float) and not isinstance(got, bool):
        low, high = limits
        text = f"{where}: expected {low:.12g}..{high:.12g}, got {got}"
        return [text + (_unit_hint(got, low, high) or "; correct the value or its unit")]
    expected = detail["msg"][0].lower() + detail["msg"][1:]
    expected = expected.removeprefix("input should be ")
    return [f"{where}: expected {expected}, got {got!r}; correct the value"]


def _unit_hint(got: float, low: float, high: float) -> str:
    if not abs(got) < _MOST:
        return ""
    if low <= got * 1024 <= high and got > 0 and isinstance(got, int):
        return f"; did you mean {got * 1024} ({got} KiB)?"
    for factor, unit in ((1e-3, "milli"), (1e-6, "micro"), (1e6, "mega")):
        if low < got * factor <= high:
            return f"; did you mean {got * factor:.12g} ({got} {unit})?"
    return ""


def _model_at(root: type[BaseModel], keys: tuple[str, ...]) -> type[BaseModel] | None:
    """The table's class at ``keys`` of the file, None where there is none of our own."""
    model: type[BaseModel] | None = root
    skip = False
    for key in keys:
        if skip:  # the row's own name or number inside memory.*, cost.* or a list
            skip = False
            continue
        if model is None or key not in model.model_fields:
            return None
        annotation = model.model_fields[key].annotation
        candidates = [annotation, *get_args(annotation)]
        models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        skip = bool(get_args(annotation)) and getattr(annotation, "__origin__", None) in (
            dict,
            tuple,
        )
        model = models[0] if models else None
    return None if skip else model


def _known_keys(root: type[BaseModel], keys: tuple[str, ...]) -> list[str]:
    model = _model_at(root, keys)
    if model is not None:
        fields = model.model_fields.items()
        return sorted(f.alias or name for name, f in fields) + (
            ["extends"] if not keys and root is Board else []
        )
    above = _model_at(root, keys[:-1]) or root
    annotation = above.model_fields[keys[-1]].annotation
    return [str(name) for name in get_args(get_args(annotation)[0])]


def _item_range(root: type[BaseModel], keys: tuple[str, ...]) -> tuple[float, float] | None:
    model = _model_at(root, keys[:-1])
    field = model.model_fields.get(keys[-1]) if model is not None else None
    item = get_args(get_args(field.annotation)[0])[1:] if field and keys else ()
    limits = [part.metadata for part in item if isinstance(part, FieldInfo)]
    low = [m.ge for row in limits for m in row if isinstance(m, Ge)]
    high = [m.le for row in limits for m in row if isinstance(m, Le)]
    return (float(low[0]), float(high[0])) if low and high else None  # type: ignore[arg-type]


def _range(root: type[BaseModel], keys: tuple[str, ...]) -> tuple[float, float] | None:
    """The ge and le of the key, None when it has no such limits."""
    if keys[-1].isdigit():  # an item of a list of numbers has the list's limits
        return _item_range(root, keys[:-1])
    model = _model_at(root, keys[:-1])
    field = model.model_fields.get(keys[-1]) if model is not None else None
    low = [m.ge for m in field.metadata if isinstance(m, Ge)] if field else []
    high = [m.le for m in field.metadata if isinstance(m, Le)] if field else []
    return (float(low[0]), float(high[0])) if low and high else None  # type: ignore[arg-type]
