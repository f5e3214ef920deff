"""A bench for the driver: builds the real port, patched or not, and runs it in this process."""

from __future__ import annotations

import contextlib
import functools
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from poet_mcu.board.load import load_board
from poet_mcu.codegen.render import render
from poet_mcu.emulator.card_faults import parse_fault
from poet_mcu.emulator.machine import Machine
from poet_mcu.emulator.sdcard_registers import KINDS
from poet_mcu.toolchain.flags import compile_flags, link_flags

ROOT = Path(__file__).resolve().parents[2]
FIRMWARE = ROOT / "firmware"
BOARD = load_board("stm32f746g-disco")
SRAM1, SRAM1_BYTES = 0x2001_0000, 240 << 10
CARD_BYTES = 8 << 20
#: limits of the driver, a hundredth of its own: polling for 0.6 s takes the host half a minute
HASTE = 100
LIMITS_US = {"INIT": 1_500_000, "READ": 300_000, "BUSY": 600_000}
HASTY = tuple(f"POET_SDMMC_{name}_US={us // HASTE}u" for name, us in LIMITS_US.items())
LIMIT_S = 60.0  # of this machine's time, for a run that should take one


@dataclass(frozen=True)
class Patch:
    """``old`` becomes ``new`` in ``file`` of firmware/port; it must stand there just once."""

    file: str
    old: str
    new: str


class Idle(Exception):
    """The firmware waits for the host, which has nothing to say."""


@dataclass
class Console:
    """The line's other end: keeps what the firmware says, says what it was given."""

    said: bytes = b""
    coming: bytes = b""
    where: str = "nowhere"

    def receive(self) -> bytes:
        coming, self.coming = self.coming, b""
        return coming

    def send(self, data: bytes) -> None:
        self.said += data

    def wait(self, seconds: float) -> None:
        if not self.coming:
            raise Idle


@dataclass
class Run:
    """What a run left: the lines that the firmware said and its machine."""

    machine: Machine
    console: Console
    values: dict[str, list[str]] = field(default_factory=dict)

    def collect(self) -> None:
        for line in self.console.said.decode("ascii", "replace").split("\n"):
            name, _, value = line.partition("=")
            self.values.setdefault(name, []).append(value)


def port_sources() -> list[Path]:
    folders = ("common", "stm32f7", "stm32f746g_disco")
    return [path for name in folders for path in sorted((FIRMWARE / "port" / name).glob("*.c"))]


def sources(main: str) -> list[Path]:
    storage = [FIRMWARE / "storage" / name for name in ("status.c", "sd_csd.c")]
    return [*port_sources(), *storage, ROOT / "tests" / "emulator" / main]


@functools.cache
def folder() -> Path:
    """Where everything of this process is built."""
    return Path(tempfile.mkdtemp(prefix="poet-mcu-bench-"))


def run_tool(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@functools.cache
def compiled(
    source: Path, text: str | None, defines: tuple[str, ...], include: Path = FIRMWARE / "include"
) -> Path:
    """The object of ``source``; with ``text`` in its place where that is not None."""
    out = folder() / f"{source.parent.name}-{source.stem}-{abs(hash((text, defines)))}.o"
    command = ["arm-none-eabi-gcc", *compile_flags(BOARD), f"-I{FIRMWARE / 'include'}"]
    command.append(f"-I{include}")
    command += ["-Wno-error", *(f"-D{define}" for define in defines)]
    if text is None:
        run_tool([*command, "-c", str(source), "-o", str(out)])
    else:
        patched = out.with_suffix(".c")
        patched.write_text(text, "utf-8")
        command += [f"-I{source.parent}", f"-I{source.parent / 'any'}"]
        run_tool([*command, "-c", str(patched), "-o", str(out)])
    return out


def patched_text(source: Path, patches: Sequence[Patch]) -> str | None:
    name = f"{source.parent.name}/{source.name}"
    mine = [patch for patch in patches if patch.file == name]
    if not mine:
        return None
    text = source.read_text("utf-8")
    for patch in mine:
        assert text.count(patch.old) == 1, f"{name}: {patch.old!r} is not there just once"
        text = text.replace(patch.old, patch.new)
    return re.sub(r'#include "\.\./', f'#include "{source.parent.parent}/', text)


def linker_script() -> Path:
    path = folder() / "firmware.ld"
    if not path.exists():
        script = render(
            "linker.ld.j2",
            vectors_origin="",
            boot_bytes=0,
            flash_origin=f"{BOARD.flash.origin:#x}",
            flash_bytes=BOARD.flash.size_bytes,
            ram_origin=f"{SRAM1:#x}",
            ram_bytes=SRAM1_BYTES,
            stack_bytes=4096,
            parts=(),
        )
        path.write_text(script, "utf-8")
    return path


@functools.cache
def firmware(
    patches: tuple[Patch, ...] = (), defines: tuple[str, ...] = (), main: str = "card_main.c"
) -> bytes:
    """The image that would be flashed."""
    used = sources(main)
    known = {f"{source.parent.name}/{source.name}" for source in used}
    assert all(patch.file in known for patch in patches)
    objects = [compiled(s, patched_text(s, patches), defines) for s in used]
    return linked(objects, f"firmware-{abs(hash((patches, defines, main)))}")


def linked(objects: Sequence[Path], name: str) -> bytes:
    """The image of ``objects``, all its RAM in SRAM1."""
    elf = folder() / f"{name}.elf"
    command = ["arm-none-eabi-gcc", *link_flags(BOARD), f"-T{linker_script()}"]
    command += [str(path) for path in objects]
    run_tool([*command, "-Wl,--start-group", "-lc", "-lgcc", "-Wl,--end-group", "-o", str(elf)])
    run_tool(["arm-none-eabi-objcopy", "-O", "binary", str(elf), str(elf.with_suffix(".bin"))])
    return elf.with_suffix(".bin").read_bytes()


def card_image() -> Path:
    with tempfile.NamedTemporaryFile(dir=folder(), suffix=".img", delete=False) as file:
        file.truncate(CARD_BYTES)
    return Path(file.name)


def start(image: bytes, faults: Sequence[str] = (), kind: str = "sdhc") -> Run:
    console = Console()
    parsed = [parse_fault(text) for text in faults]
    return Run(Machine(image, card_image(), console, faults=parsed, kind=KINDS[kind]), console)


def run(image: bytes, *, until_complaint: bool = False) -> Run:
    """Run until the firmware is done, or the machine complains; MachineFault comes through."""
    made = start(image)
    try:
        until_idle(made, until_complaint=until_complaint)
        assert until_complaint or made.console.said.endswith(b"done\n"), made.console.said
    finally:
        made.machine.usart.flush()
        made.collect()
    return made


def until_idle(made: Run, *, until_complaint: bool = False, limit_s: float = LIMIT_S) -> None:
    """Run until the firmware waits for the host, or the machine complains."""
    end = time.monotonic() + limit_s
    with contextlib.suppress(Idle):
        while not (until_complaint and made.machine.trace.complaints):
            for _ in range(100):
                made.machine.step()
            assert time.monotonic() < end, f"no end after {made.console.said!r}"


def go_on(
    made: Run, faults: Sequence[str] = (), *, byte: bytes = b"\n", limit_s: float = LIMIT_S
) -> None:
    """From now on ``faults`` strike; ``byte`` goes to the firmware, which runs until it waits."""
    made.machine.card_faults.replace([parse_fault(text) for text in faults])
    made.console.coming = byte
    until_idle(made, limit_s=limit_s)
