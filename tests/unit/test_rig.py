"""The rig file, and the plugin where there is no board."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from poet_mcu.errors import InputError
from poet_mcu.testing.rig import choose, load_rig

RIG = """
schema = 1
[boards.desk]
board = "stm32f7"
port = "/dev/ttyACM0"
probe = "066A"
power_cycle = ["uhubctl", "-a", "cycle"]
[boards.shelf]
board = "mine.toml"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "rig.toml"
    path.write_text(text)
    return path


def test_an_entry_is_chosen_by_its_name_or_board(tmp_path: Path) -> None:
    path = write(tmp_path, RIG)
    rig = load_rig(path)
    assert choose(rig, path, "desk") == choose(rig, path, "stm32f7")
    assert choose(rig, path, "desk").power_cycle == ("uhubctl", "-a", "cycle")
    assert choose(rig, path, "shelf").board == str(tmp_path / "mine.toml")
    with pytest.raises(InputError, match=r"one of desk, shelf, got none; choose one"):
        choose(rig, path, None)
    with pytest.raises(InputError, match=r"got dsek; did you mean 'desk'\?"):
        choose(rig, path, "dsek")
    only = load_rig(write(tmp_path, RIG.split("[boards.shelf]", maxsplit=1)[0]))
    assert choose(only, path, None).probe == "066A"


def test_all_problems_of_a_rig_come_at_once(tmp_path: Path) -> None:
    wrong = RIG.replace("port =", "prot =").replace('"066A"', "66").replace("= 1", "= 2", 1)
    wrong = wrong.replace('board = "mine.toml"', 'tool = "jlink"')
    with pytest.raises(InputError) as caught:
        load_rig(write(tmp_path, wrong))
    text = str(caught.value)
    for pattern in (
        r"rig\.toml: schema: expected 1, got 2; correct the value",
        r"rig\.toml: boards\.desk\.prot: expected one of board, .*, got 'prot'; did you",
        r"rig\.toml: boards\.desk\.probe: expected a valid string, got 66; correct the value",
        r"rig\.toml: boards\.shelf\.board: expected this key, got none; add it",
        r"rig\.toml: boards\.shelf\.tool: expected '', 'pyocd', .*, got 'jlink'",
    ):
        assert re.search(pattern, text), text
    assert len(text.splitlines()) == 5


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a readable rig file, got No such file"):
        load_rig(tmp_path / "no.toml")
    with pytest.raises(InputError, match=r"rig\.toml: expected TOML, got"):
        load_rig(write(tmp_path, "schema = "))
    with pytest.raises(InputError, match=r"boards: expected dictionary should have at least 1"):
        load_rig(write(tmp_path, "schema = 1\n[boards]\n"))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 0, "1 skipped"),
        (["--require-hil"], 1, "1 error"),
        (["--board", "qemu-m7-sd", "--require-hil"], 1, "expected this table in the board file"),
    ],
)
def test_without_a_board_a_test_is_skipped_or_fails_as_asked(
    words: list[str], code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "test_mine.py").write_text("def test_it(board):\n    assert board.identity\n")
    command = [sys.executable, "-m", "pytest", "-p", "poet_mcu.testing.plugin", "-rs", *words]
    command += [
        "-p",
        "no:hypothesispytest",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        str(tmp_path / "test_mine.py"),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
    assert said in done.stdout
    assert words or "no board: say --board NAME with --port or --emulate" in done.stdout


def test_the_plugin_is_light() -> None:
    """Every pytest of the environment loads it."""
    code = "import sys, poet_mcu.testing.plugin as p; print('numpy' in sys.modules, p.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "poet_mcu.testing.plugin"]
