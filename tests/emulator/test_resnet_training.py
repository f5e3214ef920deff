"""ResNet-8 at full width on the emulated board: parameters at home on the card, pages by DMA.

With its parameters in RAM a step needs 451 KiB, and the board has 320; like this 198 do.
"""

from __future__ import annotations

from pathlib import Path

import emulated
import pytest
import zoo
from zoo import make_zoo

from poet_mcu.pipeline.build import build

#: half a minute of a processor each
STEPS = 20


@pytest.mark.slow
def test_resnet8_trains_to_the_bit(tmp_path: Path) -> None:
    path = zoo.write("resnet8", make_zoo.make_module("resnet8", 1.0), tmp_path)
    options = zoo.options_for(
        "resnet8", path, "stm32f7", batch=1, lr=0.01, strategy="page-all", home_parameters="card"
    )
    made = build(options, tmp_path / "out")
    assert made.facts["page_ins"] > 50
    assert made.facts["page_outs"] > 30
    host = emulated.run_folder(made.folder, STEPS, twin=True)
    assert host.losses[-1] < host.losses[0]
    assert emulated.same(emulated.run_registers_of(made.folder, STEPS), host)
