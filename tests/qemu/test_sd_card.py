"""The real start-up, linker script, ports, SD driver and page store in QEMU."""

from __future__ import annotations

import os
import select
import subprocess
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

import pytest

from poet_mcu.codegen.render import render
from poet_mcu.toolchain.flags import LANGUAGE, WARNINGS

pytestmark = pytest.mark.qemu

ROOT = Path(__file__).resolve().parents[2]
FIRMWARE = ROOT / "firmware"
CFLAGS = [*LANGUAGE, *WARNINGS, "-mthumb", "-g", "-ffunction-sections", "-fdata-sections"]
LIMIT_S = 90.0
BLOCK_BYTES = 512


@dataclass(frozen=True)
class Target:
    """One emulated machine with one core, and where its memory is."""

    machine: str
    ports: tuple[str, ...]
    core: str
    cflags: tuple[str, ...]
    core_hz: int
    ram_origin: str
    ram_bytes: int
    qemu_cpu: str = ""


M3 = ("-mcpu=cortex-m3",)
M4 = ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
M7 = ("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard")
M55 = ("-mcpu=cortex-m55", "-mfloat-abi=hard", "-DPOET_FLUSH_SUBNORMALS=1")


def lm3s(core: str, cflags: tuple[str, ...]) -> Target:
    machine, hz = "lm3s6965evb", 50_000_000
    ports = (machine, "primecell", "common")
    return Target(machine, ports, core, cflags, hz, "0x20000000", 65536, f"cortex-{core}")


CARD_TARGETS = [lm3s("m3", M3), lm3s("m4", M4), lm3s("m7", M7), lm3s("m55", M55)]
FILE_PORTS = ("mps2_an500", "common")
FILE_TARGETS = [
    Target("mps2-an500", FILE_PORTS, "m7", M7, 25_000_000, "0x60000000", 65536),
    Target("mps2-an386", FILE_PORTS, "m4", M4, 25_000_000, "0x20000000", 65536),
]


def core_of(target: Target) -> str:
    return f"{target.machine}-{target.core}"


def linker_script(target: Target, ram_bytes: int, stack_bytes: int = 2048) -> str:
    return render(
        "linker.ld.j2",
        vectors_origin="",  # they stand at the start of the flash
        boot_bytes=0,
        flash_origin="0x00000000",
        flash_bytes=262144,
        ram_origin=target.ram_origin,
        ram_bytes=ram_bytes,
        stack_bytes=stack_bytes,
        parts=(),
    )


MAIN = ROOT / "tests" / "qemu" / "sd_card_main.c"


def link(
    target: Target,
    folder: Path,
    ram_bytes: int = 0,
    defines: tuple[str, ...] = (),
    mains: tuple[Path, ...] = (MAIN,),
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    script = folder / "firmware.ld"
    script.write_text(linker_script(target, ram_bytes or target.ram_bytes), "utf-8")
    elf = folder / "firmware.elf"
    sources = [
        *mains,
        *sorted((FIRMWARE / "storage").glob("*.c")),
        *(c for port in target.ports for c in sorted((FIRMWARE / "port" / port).glob("*.c"))),
    ]
    command = ["arm-none-eabi-gcc", *CFLAGS, *target.cflags, "-O2"]
    command += [f"-I{FIRMWARE / 'include'}", f"-DPOET_CORE_HZ={target.core_hz}"]
    command += [f"-D{define}" for define in defines]
    command += [str(source) for source in sources]
    command += ["-nostartfiles", "--specs=nano.specs", f"-T{script}"]
    command += ["-Wl,--gc-sections,--fatal-warnings", "-o", str(elf)]
    return elf, subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory):
    @cache
    def build(target: Target, defines: tuple[str, ...] = ()) -> Path:
        elf, done = link(target, tmp_path_factory.mktemp(core_of(target)), defines=defines)
        assert done.returncode == 0, done.stderr
        return elf

    return build


def qemu_command(target: Target, elf: Path, *extra: str) -> list[str]:
    command = ["qemu-system-arm", "-M", target.machine, "-display", "none", "-monitor", "none"]
    if target.qemu_cpu:
        command += ["-cpu", target.qemu_cpu]
    return [*command, "-kernel", str(elf), *extra]


