"""A build for the board as it is, too large for DTCM: its pages meet the data cache in SRAM1.

Small builds live in DTCM, which no cache stands before; ``test_sabotage.py`` and
``test_emulator_training.py`` therefore take a board without it.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import emulated
import models
import pytest
from bench import SRAM1, Patch
from elftools.elf.elffile import ELFFile
from test_sabotage import FAULTS

from poet_mcu.errors import DeviceError
from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options

pytestmark = pytest.mark.slow


@functools.cache
def built() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="poet-mcu-stock-"))
    model = models.save(models.residual("N", channels=16, size=24), folder / "residual.onnx")
    options = Options(model, "stm32f7", batch=2, lr=0.05, strategy="page-all")
    return build(options, folder / "out").folder


def arena(folder: Path) -> range:
    with (folder / "firmware.elf").open("rb") as file:
        section = ELFFile(file).get_section_by_name(".arena")
        return range(section["sh_addr"], section["sh_addr"] + section["sh_size"])


@functools.cache
def compiled() -> Path:
    """A copy of the build with its objects, as its own Makefile makes them."""
    folder = built().with_name("compiled")
    shutil.copytree(built(), folder)
    make(folder)
    return folder


def make(folder: Path) -> None:
    command = ["make", "-s", "-C", str(folder), "CC=arm-none-eabi-gcc -w"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def sabotaged(patches: tuple[Patch, ...], folder: Path) -> Path:
    """The build's own sources with ``patches``, made again."""
    shutil.copytree(compiled(), folder)
    for patch in patches:
        path = folder / "firmware" / "port" / patch.file
        text = path.read_text("utf-8")
        assert text.count(patch.old) == 1
        path.write_text(text.replace(patch.old, patch.new), "utf-8")
    make(folder)
    return folder


def test_pages_in_sram1_train_to_the_bit() -> None:
    assert arena(built()).stop > SRAM1
    assert emulated.same(
        emulated.run_registers_of(built(), 2), emulated.run_folder(built(), 2, twin=True)
    )


@pytest.mark.parametrize(
    "name", ["nothing cleaned", "not invalidated before", "not invalidated after"]
)
def test_without_its_maintenance_it_faults(name: str, tmp_path: Path) -> None:
    patches, text = FAULTS[name]
    folder = sabotaged(patches, tmp_path / "out")
    with pytest.raises(DeviceError, match=text):
        emulated.run_registers_of(folder, 1)
