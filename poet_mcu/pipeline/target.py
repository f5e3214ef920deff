"""A build folder and the thing that runs it: a board on a port, an emulator, or the host's twin."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board as BoardFile
from poet_mcu.codegen.bundle import BOARD_FILE, MANIFEST
from poet_mcu.errors import InputError
from poet_mcu.ir.graph import Role, Value
from poet_mcu.link.client import Board, open_board
from poet_mcu.link.emulator import run_host, run_qemu, run_registers
from poet_mcu.link.protocol import BUILD_ID_BYTES
from poet_mcu.pipeline.options import options_from
from poet_mcu.pipeline.prepare import Prepared, prepare

_COUNTED = (
    "sd_read_bytes", "sd_write_bytes", "page_ins", "page_outs", "peak_bytes", "ram_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BuildFolder:
    """What ``build`` left in ``path``: its manifest, its plan, its board."""

    path: Path
    manifest: dict[str, Any]
    plan: dict[str, Any]
    board: BoardFile

    @property
    def build_id(self) -> bytes:
        """16 bytes that the firmware must answer with."""
        return bytes.fromhex(self.manifest["build_id"])

    @property
    def has_twin(self) -> bool:
        """Whether the program was compiled for this machine too."""
        return (self.path / "host" / "firmware").is_file()

    def prepared(self) -> Prepared:
        """The graphs of the build, made again from the model in the folder."""
        model, board = self.path / "model.onnx", str(self.path / BOARD_FILE)
        return prepare(options_from(self.manifest["options"], model, board))


def open_folder(path: Path) -> BuildFolder:
    """The build of a model in ``path``. Raises InputError when it is none."""
    build = open_firmware(path)
    with _told_as_damage(path):
        plan = json.loads((path / "plan.json").read_text(encoding="utf-8"))
        _check_files(build.manifest, plan)
    return replace(build, plan=plan)


def open_firmware(path: Path) -> BuildFolder:
    """Any firmware that can be flashed, a self-test too, which has no plan."""
    if not (path / MANIFEST).is_file():
        raise InputError(
            f"{path}: expected a folder made by 'poet-mcu build', got none with {MANIFEST}"
        )
    with _told_as_damage(path):
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if len(bytes.fromhex(manifest["build_id"])) != BUILD_ID_BYTES:
            raise ValueError(f"build_id {manifest['build_id']}")
        return BuildFolder(path, manifest, {}, load_board(path / BOARD_FILE))


@contextlib.contextmanager
def _told_as_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path}: expected the files of a build, got damaged ones ({error}); build again"
        ) from error


def _check_files(manifest: dict[str, Any], plan: dict[str, Any]) -> None:
    """Raise KeyError, TypeError or ValueError unless what the verbs read of them is there."""
    options_from(manifest["options"], Path("model.onnx"), BOARD_FILE)
    counted = {key: plan[key] for key in _COUNTED}
    counted["region_first_block"] = plan["checkpoint"]["region_first_block"]
    for key, value in counted.items():
        if not isinstance(value, int):
            raise TypeError(f"{key} {value!r}")


@contextlib.contextmanager
def connect(
    folder: BuildFolder,
    port: str | None,
    *,
    serial: Literal["pty", "socket"] = "pty",
    icount: bool = False,
    card: Path | None = None,
) -> Iterator[Board]:
    """The board at the URL ``port``, or an emulator of it when ``port`` is None.

    The emulator's card is the file ``card``, made from the build's image if it does not exist;
    None: a copy of that image, thrown away afterwards.
    """
    if port is not None:
        if card is not None:
            raise InputError("--card: expected it with --emulate, got it with --port; leave it out")
        with open_board(port, build_id=folder.build_id) as board:
            yield board
        return
    with _emulated(folder, serial, card, icount=icount) as url, _opened(url, folder) as board:
        yield board


@contextlib.contextmanager
def connect_twin(folder: BuildFolder) -> Iterator[Board]:
    """The same program compiled for this machine."""
    program = folder.path / "host" / "firmware"
    with (
        _card_copy(folder) as card,
        run_host(program, card) as url,
        _opened(url, folder) as board,
    ):
        yield board


def _opened(url: str, folder: BuildFolder) -> Board:
    return open_board(url, build_id=folder.build_id)


@contextlib.contextmanager
def _emulated(
    folder: BuildFolder, serial: Literal["pty", "socket"], image: Path | None, *, icount: bool
) -> Iterator[str]:
    board, elf = folder.board, folder.path / "firmware.elf"
    with _card_copy(folder, image) as card:
        if board.kind == "host":
            with run_host(elf, card) as url:
                yield url
            return
        if board.emulator is None:
            raise InputError(
                f"{board.name}: --emulate: expected a board with an emulator, got one without; "
                "use --port with the board's serial port"
            )
        if board.emulator.kind == "registers":
            with run_registers(elf.with_suffix(".bin"), card, serial) as url:
                yield url
            return
        machine, cpu = board.emulator.machine, board.emulator.cpu or None
        semihosting = board.storage.driver == "semihosting"
        with run_qemu(
            elf, machine, cpu, card, serial, icount=icount, semihosting=semihosting
        ) as url:
            yield url


@contextlib.contextmanager
def _card_copy(folder: BuildFolder, kept: Path | None = None) -> Iterator[Path]:
    """A copy of the card image: a run never changes the build. ``kept`` is where it stays."""
    image = folder.path / "card.img"
    if not image.is_file():
        raise InputError(f"{image}: expected a card image, got no such file; build again")
    if kept is not None:
        if not kept.exists():
            partial = kept.with_name(f".{kept.name}.partial")
            shutil.copyfile(image, partial)
            partial.replace(kept)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="poet-mcu-card-") as scratch:
        copy = Path(scratch) / "card.img"
        shutil.copyfile(image, copy)
        yield copy


def value_of(prepared: Prepared, role: Role) -> Value:
    """The one value of that role in the training graph."""
    (value,) = prepared.train.with_role(role)
    return value


def label_of(prepared: Prepared) -> Value | None:
    """The labels of the training graph; None when the model's output is the loss."""
    found = prepared.train.with_role(Role.LABEL)
    return found[0] if found else None
