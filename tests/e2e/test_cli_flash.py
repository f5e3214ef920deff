"""``poet-mcu flash``, with fakes where programs, USB and volumes begin; an emulator answers."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_board import USB, FakeBoard, as_hardware
from serial.tools import list_ports

from poet_mcu.pipeline import flash as pipeline_flash
from poet_mcu.toolchain import flashers

OPENOCD = {"openocd": ["-f", "board/fake.cfg"], "console_usb": [USB]}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBoard]:
    found = FakeBoard(tmp_path / "fake")
    monkeypatch.setenv("PATH", f"{found.bin}:/usr/bin:/bin")
    monkeypatch.setattr(list_ports, "comports", list)
    monkeypatch.setattr(flashers, "MOUNTS", ())
    yield found
    found.end()


def plug(monkeypatch: pytest.MonkeyPatch, *ports: tuple[str, str, str]) -> None:
    """USB serial ports: device, vid:pid, serial number."""
    found = [
        types.SimpleNamespace(
            device=device, vid=int(usb[:4], 16), pid=int(usb[5:], 16), serial_number=serial,
            description="a port",
        )
        for device, usb, serial in ports
    ]  # fmt: skip
    monkeypatch.setattr(list_ports, "comports", lambda: found)


@pytest.mark.qemu
def test_a_board_is_programmed_and_answers_with_its_build(
    run: Any, built: Path, fake: FakeBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.tool("openocd")
    plug(monkeypatch, (fake.url, USB, "066AFF"), ("/dev/ttyS9", "1a86:7523", ""))
    folder = as_hardware(built, tmp_path / "b", **OPENOCD)
    told = run("flash", folder, "--json")
    assert told.code == 0, told.err
    wanted = json.loads((built / "manifest.json").read_text())["build_id"]
    assert told.json == {
        "board": "fake-board", "build_id": wanted, "checked": True, "model": "cnn",
        "port": fake.url, "probe": "066AFF", "tool": "openocd",
    }  # fmt: skip
    (call,) = fake.calls()
    assert call[1:5] == ["-f", "board/fake.cfg", "-c", "adapter serial 066AFF"]
    assert call[5:] == ["-c", f"program {{{folder / 'firmware.elf'}}} verify reset exit"]
    monkeypatch.setattr(pipeline_flash, "APPEARS_S", 0.0)
    # Another build's folder, and a tool that leaves the old firmware on the board.
    other = as_hardware(built, tmp_path / "other", **OPENOCD)
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"build_id": "00" * 16}))
    fake.tool("openocd", ends=0)
    told = run("flash", other)
    assert told.code == 5
    assert f"build id: expected {'00' * 16}, got {wanted}" in told.err


def test_several_boards_are_listed_and_chosen_by_probe(
    run: Any, built: Path, fake: FakeBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.tool("openocd")
    plug(monkeypatch, ("/dev/ttyACM0", USB, "066A"), ("/dev/ttyACM1", USB, "066B"))
    folder = as_hardware(built, tmp_path / "b", **OPENOCD)
    told = run("flash", folder)
    assert told.code == 2
    assert "serial port: expected one, got /dev/ttyACM0 (0483:374b, 066A, a port)" in told.err
    assert "/dev/ttyACM1 (0483:374b, 066B, a port); choose with --probe" in told.err
    assert fake.calls() == []
    assert pipeline_flash.find_port(hardware_of(folder), "066B").device == "/dev/ttyACM1"


def hardware_of(folder: Path) -> Any:
    from poet_mcu.board.load import load_board  # noqa: PLC0415 - one helper needs it

    return load_board(folder / "board.json")


def test_no_board_says_what_was_looked_for(
    run: Any, built: Path, fake: FakeBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.tool("openocd")
    plug(monkeypatch, ("/dev/ttyUSB0", "1a86:7523", ""))
    told = run("flash", as_hardware(built, tmp_path / "b", **OPENOCD))
    assert told.code == 5
    assert "expected one with USB id 0483:374b, got /dev/ttyUSB0 (1a86:7523, a port)" in told.err
    assert fake.calls() == []


def test_missing_tools_are_named_with_what_to_install(
    run: Any, built: Path, fake: FakeBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyocd.target", None)  # as if it were not installed
    every = {**OPENOCD, "pyocd_target": "stm32f746nghx", "st_flash": True, "uf2_board": "RPI-RP2"}
    told = run("flash", as_hardware(built, tmp_path / "b", **every), "--no-check")
    assert told.code == 4
    assert "pyocd: expected the Python package, got none; run: pip install" in told.err
    assert "openocd: expected this program in PATH, got none; run: sudo apt-get" in told.err
    assert "st-flash: expected this program in PATH, got none; run: sudo apt-get" in told.err
    assert "uf2: expected a mounted volume whose INFO_UF2.TXT says Board-ID: RPI-RP2" in told.err
    told = run("flash", tmp_path / "b", "--no-check", "--tool", "jlink")
    assert told.code == 2
    assert "--tool: expected one of pyocd, openocd, st-flash, uf2 for this board" in told.err


def test_a_board_file_without_a_way_says_so(run: Any, built: Path, tmp_path: Path) -> None:
    told = run("flash", as_hardware(built, tmp_path / "b"))
    assert told.code == 2
    assert "fake-board: flash_with: expected this table in the board file, got none" in told.err


def test_what_a_failing_tool_says_is_shown(
    run: Any, built: Path, fake: FakeBoard, tmp_path: Path
) -> None:
    fake.tool("openocd", ends=1)
    told = run("flash", as_hardware(built, tmp_path / "b", **OPENOCD), "--no-check")
    assert told.code == 5
    assert "openocd: expected the board to be programmed, got status 1" in told.err
    assert "Error: open failed" in told.err


def test_st_flash_is_taken_where_openocd_is_not_there(
    run: Any, built: Path, fake: FakeBoard, tmp_path: Path
) -> None:
    fake.tool("st-flash")
    folder = as_hardware(built, tmp_path / "b", **OPENOCD, st_flash=True, under_reset=True)
    told = run("flash", folder, "--no-check", "--probe", "066A", "--json")
    assert (told.code, told.json["tool"]) == (0, "st-flash")
    (call,) = fake.calls()
    assert call[1:] == [
        "--connect-under-reset", "--reset", "--format", "ihex", "--serial", "066A", "write",
        str(folder / "firmware.hex"),
    ]  # fmt: skip


class Pyocd:
    """As much of pyOCD 0.46 as is used: the names and arguments of its Python API."""

    def __init__(self, targets: set[str], probes: list[str]) -> None:
        self.TARGET = dict.fromkeys(targets)
        self.probes = probes
        self.did: list[Any] = []
        self.target = self

    def get_all_connected_probes(self, *, blocking: bool, unique_id: str | None) -> list[Any]:
        assert not blocking
        return [
            types.SimpleNamespace(unique_id=probe, description="a probe")
            for probe in self.probes
            if unique_id in (None, probe)
        ]

    def session_with_chosen_probe(self, **kwargs: Any) -> Any:
        self.did.append(kwargs)
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.did.append("closed")

    def FileProgrammer(self, session: Any) -> Any:  # noqa: N802 - pyOCD's name
        assert session is self
        return self

    def program(self, path: str) -> None:
        self.did.append(Path(path).name)

    def reset(self) -> None:
        self.did.append("reset")

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        names = {
            "pyocd": {},
            "pyocd.target": {"TARGET": self.TARGET},
            "pyocd.target.pack": {},
            "pyocd.core": {},
            "pyocd.core.helpers": {"ConnectHelper": self},
            "pyocd.flash": {},
            "pyocd.flash.file_programmer": {"FileProgrammer": self.FileProgrammer},
        }
        for name, content in names.items():
            module = types.ModuleType(name)
            module.__dict__.update(content, __path__=[])
            monkeypatch.setitem(sys.modules, name, module)


def test_pyocd_comes_first_where_it_knows_the_target(
    run: Any, built: Path, fake: FakeBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.tool("openocd")
    folder = as_hardware(built, tmp_path / "b", **OPENOCD, pyocd_target="stm32f767zi")
    pyocd = Pyocd({"stm32f767zi"}, ["066A"])
    pyocd.install(monkeypatch)
    told = run("flash", folder, "--no-check", "--json")
    assert (told.code, told.json["tool"]) == (0, "pyocd")
    options = {"target_override": "stm32f767zi", "connect_mode": "halt"}
    assert pyocd.did == [
        {"blocking": False, "unique_id": "066A", "options": options},
        "firmware.hex", "reset", "closed",
    ]  # fmt: skip
    held = as_hardware(built, tmp_path / "r", pyocd_target="stm32f767zi", under_reset=True)
    assert run("flash", held, "--no-check").code == 0
    assert pyocd.did[4]["options"]["connect_mode"] == "under-reset"
    Pyocd({"rp2040"}, ["066A"]).install(monkeypatch)
    assert run("flash", folder, "--no-check", "--json").json["tool"] == "openocd"
    Pyocd({"stm32f767zi"}, ["066A", "066B"]).install(monkeypatch)
    told = run("flash", folder, "--no-check")
    assert told.code == 5
    assert "expected one probe, got 066A (a probe), 066B (a probe); choose with" in told.err


def test_uf2_is_copied_to_the_volume_of_the_boot_loader(
    run: Any, built: Path, fake: FakeBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = as_hardware(built, tmp_path / "b", uf2_board="RPI-RP2", uf2_family=0xE48BFF56)
    (folder / "firmware.uf2").write_bytes(b"blocks")
    volumes = [tmp_path / "media" / name for name in ("a", "b", "c")]
    for volume, board in zip(volumes, ("RPI-RP2", "SAMD51", "RPI-RP2"), strict=True):
        volume.mkdir(parents=True)
        (volume / "INFO_UF2.TXT").write_text(f"UF2 Bootloader v3.0\nBoard-ID: {board}\n")
    told = run("flash", folder, "--no-check", "--volume", volumes[0], "--json")
    assert (told.code, told.json["tool"]) == (0, "uf2")
    assert (volumes[0] / "firmware.uf2").read_bytes() == b"blocks"
    told = run("flash", folder, "--no-check", "--volume", volumes[1])
    assert told.code == 4
    assert "uf2: expected a mounted volume" in told.err
    monkeypatch.setattr(flashers, "MOUNTS", (f"{tmp_path}/media/*",))
    told = run("flash", folder, "--no-check")
    assert told.code == 4
    assert f"expected one volume, got {volumes[0]}, {volumes[2]}; choose with" in told.err
