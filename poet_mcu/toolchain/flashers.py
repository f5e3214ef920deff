"""Programs a board's flash: pyOCD in this process, OpenOCD, st-flash, or a copy to a UF2 volume."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from poet_mcu.board.tables import Flashing
from poet_mcu.errors import DeviceError, InputError, ToolMissing
from poet_mcu.toolchain.tools import install_hint

_TIMEOUT_S = 180.0
_SHOWN_LINES = 12
_UF2_INFO = "INFO_UF2.TXT"
#: where desktops mount volumes: Linux, macOS
MOUNTS = ("/media/*/*", "/run/media/*/*", "/media/*", "/mnt/*", "/Volumes/*")


class Job(NamedTuple):
    """What to program, with what. ``probe`` is a serial number, ``volume`` a UF2 folder."""

    folder: Path
    how: Flashing
    probe: str | None
    volume: Path | None


class Way(NamedTuple):
    """One way: its name, why it cannot be gone ('' if it can), how to go it."""

    name: str
    missing: str
    go: Callable[[], None]


def ways(job: Job) -> list[Way]:
    """All ways that the board file names, best first."""
    found: list[Way] = []
    if job.how.pyocd_target:
        found.append(Way("pyocd", _pyocd_missing(job.how.pyocd_target), lambda: _pyocd(job)))
    if job.how.openocd:
        found.append(Way("openocd", _program_missing("openocd"), lambda: _openocd(job)))
    if job.how.st_flash:
        found.append(Way("st-flash", _program_missing("st-flash"), lambda: _st_flash(job)))
    if job.how.uf2_board:
        found.append(Way("uf2", _uf2_missing(job), lambda: _uf2(job)))
    return found


def program(job: Job, wanted: str | None = None) -> str:
    """Program the firmware by the first way that is there, or by ``wanted``; its name.

    Raises ToolMissing that says for every way what to install, DeviceError when the tool failed.
    """
    every = ways(job)
    chosen = [way for way in every if wanted in (None, way.name)]
    if not chosen:
        known = ", ".join(way.name for way in every) or "none"
        raise InputError(f"--tool: expected one of {known} for this board, got '{wanted}'")
    for way in chosen:
        if not way.missing:
            way.go()
            return way.name
    raise ToolMissing("\n".join(f"{way.name}: {way.missing}" for way in chosen))


def _image(job: Job, suffix: str) -> Path:
    path = job.folder / f"firmware.{suffix}"
    if not path.is_file():
        raise InputError(f"{path}: expected an image to program, got no such file; build again")
    return path


def _program_missing(program_name: str) -> str:
    if shutil.which(program_name) is not None:
        return ""
    return f"expected this program in PATH, got none; run: {install_hint(program_name)}"


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            list(command), capture_output=True, text=True, errors="replace", check=False,
            timeout=_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f"{command[0]}: expected it to end within {_TIMEOUT_S:g} s, got silence; check the "
            "cable of the probe and the power of the board"
        ) from error
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines()[-_SHOWN_LINES:]
        raise DeviceError(
            f"{command[0]}: expected the board to be programmed, got status {done.returncode}; "
            "check cable and power; it said:\n" + "\n".join(said)
        )


def _openocd(job: Job) -> None:
    command = ["openocd", *job.how.openocd]
    if job.probe:
        command += ["-c", f"adapter serial {job.probe}"]
    elf = _image(job, "elf").resolve().as_posix()
    _run([*command, "-c", f"program {{{elf}}} verify reset exit"])


def _st_flash(job: Job) -> None:
    command = ["st-flash", *(["--connect-under-reset"] if job.how.under_reset else [])]
    command += ["--reset", "--format", "ihex"]
    if job.probe:
        command += ["--serial", job.probe]
    _run([*command, "write", str(_image(job, "hex"))])


def _pyocd_missing(target: str) -> str:
    try:
        known = importlib.import_module("pyocd.target").TARGET
    except ImportError:
        return "expected the Python package, got none; run: pip install 'poet-mcu[flash]'"
    if target in known or target in _pack_targets():
        return ""
    return f"expected it to know {target}, got none; run: pyocd pack install {target}"


def _pack_targets() -> set[str]:
    """Targets of installed CMSIS-Packs; pyOCD without its pack manager has none."""
    try:
        module: Any = importlib.import_module("pyocd.target.pack.pack_target")
        return {str(d.part_number).lower() for d in module.ManagedPacks.get_installed_targets()}
    except Exception:  # noqa: BLE001 - a damaged index of packs must not keep other tools away
        return set()


def _pyocd(job: Job) -> None:
    helpers: Any = importlib.import_module("pyocd.core.helpers").ConnectHelper
    probes = helpers.get_all_connected_probes(blocking=False, unique_id=job.probe)
    if len(probes) != 1:
        shown = [f"{p.unique_id} ({p.description})" for p in probes]
        raise DeviceError(
            f"pyocd: expected one probe{f' {job.probe}' if job.probe else ''}, got "
            f"{', '.join(shown) or 'none'}; {'choose with --probe' if probes else 'connect one'}"
        )
    mode = "under-reset" if job.how.under_reset else "halt"
    options = {"target_override": job.how.pyocd_target, "connect_mode": mode}
    image = str(_image(job, "hex"))
    programmer = importlib.import_module("pyocd.flash.file_programmer").FileProgrammer
    try:
        with helpers.session_with_chosen_probe(
            blocking=False, unique_id=probes[0].unique_id, options=options
        ) as session:
            programmer(session).program(image)
            session.target.reset()
    except Exception as error:
        raise DeviceError(
            f"pyocd: expected the board to be programmed, got {type(error).__name__}: {error}; "
            "check cable and power"
        ) from error


def _volumes(job: Job) -> list[Path]:
    """Folders whose INFO_UF2.TXT names the board."""
    places = (
        [job.volume]
        if job.volume
        else [path for pattern in MOUNTS for path in sorted(Path("/").glob(pattern[1:]))]
    )
    found = []
    for place in places:
        try:
            text = (place / _UF2_INFO).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if f"Board-ID: {job.how.uf2_board}" in text:
            found.append(place)
    return found


def _uf2_missing(job: Job) -> str:
    found = _volumes(job)
    if len(found) == 1:
        return ""
    if found:
        return f"expected one volume, got {', '.join(map(str, found))}; choose with --volume"
    return (
        f"expected a mounted volume whose {_UF2_INFO} says Board-ID: {job.how.uf2_board}, got "
        "none; hold the board's BOOTSEL button while you connect it, mount the volume, or say "
        "where it is with --volume"
    )


def _uf2(job: Job) -> None:
    source, (volume,) = _image(job, "uf2"), _volumes(job)
    try:
        shutil.copyfile(source, volume / source.name)
    except OSError as error:
        raise DeviceError(
            f"{volume}: expected to write {source.name}, got {error.strerror}; connect the board "
            "again with its button held"
        ) from error
