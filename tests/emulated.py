"""Builds run on the emulator or as the host's twin, and compared to the bit."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from poet_mcu.link.client import open_board
from poet_mcu.link.emulator import run_registers
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import connect, connect_twin, open_folder
from poet_mcu.pipeline.validate import Run, batches, run_steps


def run_folder(folder: Path, steps: int, *, twin: bool) -> Run:
    """``steps`` training steps of the build in ``folder`` over its own made-up batches."""
    opened = open_folder(folder)
    work = batches(opened.prepared(), None, steps)
    with connect_twin(opened) if twin else connect(opened, None) as device:
        return run_steps(Session(device), work)


#: the register-level emulator takes seconds for a request, on a loaded machine more
PATIENCE_S = 30.0


def run_registers_of(
    folder: Path, steps: int, trace: Path | None = None, faults: tuple[str, ...] = ()
) -> Run:
    """The same on emulated registers, waited for patiently."""
    opened = open_folder(folder)
    work = batches(opened.prepared(), None, steps)
    with tempfile.TemporaryDirectory(prefix="poet-mcu-registers-") as held:
        card = Path(held) / "card.img"
        shutil.copyfile(folder / "card.img", card)
        with (
            run_registers(
                folder / "firmware.bin", card, "socket", trace=trace, faults=faults
            ) as url,
            open_board(url, PATIENCE_S, build_id=opened.build_id) as device,
        ):
            return run_steps(Session(device), work)


def same(a: Run, b: Run) -> bool:
    """Equal losses and weights, to the last bit."""
    return a.losses.tobytes() == b.losses.tobytes() and all(
        a.weights[name].tobytes() == b.weights[name].tobytes() for name in a.weights
    )
