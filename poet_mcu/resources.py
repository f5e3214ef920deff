"""Finds the data that is not Python: templates, boards, firmware; in a checkout or in a wheel."""

from __future__ import annotations

from pathlib import Path

from poet_mcu.errors import InternalError

_PACKAGE = Path(__file__).resolve().parent


def root() -> Path:
    """The folder that holds ``templates``, ``boards`` and ``firmware``.

    A wheel carries them in ``poet_mcu/_data`` (pyproject, force-include); in a checkout and in an
    editable install they stand beside the package. Raises InternalError when neither is there.
    """
    for folder in (_PACKAGE / "_data", _PACKAGE.parent):
        if all((folder / name).is_dir() for name in ("templates", "boards", "firmware")):
            return folder
    raise InternalError(
        f"{_PACKAGE}: expected the folders templates, boards and firmware in _data or beside the "
        "package, got none; the installation is damaged: install poet-mcu again"
    )


def boards() -> Path:
    """The folder of the board files."""
    return root() / "boards"


def templates() -> Path:
    """The folder of the Jinja templates."""
    return root() / "templates"


def firmware() -> Path:
    """The folder of the C runtime."""
    return root() / "firmware"
