"""The report of a run: what was tested on what, what came out, fit to attach to a bug."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from poet_mcu.board.load import board_text
from poet_mcu.testing.target import Target
from poet_mcu.toolchain import doctor
from poet_mcu.version import __version__


@dataclass(slots=True)
class Report:
    """Filled test by test, written at the end."""

    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    board_file: str = ""

    def about(self, target: Target, where: str) -> None:
        """Say what the run is on."""
        self.board_file = board_text(target.board)
        self.facts = {
            "board": target.board.name,
            "where": where,
            "emulated": target.emulated,
            "card": target.rig.card or "not said",
            "flashed": not target.rig.by_hand and not target.emulated,
        }

    def add(self, report: pytest.TestReport) -> None:
        """One phase of one test; the worst phase decides, the call's measurements stay."""
        name = _name(report.nodeid)
        row = self.tests.setdefault(name, {"outcome": "passed", "seconds": 0.0, "measured": {}})
        row["seconds"] = round(row["seconds"] + report.duration, 3)
        row["measured"] |= {str(key): value for key, value in report.user_properties}
        if report.outcome != "passed":
            row["outcome"] = report.outcome if report.when == "call" else f"{report.outcome} early"
            reason = report.longrepr
            row["said"] = reason[-1] if isinstance(reason, tuple) else str(reason)

    def whole(self, exit_status: int) -> dict[str, Any]:
        """The JSON form."""
        tools = {state.tool: state.version or "missing" for state in doctor()}
        return {
            "ok": exit_status == 0,
            **self.facts,
            "poet_mcu": __version__,
            "python": sys.version.split()[0],
            "system": platform.platform(),
            "tools": tools,
            "tests": self.tests,
            "board_file": json.loads(self.board_file) if self.board_file else None,
        }

    def write(self, path: Path, exit_status: int) -> None:
        """As JSON where the name ends so, else as Markdown."""
        whole = self.whole(exit_status)
        text = json.dumps(whole, indent=2) if path.suffix == ".json" else _markdown(whole)
        path.write_text(text.rstrip() + "\n", encoding="utf-8", newline="\n")


def _name(nodeid: str) -> str:
    """``selftest: memory`` for ``test_1_selftest.py::test_memory``."""
    file, _, test = nodeid.rpartition("::")
    module = Path(file).stem.removeprefix("test_").lstrip("0123456789_")
    return f"{module}: {test.removeprefix('test_').replace('_', ' ')}"


def _markdown(whole: dict[str, Any]) -> str:
    lines = [
        f"# poet-mcu hil: {whole.get('board', 'no board')}: {'ok' if whole['ok'] else 'FAILED'}",
        "",
    ]
    lines += [
        f"- {key}: {whole[key]}"
        for key in ("where", "card", "flashed", "poet_mcu", "python", "system")
        if key in whole
    ]
    lines += [f"- {tool}: {version}" for tool, version in whole["tools"].items()]
    lines += ["", "| test | outcome | s | measured |", "|---|---|---|---|"]
    for name, row in whole["tests"].items():
        told = ", ".join(f"{key} {value}" for key, value in row["measured"].items())
        lines.append(f"| {name} | {row['outcome']} | {row['seconds']} | {told} |")
    for name, row in whole["tests"].items():
        if "said" in row:
            lines += ["", f"## {name}: {row['outcome']}", "", "```", row["said"], "```"]
    lines += ["", "## Board file", "", "```json"]
    return "\n".join([*lines, json.dumps(whole["board_file"], indent=2, sort_keys=True), "```"])
