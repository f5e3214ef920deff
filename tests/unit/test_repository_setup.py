"""tools/setup.sh on machines that lack something: stubs stand in for the system's programs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from poet_mcu import resources

SETUP = resources.root() / "tools" / "setup.sh"
PLAIN = ("bash", "env", "dirname", "cat", "cc", "make", "sha256sum", "pwd")


def stub(folder, name, text):
    path = folder / name
    path.write_text(f"#!{shutil.which('bash')}\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    """A PATH with a C compiler, make and Python, but no cross compiler, emulator or apt-get."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PLAIN:
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(Path(found))
    stub(folder, "python3", f'exec "{sys.executable}" "$@"')
    stub(folder, "id", "echo 1000")
    return folder


def add_apt(folder):
    """apt-get that writes down its arguments and fails, so that nothing happens after it."""
    log = folder / "apt.log"
    stub(folder, "apt-get", f'echo "$@" >>"{log}"\n[ "$1" = update ]')
    return log


def run(folder, **variables):
    return subprocess.run(
        ["bash", str(SETUP), "demo"],
        env={"PATH": str(folder), "HOME": str(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_apt_the_packages_are_named(machine):
    done = run(machine)
    assert done.returncode == 4
    assert "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm" in done.stderr
    assert " gcc " not in done.stderr


def test_without_root_and_sudo_the_command_is_shown(machine):
    log = add_apt(machine)
    done = run(machine)
    assert done.returncode == 4
    assert "as root run: apt-get install gcc-arm-none-eabi" in done.stderr
    assert not log.exists()


def test_sudo_is_used_where_not_root(machine):
    log = add_apt(machine)
    stub(machine, "sudo", f'echo sudo >>"{log}"\nexec "$@"')
    done = run(machine)
    assert done.returncode != 0
    lines = log.read_text().splitlines()
    assert lines[:3] == ["sudo", "update -q", "sudo"]
    assert lines[3].endswith("gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm")
    assert "setup: installing with apt-get: gcc-arm-none-eabi" in done.stdout


def test_root_needs_no_sudo(machine):
    log = add_apt(machine)
    stub(machine, "id", "echo 0")
    run(machine)
    assert log.read_text().startswith("update -q\n")


def test_python_without_venv_gets_its_package(machine):
    log = add_apt(machine)
    stub(machine, "id", "echo 0")
    stub(
        machine,
        "python3",
        f'case "$*" in *ensurepip*) exit 1 ;; esac\nexec "{sys.executable}" "$@"',
    )
    run(machine)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    assert log.read_text().splitlines()[1].endswith(version)


def test_an_old_python_is_not_taken(machine):
    stub(machine, "id", "echo 0")
    log = add_apt(machine)
    stub(machine, "python3", "exit 1")
    run(machine)
    assert log.read_text().splitlines()[1].endswith("python3 python3-venv")


def test_newlib_alone_can_be_missing(machine):
    stub(machine, "id", "echo 0")
    log = add_apt(machine)
    stub(machine, "arm-none-eabi-gcc", "echo libc.a")
    stub(machine, "qemu-system-arm", "true")
    run(machine)
    assert log.read_text().splitlines()[1].split()[-1] == "libnewlib-arm-none-eabi"
    assert os.access(machine / "apt-get", os.X_OK)
