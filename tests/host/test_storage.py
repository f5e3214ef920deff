"""Check sums, RAM device, fault device and page store, compiled for the host with sanitizers."""

from __future__ import annotations

import binascii
import re
import subprocess
import zlib
from pathlib import Path

import pytest

from poet_mcu.toolchain.flags import LANGUAGE, WARNINGS

ROOT = Path(__file__).resolve().parents[2]
STORAGE = sorted((ROOT / "firmware" / "storage").glob("*.c"))
HELPERS = Path(__file__).with_name("storage")
STRICT = [*(flag for flag in LANGUAGE if flag != "-ffreestanding"), *WARNINGS, "-g"]
SANITIZE = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
CRC_MISMATCH = "a page's checksum does not match"
STATE = "not allowed in this state"
ARGUMENT = "argument out of range"
NO_CARD = "no SD card answers"
IO = "input or output error"


def compile_host(output: Path, sources: list[Path], flags: list[str]) -> Path:
    command = ["gcc", *STRICT, *flags, f"-I{ROOT / 'firmware' / 'include'}"]
    command += [str(source) for source in [*sources, *STORAGE]]
    done = subprocess.run(
        [*command, "-o", str(output)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return output


def run(program: Path, *arguments: str, cwd: Path | None = None) -> list[str]:
    done = subprocess.run(
        [str(program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.splitlines()


def values(lines: list[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return compile_host(folder / "page_test", [HELPERS / "page_test.c"], SANITIZE)


def crc7(data: bytes) -> int:
    crc = 0
    for byte in data:
        for bit in range(7, -1, -1):
            top = (crc >> 6) & 1
            crc = (crc << 1) & 0x7F
            if top != (byte >> bit) & 1:
                crc ^= 0x09
    return crc


def test_check_sums_agree_with_other_implementations(program: Path, tmp_path: Path) -> None:
    lines = run(program, "crc", cwd=tmp_path)
    data = (tmp_path / "bytes.bin").read_bytes()
    assert len(lines) > 25
    for line in lines:
        n, crc32, seeded, crc16, seven = map(int, line.split())
        part = data[:n]
        assert crc32 == zlib.crc32(part)
        assert seeded == zlib.crc32(part, 77)
        assert crc16 == binascii.crc_hqx(part, 0)
        assert seven == crc7(part)


def test_crc7_of_the_known_frames() -> None:
    """CMD0 and CMD8 0x1AA have the check bytes 0x95 and 0x87; pins this test's own oracle."""
    assert (crc7(bytes.fromhex("4000000000")) << 1) | 1 == 0x95
    assert (crc7(bytes.fromhex("48000001aa")) << 1) | 1 == 0x87


def test_every_status_has_its_own_text(program: Path) -> None:
    header = (ROOT / "firmware/include/poet/status.h").read_text("utf-8")
    known = dict(re.findall(r'X\(POET_\w+, (-?\d+), "([^"]+)"\)', header))
    assert len(known) >= 19
    assert len(set(known.values())) == len(known)
    found = values(run(program, "status"))
    assert {key: found.get(key) for key in known} == known
    strangers = {found[key] for key in found if key not in known}
    assert strangers == {"unknown status"}


def test_ram_device_touches_nothing_outside(program: Path) -> None:
    found = values(run(program, "ram"))
    assert found == {"closed_read": STATE, "closed_blocks": "0", "good": "2000"}


def test_header_bytes_and_refusal_of_any_other_header(program: Path) -> None:
    lines = run(program, "header")
    body = b"POET-MCU CARD\0\0\0" + (2).to_bytes(4, "little") + b"0123456789abcdef"
    body += (9).to_bytes(4, "little") + bytes(8)
    expected = body + zlib.crc32(body).to_bytes(4, "little")
    assert bytes.fromhex(lines[0]) == expected.ljust(512, b"\0")
    found = values(lines)
    assert found["refused"] == str(52 * 8)
    assert found["fault_block"] == "16"
    assert found["open"] == "ok"
    assert found["touched"] == "9"


def test_capacity_layout_and_a_card_that_lies(program: Path) -> None:
    small = "card is smaller than the plan needs"
    assert values(run(program, "capacity")) == {
        "one_too_far": small,
        "wraps": small,
        "exact_format": "ok",
        "exact": "ok",
        "over_header": ARGUMENT,
        "past_region": ARGUMENT,
        "empty": ARGUMENT,
        "over_slot": ARGUMENT,
        "slot_past_region": ARGUMENT,
        "slot_over_header": ARGUMENT,
        "fake_capacity": small,
    }


def test_every_violation_of_the_order_is_refused(program: Path) -> None:
    lines = run(program, "order")
    refused = [
        "in_never_written",
        "wait_nothing",
        "in_before_wait",
        "out_twice",
        "out_other",
        "wait_other",
        "begin_pending",
        "format_pending",
        "open_pending",
        "wait_twice",
        "in_twice",
        "in_of_last_step",
    ]
    arguments = ["out_unknown", "in_unknown", "wait_unknown", "out_null"]
    found = values(lines)
    assert {key: found[key] for key in refused} == dict.fromkeys(refused, STATE)
    assert {key: found[key] for key in arguments} == dict.fromkeys(arguments, ARGUMENT)
    for key in ("out", "wait", "in", "in_wait", "in_again", "begin"):
        assert found[key] == "ok"
    assert found["same"] == "1"
    assert "reads=2 writes=1 read_bytes=4000 write_bytes=2000" in lines
    assert found["fault_block"] == str(2**32 - 1)


def test_every_flipped_bit_of_a_page_is_caught(program: Path) -> None:
    lines = run(program, "corruption")
    assert "bits=16000 caught=16000" in lines
    found = values(lines)
    assert found["fault_block"] == "17"
    assert found["intact"] == "ok"
    assert found["zeros"] == found["ones"] == CRC_MISMATCH
    assert found["padding"] == "ok"


def test_page_number_is_part_of_the_check_sum(program: Path) -> None:
    assert values(run(program, "twins")) == {"different": "1"}


def test_kept_pages_outlive_a_step(program: Path) -> None:
    assert values(run(program, "kept")) == {
        "empty": STATE, "start": "1", "kept": "1", "other": STATE, "count": "464", "same": "1",
        "behind": ARGUMENT, "no_page": ARGUMENT, "invalid": STATE,
        "too_long": ARGUMENT, "zeros": "1", "counted": "2", "under_way": STATE,
    }  # fmt: skip


FAIL, TEAR, TEAR_SILENT, FLIP, MISDIRECT, POWER_CUT = range(1, 7)
TOLD = [(FAIL, 0, 0, 0, IO)]
TOLD += [(TEAR, keep, last, 0, IO) for keep in range(5) for last in (0, 1)]
TOLD += [(POWER_CUT, keep, last, 0, NO_CARD) for keep in range(5) for last in (0, 1)]


@pytest.mark.parametrize(("kind", "keep", "last", "shift", "status"), TOLD)
def test_device_errors_stop_the_page(
    program: Path, kind: int, keep: int, last: int, shift: int, status: str
) -> None:
    lines = run(program, "fault", str(kind), str(keep), str(last), str(shift))
    assert f"hit_out={status}" in lines
    assert f"after_in={STATE}" in lines
    assert "clean_out=ok" in lines
    assert f"hit_in={status}" in lines
    assert lines.count("recovered=1") == 2
    assert lines.count("faults=1 block=17") == 2


SILENT = [(TEAR_SILENT, keep, last, 0) for keep in range(4) for last in (0, 1)]
SILENT += [(FLIP, 0, 0, 0), (MISDIRECT, 0, 0, 4), (MISDIRECT, 0, 0, 20)]


@pytest.mark.parametrize(("kind", "keep", "last", "shift"), SILENT)
def test_silent_errors_are_caught_by_the_check_sum(
    program: Path, kind: int, keep: int, last: int, shift: int
) -> None:
    lines = run(program, "fault", str(kind), str(keep), str(last), str(shift))
    assert "hit_out=ok" in lines
    assert f"after_in={CRC_MISMATCH}" in lines
    assert f"hit_in={CRC_MISMATCH}" in lines
    assert lines.count("recovered=1") == 2


def test_a_tear_that_keeps_all_blocks_is_no_error(program: Path) -> None:
    lines = run(program, "fault", str(TEAR_SILENT), "4", "0", "0")
    assert {"hit_out=ok", "after_in=ok", "hit_in=ok"} <= set(lines)


@pytest.mark.parametrize("late", [0, 1])
def test_asynchronous_device(program: Path, late: int) -> None:
    """Reads before the end of a write are refused (C5), a reused source is caught (C6)."""
    found = values(run(program, "late", str(late)))
    assert found == {
        "polls": "5",
        "in_during_out": STATE,
        "device_during_out": STATE,
        "early_same": "0" if late else "1",
        "late_same": "1",
        "reused_source": CRC_MISMATCH if late else "ok",
    }
