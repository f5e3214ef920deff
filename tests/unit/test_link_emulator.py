"""Starting and ending processes: what goes wrong, and that nothing is left behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from poet_mcu.errors import DeviceError, InputError, ToolMissing
from poet_mcu.link import emulator
from poet_mcu.link.client import open_board
from poet_mcu.link.emulator import run_host, run_qemu

LISTENING = "print('poet: listening on 127.0.0.1:4711', flush=True)"


def program(folder: Path, body: str, name: str = "firmware") -> Path:
    path = folder / name
    lines = [f"#!{sys.executable}", "import os, sys, time"]
    path.write_text(
        "\n".join([*lines, f"open({str(folder / 'pid')!r}, 'w').write(str(os.getpid()))", body])
    )
    path.chmod(0o755)
    return path


def gone(folder: Path) -> bool:
    """The process has ended and was waited for."""
    try:
        os.kill(int((folder / "pid").read_text()), 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture
def fake_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def elf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.elf"
    path.write_bytes(b"\x7fELF")
    return path


def test_no_qemu_names_the_package(fake_qemu: Path, elf: Path) -> None:
    with pytest.raises(ToolMissing, match="apt-get install qemu-system-arm"), run_qemu(elf, "m"):
        pass


def test_no_program_and_no_card(tmp_path: Path, fake_qemu: Path, elf: Path) -> None:
    program(fake_qemu, "", emulator.QEMU)
    with pytest.raises(InputError, match="nothing: expected a program, got no such file"):
        run_host(tmp_path / "nothing").__enter__()
    with pytest.raises(InputError, match="nothing: expected a program"):
        run_qemu(tmp_path / "nothing", "m").__enter__()
    for start in (lambda c: run_host(elf, c), lambda c: run_qemu(elf, "m", card=c)):
        with pytest.raises(InputError, match=r"card\.img: expected a card image, got no such file"):
            start(tmp_path / "card.img").__enter__()


def test_a_program_of_another_machine(elf: Path) -> None:
    elf.chmod(0o755)
    with (
        pytest.raises(InputError, match="expected a program this computer can start"),
        run_host(elf),
    ):
        pass


def test_the_url_is_what_the_process_says_and_the_process_ends(tmp_path: Path) -> None:
    with run_host(program(tmp_path, f"{LISTENING}\ntime.sleep(60)")) as url:
        assert url == "socket://127.0.0.1:4711"
        assert not gone(tmp_path)
    assert gone(tmp_path)


def test_the_process_ends_after_an_exception_and_when_it_ignores_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulator, "_DEATH_S", 0.3)
    body = f"import signal\nsignal.signal(15, signal.SIG_IGN)\n{LISTENING}\ntime.sleep(60)"
    with pytest.raises(ZeroDivisionError), run_host(program(tmp_path, body)):
        raise ZeroDivisionError
    assert gone(tmp_path)


def test_an_early_end_shows_what_was_said(tmp_path: Path) -> None:
    body = "print('no room', file=sys.stderr); sys.exit(3)"
    expected = (
        r"firmware: expected the emulator to run, got its end \(status 3\); it said:\nno room"
    )
    with pytest.raises(DeviceError, match=expected), run_host(program(tmp_path, body)):
        pass


def test_a_silent_process_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "_START_S", 0.5)
    with (
        pytest.raises(DeviceError, match=r"expected a console within 0\.5 s, got none"),
        run_host(program(tmp_path, "print('hello', flush=True)\ntime.sleep(60)")),
    ):
        pass
    assert gone(tmp_path)


def test_a_death_in_the_middle_explains_the_silence(tmp_path: Path) -> None:
    body = f"{LISTENING}\nprint('qemu: fatal: Lockup: x', file=sys.stderr, flush=True)\nos.abort()"
    with (
        pytest.raises(
            DeviceError, match=r"serial silence\n(?s:.*)status -6(?s:.*)fatal: Lockup: x"
        ),
        run_host(program(tmp_path, body)),
    ):
        raise DeviceError("url: serial silence")


def test_a_living_process_leaves_the_error_alone(tmp_path: Path) -> None:
    start = time.monotonic()
    with (
        pytest.raises(DeviceError, match=r"^serial silence$"),
        run_host(program(tmp_path, f"{LISTENING}\ntime.sleep(60)")),
    ):
        raise DeviceError("serial silence")
    assert time.monotonic() - start < 10.0


def test_the_command_line_of_qemu(tmp_path: Path, fake_qemu: Path, elf: Path) -> None:
    pty = "print('char device redirected to /dev/pts/77 (label serial0)')"
    save = f"open({str(tmp_path / 'argv')!r}, 'w').write('\\n'.join(sys.argv[1:] + [os.getcwd()]))"
    body = f"{save}\nprint('Timer with period zero, disabling')\n{pty}\n"
    program(fake_qemu, body + "sys.stdout.flush()\ntime.sleep(60)", emulator.QEMU)
    card = tmp_path / "a,b.img"
    card.touch()
    with run_qemu(elf, "lm3s6965evb", "cortex-m4", card, icount=True, extra=["-d", "int"]) as url:
        assert url == "/dev/pts/77"
    *arguments, folder = (tmp_path / "argv").read_text().splitlines()
    drive = f"if=sd,format=raw,file={tmp_path}/a,,b.img"
    assert arguments == [
        *("-M", "lm3s6965evb", "-display", "none", "-monitor", "none", "-kernel", str(elf)),
        *("-cpu", "cortex-m4", "-icount", "shift=0", "-drive", drive),
        *("-serial", "pty", "-d", "int"),
    ]
    assert not Path(folder).exists()
    with run_qemu(elf, "mps2-an500", card=card, semihosting=True, memory="16M"):
        pass
    arguments = (tmp_path / "argv").read_text().splitlines()
    assert f"enable=on,target=native,arg={tmp_path}/a,,b.img" in arguments
    assert arguments[arguments.index("-m") + 1] == "16M"
    assert not any("if=sd" in argument for argument in arguments)


@pytest.mark.qemu
def test_real_qemu_says_why_it_dies(tmp_path: Path, elf: Path) -> None:
    card = tmp_path / "card.img"
    card.write_bytes(bytes(3 * 512))
    with (
        pytest.raises(DeviceError, match=r"it said:\n(?s:.*)Invalid SD card size"),
        run_qemu(elf, "lm3s6965evb", "cortex-m3", card) as url,
    ):
        open_board(url, 0.1)
