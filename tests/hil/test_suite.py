"""The suite that owners of boards run, here on emulators, and on a fake that is flashed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_board import USB, FakeBoard

from poet_mcu.board.load import load_board

#: tests of the suite without the soak
TESTS = 15


def hil(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "poet_mcu", "hil", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    return {name: row["outcome"] for name, row in report["tests"].items()}


def passes(folder: Path, *words: object, tests: int = TESTS) -> dict[str, Any]:
    report = folder / "report.json"
    done = hil(folder, *words, "--report", report)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["ok"]
    assert outcomes(found) == dict.fromkeys(found["tests"], "passed")
    assert len(found["tests"]) == tests
    return found


@pytest.mark.qemu
def test_the_suite_passes_on_the_emulated_cortex_m3_over_a_pty(tmp_path: Path) -> None:
    found = passes(tmp_path, "--board", "qemu-lm3s6965evb", "--emulate")
    assert (found["board"], found["where"]) == ("qemu-lm3s6965evb", "emulator")
    kernels = found["tests"]["selftest: kernels"]["measured"]
    assert kernels["kernels"] > 100
    burst = found["tests"]["selftest: card burst"]["measured"]
    assert burst["write bytes per second"] > 0


@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize("board", ["qemu-m7-sd", "qemu-m0-sd", "qemu-m4-sd", "qemu-m55-sd"])
def test_the_suite_and_a_short_soak_pass_on_the_other_cores(board: str, tmp_path: Path) -> None:
    found = passes(tmp_path, "--board", board, "--emulate", "--soak", 5, tests=TESTS + 1)
    assert found["tests"]["training: soak"]["measured"]["rounds"] > 1


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBoard]:
    found = FakeBoard(tmp_path / "fake")
    found.tool("openocd")
    monkeypatch.setenv("PATH", f"{found.bin}{os.pathsep}{os.environ['PATH']}")
    yield found
    found.end()


RIG = """
schema = 1
[boards.desk]
board = "fake-board.json"
port = "{url}"
card = "none, 8 MiB of a file"
erase_card = true
[boards.other]
board = "stm32f7"
"""


@pytest.mark.qemu
@pytest.mark.slow
def test_a_board_on_a_port_is_flashed_and_tested_and_measured(
    fake: FakeBoard, tmp_path: Path, run: Any
) -> None:
    """Rig file, flashing tool, read-back, card that is prepared, reset: all but the silicon."""
    fake.file(openocd=["-f", "board/fake.cfg"], console_usb=[USB])
    rig = fake.folder / "rig.toml"
    rig.write_text(RIG.format(url=fake.url))
    found = passes(tmp_path, "--rig", rig, "--board", "desk")
    assert (found["where"], found["card"]) == (fake.url, "none, 8 MiB of a file")
    assert found["flashed"]
    assert len(fake.calls()) == 2
    board, mine = fake.folder / "fake-board.json", tmp_path / "mine.toml"
    words = ("--board", board, "--port", fake.url, "--erase-card", "--samples", 2, "-o", mine)
    told = run("calibrate", *words, "--json")
    assert told.code == 0, told.err
    assert len(fake.calls()) == 3
    assert "build" in load_board(mine).storage.source
    assert "instructions" not in load_board(mine).storage.source


def test_what_cannot_be_tested_is_said_before_anything_is_built(
    fake: FakeBoard, tmp_path: Path, run: Any
) -> None:
    board = fake.file(openocd=["-f", "board/fake.cfg"], console_usb=[USB])
    report = tmp_path / "report.md"
    for words, said in (
        (
            ("--board", board, "--port", fake.url),
            "fake-board: --erase-card: expected your consent, got none; the suite overwrites",
        ),
        (("--board", "qemu-m7-ds", "--emulate"), "did you mean 'qemu-m7-sd'"),
        (("--board", "poet-m4f", "--emulate"), "expected a board that firmware is for"),
        (("--board", "host", "--emulate"), "got this computer, whose process a reset ends"),
        ((), "--board, --rig: expected one of the two, got none"),
        (
            ("--board", "qemu-m7-sd", "--emulate", "--port", "x"),
            "expected one of the two, got both",
        ),
    ):
        told = run("hil", *words, "--report", report)
        assert told.code == 2, words
        assert said in told.err
    assert fake.calls() == []
    assert not report.exists()
