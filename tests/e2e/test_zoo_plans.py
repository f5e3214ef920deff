"""Plans of the zoo at 100, 70 and 50 % of what keeping everything needs: one answer to the bit.

``build`` runs every verifier and the interpreter over each plan; here the generated C of each is
run on the host beside.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import zoo
import zoo_table
from zoo import make_zoo

from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import PlanInfeasible, plan
from poet_mcu.pipeline.prepare import prepare
from poet_mcu.pipeline.validate import Run

#: 16 MiB, and little beside the arena: a share of the peak is a share of the activations
BOARD = "qemu-mps2-an500"
STEPS = 3
#: seconds a solve: a plan need not be optimal here
LIMIT_S = 3.0
DAILY = ("lenet_like", "imu_cnn")


def smallest(options: Options) -> int:
    """What the refusal of ``options`` names; a plan of so many bytes exists."""
    with pytest.raises(PlanInfeasible) as error:
        plan(options)
    least = error.value.facts["minimum_peak_bytes"]
    assert f"the smallest RAM that works is {least} bytes" in str(error.value)
    assert least > (options.ram_bytes or 0)
    return int(least)


def run_at(options: Options, ram_bytes: int, out: Path) -> tuple[Run, dict[str, object]]:
    """The plan within ``ram_bytes``, or within the least that works; run on the host."""
    chosen = replace(options, ram_bytes=ram_bytes)
    try:
        facts = build(chosen, out).facts
    except PlanInfeasible:
        chosen = replace(chosen, ram_bytes=smallest(chosen))
        facts = build(chosen, out).facts
    assert max(facts["peak_bytes"], facts["elf_ram_bytes"]) <= chosen.ram_bytes
    return zoo.on_host(out, STEPS)[0], facts


def check(name: str, width: float, folder: Path) -> None:
    module = make_zoo.make_module(name, width)
    path = zoo.write(name, module, folder)
    options = zoo.options_for(name, path, BOARD, batch=2, time_limit_s=LIMIT_S)
    most = zoo_table.keep_all_bytes(prepare(options))
    found = {
        share: run_at(options, round(share * most), folder / f"at{share}")
        for share in zoo_table.SHARES
    }
    first, facts = found[1.0]
    assert facts["recomputes"] == facts["page_ins"] == 0
    assert facts["keep_all_peak_bytes"] == most
    for share, (run, _) in found.items():
        assert run.losses.tobytes() == first.losses.tobytes(), share
        for key, array in run.weights.items():
            assert array.tobytes() == first.weights[key].tobytes(), (share, key)


@pytest.mark.parametrize(
    "name", [n if n in DAILY else pytest.param(n, marks=pytest.mark.slow) for n in make_zoo.ZOO]
)
def test_every_share_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    check(name, zoo.SETTINGS[name].width, tmp_path)
