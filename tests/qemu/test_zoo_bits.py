"""Networks of the zoo trained on emulated Cortex-M cores: the same bits as on the host.

The narrow ones page to the emulated SD card within 64 KiB, but for ResNet-8 at batch 4, whose
input alone takes 48 of them; full width runs where there is room.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import zoo
from zoo import make_zoo

from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.validate import Validation, validate

pytestmark = pytest.mark.qemu

#: the first step uses the model's weights, the second those that the first one made
STEPS = 2


@dataclass(frozen=True)
class Case:
    """A network at a width, and where it is trained. ``ram_bytes`` None: all of the board's."""

    name: str
    width: float
    batch: int
    board: str
    ram_bytes: int | None = None
    optimizer: str = "sgd"


KIB = 1024
NARROW = {
    "resnet8": Case("resnet8", 0.25, 1, "qemu-m7-sd", 60 * KIB),
    "resnet8, batch 4": Case("resnet8", 0.25, 4, "qemu-mps2-an500", 160 * KIB),
    "ds_cnn": Case("ds_cnn", 0.25, 2, "qemu-m7-sd", 52 * KIB),
    "transformer": Case("transformer", 0.25, 1, "qemu-m7-sd", 60 * KIB, "adam"),
    "lstm": Case("lstm", 0.5, 2, "qemu-m4-sd", 64 * KIB, "adam"),
}
DAILY = ("resnet8", "transformer", "lstm")
FULL = {
    "resnet8": Case("resnet8", 1.0, 1, "qemu-mps2-an500"),
    "resnet8, batch 4": Case("resnet8", 1.0, 4, "qemu-mps2-an500"),
    "ds_cnn": Case("ds_cnn", 1.0, 1, "qemu-mps2-an500"),
    "transformer": Case("transformer", 1.0, 1, "qemu-mps2-an500"),
    "lstm": Case("lstm", 1.0, 1, "qemu-mps2-an500"),
}


def validated(case: Case, folder: Path) -> tuple[Validation, dict[str, object]]:
    path = zoo.write(case.name, make_zoo.make_module(case.name, case.width), folder)
    options = zoo.options_for(
        case.name, path, case.board, batch=case.batch, ram_bytes=case.ram_bytes,
        optimizer=case.optimizer, lr=0.001,
    )  # fmt: skip
    facts = build(options, folder / "out").facts
    return validate(folder / "out", steps=STEPS), facts


def check(case: Case, folder: Path) -> dict[str, object]:
    """Losses, weights and counted SD bytes agree; the plan's facts."""
    found, facts = validated(case, folder)
    assert found.faults == ()
    assert found.facts["bit_identical_to_host"] is True
    assert found.facts["loss"][0] != found.facts["loss"][1]
    return facts


@pytest.mark.parametrize(
    "name", [n if n in DAILY else pytest.param(n, marks=pytest.mark.slow) for n in NARROW]
)
def test_a_narrow_network_trains_on_the_board_as_on_the_host(name: str, tmp_path: Path) -> None:
    facts = check(NARROW[name], tmp_path)
    assert int(facts["keep_all_peak_bytes"]) > 1.3 * int(facts["ram_bytes"])


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_the_network_trains_on_the_board_as_on_the_host(name: str, tmp_path: Path) -> None:
    check(FULL[name], tmp_path)
