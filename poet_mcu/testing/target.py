"""What the suite runs on: a board on a port, or its emulator, behind one way to start firmware."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from poet_mcu.board.load import buildable
from poet_mcu.board.schema import Board as BoardFile
from poet_mcu.errors import DeviceError, InputError
from poet_mcu.link.client import Board, once_there, open_board
from poet_mcu.pipeline.flash import find_port, flash
from poet_mcu.pipeline.target import BuildFolder, connect
from poet_mcu.testing.rig import RigBoard, board_of

_POWER_S = 60.0
#: how long a board may take to answer after its power came back
_STARTS_S = 10.0
#: how long somebody may take to flash by hand
_BY_HAND_S = 600.0


@dataclass(frozen=True, slots=True)
class Target:
    """One board of a rig, or the emulator of one."""

    rig: RigBoard
    board: BoardFile

    @classmethod
    def of(cls, rig: RigBoard) -> Target:
        """Raises BoardError and InputError for what cannot be tested, or only with more consent."""
        target = cls(rig, buildable(board_of(rig)))
        if target.board.kind == "host":
            raise InputError(
                f"{target.board.name}: --board: expected a board or an emulator of one, got this "
                "computer, whose process a reset ends"
            )
        if target.board.kind == "hardware" and not rig.emulate and not rig.erase_card:
            first = target.board.storage.region_first_block
            raise InputError(
                f"{target.board.name}: --erase-card: expected your consent, got none; the suite "
                f"overwrites the card from block {first} on"
            )
        return target

    @property
    def emulated(self) -> bool:
        """Whether no real board is needed."""
        return self.rig.emulate

    def where(self) -> str:
        """The port, or what stands for it, for reports."""
        if self.emulated:
            return "emulator"
        return self.rig.port or find_port(self.board, self.rig.probe or None).device

    @contextlib.contextmanager
    def boot(self, build: BuildFolder) -> Iterator[Running]:
        """The board with the firmware of ``build`` running, its id checked."""
        port = None if self.emulated else self.where()
        if port is not None and not self.rig.by_hand:
            flash(
                build.path, port=port, probe=self.rig.probe or None,
                volume=Path(self.rig.volume) if self.rig.volume else None,
                tool=self.rig.tool or None,
            )  # fmt: skip
        elif port is not None:
            _wait_for(build, port)
        with connect(build, port) as board:
            running = Running(self, build, board)
            try:
                yield running
            finally:
                running.board.close()


def _wait_for(build: BuildFolder, port: str) -> None:
    """Until somebody has flashed the firmware by hand."""
    hint = f"flash {build.path / 'firmware.hex'} (or .bin, .elf) now: {port} is asked for its id"
    print(hint, file=sys.__stderr__, flush=True)
    once_there(lambda: open_board(port, build_id=build.build_id), _BY_HAND_S).close()


@dataclass(slots=True)
class Running:
    """Firmware that runs; ``board`` is a new connection after the power was away."""

    target: Target
    build: BuildFolder
    board: Board

    def power_cycle(self) -> str:
        """Take the power away, or reset; how it was done. The board answers again afterwards."""
        command = self.target.rig.power_cycle
        if not command:
            self.board.reboot()
            self.board.identify()
            return "reset"
        self.board.close()  # the port may go away with the power
        done = subprocess.run(
            list(command), capture_output=True, text=True, check=False, timeout=_POWER_S
        )
        if done.returncode != 0:
            raise DeviceError(
                f"power_cycle: expected status 0, got {done.returncode}; correct the rig's "
                f"command; it said:\n{(done.stderr + done.stdout).strip()}"
            )
        self.board = once_there(
            lambda: open_board(self.target.where(), build_id=self.build.build_id), _STARTS_S
        )
        return " ".join(command)
