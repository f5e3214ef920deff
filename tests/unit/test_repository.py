"""The repository itself: licence, no traces of one machine, size limits, what a wheel carries."""

import importlib.util
import os
import re
import subprocess
import sys
import zipfile

import pytest

from poet_mcu import resources

ROOT = resources.root()
TEXT = {".py", ".c", ".h", ".toml", ".md", ".j2", ".sh", ".ld", ".S", ".yml", ".cfg", ".txt", ""}


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LIMITS = load_script("check_limits")


def texts():
    for name in LIMITS.tracked_files():
        path = ROOT / name
        if path.suffix in TEXT and name != "LICENSE":
            yield name, path.read_text(encoding="utf-8")


# Spelt in pieces, so that this file does not contain what it looks for.
MACHINE = re.compile(
    "|".join(["/" + "home/", "/" + "root/", "/" + "work/", "/" + "opt/", "/" + "Users/"])
)
HOSTS = re.compile("|".join(["pypi" + r"\.org", "python" + "hosted", "download" + r"\.pytorch"]))


def test_no_path_of_one_machine_is_in_a_file():
    found = [
        f"{name}:{number}: {line.strip()[:80]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert found == []


def test_no_registry_is_named():
    assert [name for name, text in texts() if HOSTS.search(text)] == []


def test_files_end_with_one_newline_and_use_lf():
    bad = [n for n, t in texts() if t and (not t.endswith("\n") or t.endswith("\n\n") or "\r" in t)]
    assert bad == []


def test_licence_is_apache_2():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["docs/cases.md", "docs/faults.md", "tests/README.md"])
def test_documents_name_tests_that_run_every_day(name):
    """But those that they call slow."""
    text = (ROOT / name).read_text(encoding="utf-8")
    named = set(
        re.findall(r"`((?:unit|host|qemu|emulator|e2e|hil|fuzz)/test_\w+\.py)`(?! \(slow\))", text)
    )
    assert named
    for path in sorted(named):
        source = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert re.search(r"^def test_", source, re.MULTILINE), path
        assert not re.search(r"^pytestmark.*slow", source, re.MULTILINE), path


def test_scripts_are_executable_and_parse():
    for name in ("tools/setup.sh", ".ci/run"):
        path = ROOT / name
        assert path.stat().st_mode & 0o111, name
        assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
        assert "set -euo pipefail" in path.read_text(encoding="utf-8")
        subprocess.run(["bash", "-n", str(path)], check=True)


def test_setup_refuses_an_unknown_extra():
    script = str(ROOT / "tools" / "setup.sh")
    run = subprocess.run(["bash", script, "all"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "expected 'demo' or 'test', got 'all'" in run.stderr


@pytest.mark.parametrize("target", ["demo", "test", "setup", "lint", "clean"])
def test_make_knows_its_targets(target):
    run = subprocess.run(
        ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_every_file_is_within_the_limits():
    complaints = []
    for name, text in texts():
        if name.endswith(tuple(LIMITS.LIMITS)):
            complaints += LIMITS.check(name, text)
    assert complaints == []


def test_exceptions_of_the_limits_are_needed_and_explained():
    for what, (allowed, why) in LIMITS.EXCEPTIONS.items():
        assert len(why) > 20, what
        text = (ROOT / what.split(":")[0]).read_text(encoding="utf-8")
        suffix = "." + what.split(":")[0].rsplit(".", 1)[1]
        limit = LIMITS.LIMITS[suffix][1 if ":" in what else 0]
        assert allowed > limit, what
        lengths = dict(
            LIMITS.python_functions(text) if suffix == ".py" else LIMITS.c_functions(text)
        )
        have = lengths[what.split(":")[1]] if ":" in what else len(text.splitlines())
        assert have > limit, f"{what}: the exception is not needed any more"


def test_the_limits_count_correctly():
    body = "".join(f"    x = {i}\n" for i in range(40))
    assert LIMITS.check("a.py", f"def f():\n{body}")[0].startswith("a.py:f: expected at most 40")
    assert LIMITS.check("a.py", "x = 1\n" * 400) == []
    assert LIMITS.check("a.py", "x = 1\n" * 401)[0].startswith("a.py: expected at most 400 lines")
    code = (
        "typedef struct {\n    int a;\n} t;\nint g(int a,\n      int b);\n"
        "static const int *f(int a,\n                    t *b)\n{\n" + "    a++;\n" * 3 + "}\n"
    )
    assert LIMITS.c_functions(code) == [("f", 7)]
    long = "void h(void)\n{\n" + "    ;\n" * 58 + "}\n"
    assert LIMITS.check("a.c", long)[0].startswith("a.c:h: expected at most 60 lines, got 61")
    assert LIMITS.check("a.c", long.replace("    ;\n", "", 1)) == []


def test_a_wheel_carries_everything(tmp_path):
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path)]
    run = subprocess.run(
        [*command, str(ROOT)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (wheel,) = tmp_path.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    names = set(archive.namelist())
    for folder in ("templates", "boards", "firmware"):
        shipped = [p for p in LIMITS.tracked_files() if p.startswith(f"{folder}/")]
        assert shipped
        for name in shipped:
            assert f"poet_mcu/_data/{name}" in names
    suite = "poet_mcu/testing/suite"
    assert {f"{suite}/pytest.ini", f"{suite}/test_1_selftest.py"} <= names
    (points,) = [n for n in names if n.endswith("/entry_points.txt")]
    assert "poet_mcu.testing.plugin = poet_mcu.testing.plugin" in archive.read(points).decode()
    assert not [n for n in names if n.startswith(("tests/", "tools/"))]
    archive.extractall(tmp_path / "site")
    code = "import poet_mcu.board as b; print(b.__file__, b.load_board('qemu-m7-sd').name)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(tmp_path / "site") in run.stdout
    assert run.stdout.split()[-1] == "qemu-m7-sd"