@dataclass
class Console:
    """Lines from the emulator; write() sends all at once, as a host does."""

    read_fd: int
    write_fd: int
    lines: list[str] = field(default_factory=list)
    pending: bytes = b""

    def until(self, wanted: str, count: int = 1, limit_s: float = LIMIT_S) -> None:
        """Read lines until `wanted` was in `count` of them."""
        end = time.monotonic() + limit_s
        while sum(wanted in line for line in self.lines) < count:
            left = end - time.monotonic()
            assert left > 0, f"no {wanted!r} within {limit_s} s after:\n" + "\n".join(self.lines)
            ready, _, _ = select.select([self.read_fd], [], [], left)
            if not ready:
                continue
            got = os.read(self.read_fd, 4096)
            assert got, "the emulator ended after:\n" + "\n".join(self.lines)
            *lines, self.pending = (self.pending + got).split(b"\n")
            self.lines += [line.decode("ascii", "replace").strip() for line in lines]

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.write_fd, data) :]

    @property
    def values(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.lines if "=" in line)


@contextmanager
def running(command: list[str], cwd: Path) -> Iterator[Console]:
    process = subprocess.Popen(
        [*command, "-serial", "stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=cwd,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Console(process.stdout.fileno(), process.stdin.fileno())
    finally:
        process.kill()
        process.communicate()


def image(path: Path, nbytes: int) -> Path:
    with path.open("wb") as file:
        file.truncate(nbytes)
    return path


def sd_drive(path: Path) -> list[str]:
    return ["-drive", f"if=sd,format=raw,file={path}"]


def semihosting(name: str | None) -> list[str]:
    argument = "" if name is None else f",arg={name}"
    return ["-semihosting-config", f"enable=on,target=native{argument}"]


ECHO = bytes((i * 7 + (i >> 8)) & 0xFF for i in range(4096))

EXPECTED = {
    "stack_bytes": "2048",
    "data_sum": "4321",
    "bss_sum": "0",
    "arena_aligned": "1",
    "time_is_monotonic": "1",
    "clocks_agree": "1",
    "open": "ok",
    "sizes": "ok",
    "page_open_foreign": "card was not prepared for this build",
    "page_format": "ok",
    "page_open": "ok",
    "page_begin": "ok",
    "page_in_early": "not allowed in this state",
    "page_out": "ok",
    "page_out_second": "not allowed in this state",
    "page_out_wait": "ok",
    "page_in": "ok",
    "page_in_wait": "ok",
    "page_same": "1",
    "page_overwrite": "ok",
    "page_in_stale": "ok",
    "page_in_stale_wait": "a page's checksum does not match",
    "page_fault_block": "4097",
    "mark": "ok",
    "reopen": "ok",
    "reread": "ok",
    "reread_same": "1",
    "echo_count": str(len(ECHO)),
    "echo_crc": str(zlib.crc32(ECHO)),
}


def run_checks(console: Console) -> dict[str, str]:
    console.until("echo?")
    console.write(ECHO)
    console.until("done")
    return console.values


def check_values(values: dict[str, str], blocks: int) -> None:
    expected = EXPECTED | {"blocks": str(blocks)}
    assert {key: values.get(key) for key in expected} == expected
    assert 256 < int(values["stack_free_end"]) < int(values["stack_free"]) < 2048


def check_image(path: Path, blocks: int) -> None:
    """The host's view: byte order of the header, and the right blocks on either addressing."""
    with path.open("rb") as file:
        file.seek(4096 * BLOCK_BYTES)
        header = file.read(BLOCK_BYTES)
        file.seek((blocks - 1) * BLOCK_BYTES)
        mark = file.read(BLOCK_BYTES)
    body = b"POET-MCU CARD\0\0\0" + (2).to_bytes(4, "little") + bytes([1, 2, 3] + [0] * 13)
    body += (7).to_bytes(4, "little") + bytes(8)
    assert header == (body + zlib.crc32(body).to_bytes(4, "little")).ljust(BLOCK_BYTES, b"\0")
    assert mark == bytes(((i * 251 + 4242 * 31) >> (i & 3)) & 0xFF for i in range(BLOCK_BYTES))


@pytest.mark.parametrize("nbytes", [8 << 20, 4 << 30], ids=["sdsc-8M", "sdhc-4G"])
@pytest.mark.parametrize("target", CARD_TARGETS, ids=core_of)
def test_card_on_spi(firmware, tmp_path: Path, target: Target, nbytes: int) -> None:
    card = image(tmp_path / "card.img", nbytes)
    with running(qemu_command(target, firmware(target), *sd_drive(card)), tmp_path) as console:
        values = run_checks(console)
    check_values(values, nbytes // BLOCK_BYTES)
    check_image(card, nbytes // BLOCK_BYTES)


@pytest.mark.parametrize("target", CARD_TARGETS[:1], ids=core_of)
def test_no_card_is_told_within_a_bound(firmware, tmp_path: Path, target: Target) -> None:
    with running(qemu_command(target, firmware(target)), tmp_path) as console:
        console.until("blocks=")
    assert console.values["open"] == "no SD card answers"
    assert console.values["blocks"] == "0"
    assert 1_000_000 <= int(console.values["open_us"]) < 5_000_000


@pytest.mark.parametrize("name", [None, "my card.img"], ids=["default", "named"])
@pytest.mark.parametrize("target", FILE_TARGETS, ids=core_of)
def test_card_in_a_file(firmware, tmp_path: Path, target: Target, name: str | None) -> None:
    card = image(tmp_path / (name or "card.img"), 4 << 20)
    command = qemu_command(target, firmware(target), *semihosting(name))
    with running(command, tmp_path) as console:
        values = run_checks(console)
    check_values(values, (4 << 20) // BLOCK_BYTES)
    check_image(card, (4 << 20) // BLOCK_BYTES)


@pytest.mark.parametrize("name", ["none.img", "x" * 600], ids=["missing", "too-long"])
def test_missing_file_is_no_card(firmware, tmp_path: Path, name: str) -> None:
    """The standard file is there, and must not be taken instead."""
    card = image(tmp_path / "card.img", 1 << 20)
    command = qemu_command(FILE_TARGETS[0], firmware(FILE_TARGETS[0]), *semihosting(name))
    with running(command, tmp_path) as console:
        console.until("blocks=")
    assert console.values["open"] == "no SD card answers"
    assert [path.name for path in tmp_path.iterdir()] == ["card.img"]
    assert card.read_bytes() == bytes(1 << 20)


@pytest.mark.parametrize("target", [CARD_TARGETS[0], FILE_TARGETS[0]], ids=core_of)
def test_reset_starts_over_with_fresh_data(firmware, tmp_path: Path, target: Target) -> None:
    extra = semihosting(None) if target in FILE_TARGETS else []
    command = qemu_command(target, firmware(target, ("RESET",)), *extra)
    with running(command, tmp_path) as console:
        console.until("data_sum", count=3)
    assert {line for line in console.lines if line.startswith("data_sum")} == {"data_sum=4321"}


def pty_name(stdout: IO[str]) -> str:
    while True:
        line = stdout.readline()
        assert line, "no pseudo-terminal was announced"
        if "redirected to" in line:
            return line.split()[4]


@pytest.mark.parametrize("target", [CARD_TARGETS[0], FILE_TARGETS[0]], ids=core_of)
def test_serial_input_from_a_pty_is_not_lost(firmware, tmp_path: Path, target: Target) -> None:
    image(tmp_path / "card.img", 8 << 20)
    extra = semihosting(None) if target in FILE_TARGETS else sd_drive(tmp_path / "card.img")
    command = [*qemu_command(target, firmware(target), *extra), "-serial", "pty", "-S"]
    command += ["-qmp", "stdio"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        terminal = os.open(pty_name(process.stdout), os.O_RDWR | os.O_NOCTTY)
        # Started only now, so that nothing is said before anyone listens.
        process.stdin.write('{"execute":"qmp_capabilities"}{"execute":"cont"}\n')
        process.stdin.flush()
        values = run_checks(Console(terminal, terminal))
        os.close(terminal)
    finally:
        process.kill()
        process.communicate()
    assert values["echo_count"] == EXPECTED["echo_count"]
    assert values["echo_crc"] == EXPECTED["echo_crc"]


@pytest.mark.parametrize("target", [CARD_TARGETS[0]], ids=core_of)
def test_budget_is_exact_to_the_byte(firmware, tmp_path: Path, target: Target) -> None:
    """The RAM that the symbols add up to links as a budget; eight bytes less do not."""
    symbols = subprocess.run(
        ["arm-none-eabi-nm", str(firmware(target))], capture_output=True, text=True, check=True
    ).stdout
    sizes = {line.split()[2]: int(line.split()[0], 16) for line in symbols.splitlines()}
    needed = sizes["poet_ld_ram_bytes"]
    parts = ("stack", "data", "bss", "arena")
    assert needed == sum(sizes[f"poet_ld_{part}_bytes"] for part in parts)
    assert sizes["poet_ld_arena_bytes"] == 4096
    assert sizes["poet_ld_stack_start"] == int(target.ram_origin, 16)
    assert link(target, tmp_path, needed)[1].returncode == 0
    refused = link(target, tmp_path, needed - 8)[1]
    assert refused.returncode != 0
    assert "region `RAM' overflowed by" in refused.stderr


@pytest.mark.parametrize("target", [CARD_TARGETS[0]], ids=core_of)
def test_icount_time_repeats_exactly(firmware, tmp_path: Path, target: Target) -> None:
    card = image(tmp_path / "card.img", 8 << 20)
    extra = [*sd_drive(card), "-icount", "shift=4"]
    seen = []
    for _ in range(2):
        with running(qemu_command(target, firmware(target), *extra), tmp_path) as console:
            console.until("open_us")
        seen.append(console.values["open_us"])
    assert seen[0] == seen[1]
