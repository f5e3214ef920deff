"""TOML board files -> Board: parents are merged in, errors name file, key, range, nearest match."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from poet_mcu import resources
from poet_mcu.board.messages import describe
from poet_mcu.board.schema import Board
from poet_mcu.errors import BoardError, nearest

_Tree = dict[str, Any]


def load_board(name_or_path: str | Path) -> Board:
    """The board of that name, alias or file: TOML, or the JSON that ``board_text`` gives.

    Raises BoardError with all problems at once.
    """
    text = str(name_or_path)
    if text.endswith((".toml", ".json")) or isinstance(name_or_path, Path):
        return _load_file(Path(name_or_path))
    files = {_key(path.stem): path for path in _board_files()}
    wanted = _key(text)
    if wanted in files:
        return _load_file(files[wanted])
    aliases = _aliases()
    if wanted in aliases:
        return _load_file(aliases[wanted])
    hint = nearest(wanted, sorted([*files, *aliases]))
    raise BoardError(
        f"board '{text}': expected one of {', '.join(list_boards())} or a .toml file, got an "
        f"unknown board{hint or '; write a board file for it (boards/README.md)'}"
    )


def buildable(board: Board) -> Board:
    """``board``; BoardError when no firmware can be made for it."""
    if board.has_firmware:
        return board
    known = [name for name in list_boards() if load_board(name).has_firmware]
    raise BoardError(
        f"{board.name}: kind: expected a board that firmware is for, got 'planning'; plan and "
        f"sweep work with it, build works with {', '.join(known)}"
    )


def board_text(board: Board) -> str:
    """The board as one JSON object, with nothing to look up elsewhere."""
    tree = board.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(tree, indent=2, sort_keys=True) + "\n"


def list_boards() -> tuple[str, ...]:
    """Names of all boards that poet-mcu brings along, sorted."""
    return tuple(sorted(path.stem for path in _board_files()))


def _board_files() -> list[Path]:
    return sorted(resources.boards().glob("*.toml"))


def _key(name: str) -> str:
    """Names are compared without case; underscores are accepted for hyphens."""
    return name.strip().lower().replace("_", "-")


def _aliases() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in _board_files():
        for alias in _read(path).get("aliases", []):
            found[_key(str(alias))] = path
    return found


def _load_file(path: Path) -> Board:
    tree = _with_parents(path, ())
    try:
        board = Board.model_validate(tree)
    except ValidationError as error:
        lines = [line for detail in error.errors() for line in describe(path, detail, Board)]
        raise BoardError("\n".join(lines)) from error
    if path.parent == resources.boards() and board.name != path.stem:
        raise BoardError(
            f"{path}: name: expected '{path.stem}' as the file is called, got '{board.name}'; "
            "rename one of them"
        )
    return board


#: far more than any board file has; the parsers' own limits are those of the stack
_MOST_CHARACTERS = 2**20
_DEEP = re.compile(r"(\.\s*[\w-]+\s*){32}|(\[\s*){32}")


def _parse(text: str, *, is_json: bool) -> Any:
    if len(text) > _MOST_CHARACTERS or _DEEP.search(text):
        raise ValueError("a file that is too large or too deeply nested")
    return json.loads(text) if is_json else tomllib.loads(text)


def _read(path: Path) -> _Tree:
    is_json = path.suffix == ".json"
    try:
        text = path.read_text(encoding="utf-8")
        tree = _parse(text, is_json=is_json)
    except OSError as error:
        raise BoardError(
            f"{path}: expected a readable board file, got {error.strerror}; check the path"
        ) from error
    except (ValueError, RecursionError) as error:
        wanted = "JSON" if is_json else "TOML"
        raise BoardError(f"{path}: expected {wanted}, got {error}; correct the file") from error
    if not isinstance(tree, dict):
        raise BoardError(f"{path}: expected an object with tables, got a {type(tree).__name__}")
    return tree


def _with_parents(path: Path, below: tuple[Path, ...]) -> _Tree:
    """The file's tree over the trees of its parents, which come first and are overridden."""
    if path.resolve() in below:
        raise BoardError(f"{path}: extends: expected no circle, got one; remove this key")
    tree = _read(path)
    parents = tree.pop("extends", [])
    if isinstance(parents, str):
        parents = [parents]
    if not isinstance(parents, list) or not all(isinstance(p, str) for p in parents):
        raise BoardError(
            f"{path}: extends: expected a name such as 'soc/lm3s6965' or a list of them, got "
            f"{parents!r}; correct the key"
        )
    merged: _Tree = {}
    for parent in parents:
        found = _parent_file(path, parent)
        merged = _merge(path, merged, _with_parents(found, (*below, path.resolve())))
    return _merge(path, merged, tree)


def _parent_file(child: Path, name: str) -> Path:
    if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
        raise BoardError(
            f"{child}: extends: expected the name of a file below its folder, got '{name}'; "
            "copy that file there"
        )
    for folder in (child.parent, resources.boards()):
        candidate = folder / f"{name}.toml"
        if candidate.is_file():
            return candidate
    base = resources.boards()
    known = [str(p.relative_to(base).with_suffix("")) for p in sorted(base.rglob("*.toml"))]
    raise BoardError(
        f"{child}: extends: expected a file below {child.parent} or the boards folder, got "
        f"'{name}'{nearest(name, known) or '; one of ' + ', '.join(known)}"
    )


def _merge(path: Path, base: _Tree, over: _Tree, where: str = "") -> _Tree:
    """``over`` on top of ``base``, table by table; replaced numbers need their own source."""
    merged = dict(base)
    if "source" in base and "source" not in over:
        raise BoardError(
            f"{path}: {where}.source: expected this key beside the keys that are replaced here, "
            "got none; say where the new numbers come from"
        )
    for key, value in over.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = _merge(path, old, value, f"{where}.{key}".lstrip("."))
        else:
            merged[key] = value
    return merged
