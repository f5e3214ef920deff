"""``python -m poet_mcu.emulator FIRMWARE.bin --card IMAGE``: the board as a process.

Standard output says where the console is, when the firmware listens there; standard error ends with
the fault that ended the run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from poet_mcu.emulator.card_faults import KINDS, parse_fault
from poet_mcu.emulator.line import AnnouncedLine, SocketLine, TerminalLine
from poet_mcu.emulator.machine import Machine, ResetRequested
from poet_mcu.emulator.sdcard_registers import KINDS as CARDS
from poet_mcu.emulator.sdcard_registers import find_kind
from poet_mcu.errors import PoetError


def main() -> int:
    """Run until the process is ended or the machine faults; its exit code."""
    kinds = "; ".join(f"{kind}: {text}" for kind, (_, text) in KINDS.items())
    parser = argparse.ArgumentParser(prog="poet_mcu.emulator")
    parser.add_argument("firmware", type=Path, help="the image that would be flashed")
    parser.add_argument("--card", type=Path, required=True, help="the card's content; written to")
    parser.add_argument("--kind", default="sdhc", help=f"the card: {', '.join(CARDS)}")
    parser.add_argument("--serial", choices=("pty", "socket"), default="socket")
    parser.add_argument("--fault", action="append", default=[], help=kinds.replace("%", "%%"))
    parser.add_argument("--trace", type=Path, help="JSON lines of what the machine did")
    options = parser.parse_args()
    end = SocketLine() if options.serial == "socket" else TerminalLine()
    line = AnnouncedLine(end, _announce)
    firmware = options.firmware.read_bytes()
    try:
        faults = [parse_fault(text) for text in options.fault]
        kind = find_kind(options.kind)
        while True:
            machine = Machine(
                firmware, options.card, line, faults=faults, trace=options.trace, kind=kind
            )
            try:
                machine.run()
            except ResetRequested:
                continue
            finally:
                machine.usart.flush()
    except PoetError as error:
        sys.stderr.write(f"poet: {error}\n")
        return error.exit_code


def _announce(where: str) -> None:
    sys.stdout.write(f"poet: {where}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
