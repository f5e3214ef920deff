"""The command line as a user has it: the fixture of tests/e2e."""

from __future__ import annotations

from command_line import run

__all__ = ["run"]
