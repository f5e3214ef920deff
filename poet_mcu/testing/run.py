"""Runs the suite in a process of its own, so that no settings of the caller's folder apply."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from poet_mcu.errors import CheckFailed, InputError, ToolMissing

SUITE = Path(__file__).resolve().parent / "suite"
PLUGIN = "poet_mcu.testing.plugin"
_PASSED, _FAILED = 0, 1


def run_suite(options: Sequence[str], *, quiet: bool = False) -> None:
    """Run every test of the suite with the plugin's ``options``; what pytest says goes to stderr.

    Raises ToolMissing without pytest, CheckFailed when a test fails, InputError when none ran.
    """
    if importlib.util.find_spec("pytest") is None:
        raise ToolMissing(
            "pytest: expected this Python package, got none; run: pip install 'poet-mcu[hil]'"
        )
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider"]
    command += ["-c", str(SUITE / "pytest.ini"), "--rootdir", str(SUITE), "--require-hil"]
    command += ["-q" if quiet else "-v", "--tb=short", str(SUITE), *options]
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if done.returncode == _FAILED:
        raise CheckFailed("hil: expected every test to pass, got failures; the report says which")
    if done.returncode != _PASSED:
        raise InputError(
            f"hil: expected the suite to run, got pytest's status {done.returncode}; see above"
        )
