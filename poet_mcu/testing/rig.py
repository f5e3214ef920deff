"""The rig file: which boards are on this desk, on which port, with which probe and card."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from poet_mcu.board.load import load_board
from poet_mcu.board.messages import describe
from poet_mcu.board.schema import Board
from poet_mcu.board.tables import Strings, Table
from poet_mcu.errors import InputError, nearest


class RigBoard(Table):
    """One board of the rig.

    ``board`` is a name for --board or a TOML file beside the rig's. ``port`` '' looks for the
    console by its USB id, ``probe`` is the serial number of the debug probe. With ``by_hand``
    nothing is flashed: the suite says what it wants on the board, and waits for it. ``card`` is
    text for reports. ``power_cycle`` is a command that takes the power away and gives it back;
    without it the board is reset instead.
    """

    board: Annotated[str, Field(min_length=1)]
    emulate: bool = False
    port: str = ""
    probe: str = ""
    by_hand: bool = False
    tool: Literal["", "pyocd", "openocd", "st-flash", "uf2"] = ""
    volume: str = ""
    card: str = ""
    erase_card: bool = False
    power_cycle: Strings = ()


class Rig(Table):
    """The whole file."""

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    boards: Annotated[dict[str, RigBoard], Field(min_length=1)]


def load_rig(path: Path) -> Rig:
    """The rig in ``path``. Raises InputError with all problems: file, key, range, nearest match."""
    try:
        tree: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return Rig.model_validate(tree)
    except OSError as error:
        raise InputError(
            f"{path}: expected a readable rig file, got {error.strerror}; check the path"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected TOML, got {error}; correct the file") from error
    except ValidationError as error:
        lines = [line for detail in error.errors() for line in describe(path, detail, Rig)]
        raise InputError("\n".join(lines)) from error


def choose(rig: Rig, path: Path, wanted: str | None) -> RigBoard:
    """The entry called ``wanted``, or of that board, or the only one there is."""
    if wanted is None and len(rig.boards) == 1:
        (entry,) = rig.boards.values()
        return _located(entry, path)
    known = {name: entry for name, entry in rig.boards.items() if wanted in (name, entry.board)}
    if len(known) == 1:
        (entry,) = known.values()
        return _located(entry, path)
    names = sorted(rig.boards)
    hint = nearest(wanted or "", names)
    raise InputError(
        f"{path}: boards: expected --board with one of {', '.join(names)}, got "
        f"{wanted or 'none'}{hint or '; choose one'}"
    )


def _located(entry: RigBoard, path: Path) -> RigBoard:
    """With the board's file found from the rig's folder."""
    if not entry.board.endswith((".toml", ".json")):
        return entry
    return entry.model_copy(update={"board": str(path.parent / entry.board)})


def board_of(entry: RigBoard) -> Board:
    """The board file of an entry."""
    return load_board(entry.board)


def entry_of(
    board: str | None, rig: Path | None, changes: Mapping[str, str | bool | None]
) -> RigBoard | None:
    """The board that the options describe; ``changes`` are those given. None without any."""
    if rig is not None:
        entry = choose(load_rig(rig), rig, board)
    elif board is not None:
        entry = RigBoard(board=board)
    else:
        return None
    return entry.model_copy(update={key: value for key, value in changes.items() if value})
