"""The error tree and the one message form: ``where: expected X, got Y; what to do``."""

from __future__ import annotations

import difflib


class PoetError(Exception):
    """Base of every error a user can cause; ``exit_code`` is what the command line returns.

    Exit codes: 1 a check failed, 2 bad input or usage, 3 infeasible, 4 a tool is missing,
    5 the board failed.
    """

    exit_code = 2


class InputError(PoetError):
    """A file, an option or a value the user gave is not usable."""


class ModelError(InputError):
    """The model is not ONNX, is damaged, or needs something we do not have."""


class BoardError(InputError):
    """A board file is wrong or a board is unknown."""


class CheckFailed(PoetError):
    """A validation ran to its end and found a difference."""

    exit_code = 1


class Infeasible(PoetError):
    """It is proven that no plan satisfies the budget or the deadline."""

    exit_code = 3


class ToolMissing(PoetError):
    """A compiler, emulator or solver that is needed is not installed."""

    exit_code = 4


class DeviceError(PoetError):
    """The board (or its emulator) did not answer, or answered with a fault."""

    exit_code = 5


class InternalError(PoetError):
    """A verifier caught us: this is a bug in poet-mcu, never the user's fault."""

    exit_code = 70


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str:
    """``; did you mean 'x' or 'y'?`` for the closest known words, or an empty string."""
    found = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    if not found:
        return ""
    return "; did you mean " + " or ".join(f"'{name}'" for name in found) + "?"
