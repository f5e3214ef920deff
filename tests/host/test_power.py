"""Power cuts, failing transfers, rotten and lying cards, on the host: every point of small runs.

The generated C of small models with the whole runtime, over a card with a write-back cache. The
sweeps are in power/power_test.c, which ends with FAIL at the first bad point; here are the counts.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import power_build
import pytest

from poet_mcu.pipeline.plan import Plan


@dataclass(frozen=True)
class Case:
    """A model's recipe and sizes, and where its run writes checkpoints."""

    options: dict[str, object]
    steps: int
    every: int
    sizes: tuple[int, ...] = (6, 9, 3)
    dropout: bool = False


CARD = {"home_parameters": "card"}
#: optimizer state of each kind, sums of half an update, homes on the card (from a block on)
CASES = {
    "sgd": Case({"optimizer": "sgd", "lr": 0.05}, 6, 2),
    "momentum": Case({"optimizer": "momentum", "lr": 0.05}, 6, 3),
    "adam, half an update": Case({"optimizer": "adam", "lr": 0.01, "accumulate": 3}, 7, 2),
    "momentum, half an update, card": Case(
        {"optimizer": "momentum", "lr": 0.05, "accumulate": 2, **CARD}, 5, 1, (20, 9, 3)
    ),
    # The masks of a resumed run are those of the number of the step.
    "momentum, dropout": Case({"optimizer": "momentum", "lr": 0.05}, 4, 2, (4, 5, 2), dropout=True),
    "adam, card": Case({"optimizer": "adam", "lr": 0.01, **CARD}, 4, 2, (17, 9, 3)),
}
#: a failing transfer has nothing to do with the masks
IO_CASES = [name for name, case in CASES.items() if not case.dropout]
HEADER_BYTES = 116  # of a checkpoint
SEQUENCE_BYTES = 4
VARIANTS = 10  # of a cut, in power_test.c


def operators(planned: Plan) -> set[str]:
    return {node.op for node in planned.train.graph.nodes}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory):
    @cache
    def build(name: str) -> Path:
        folder = tmp_path_factory.mktemp("power")
        case = CASES[name]
        planned = power_build.generate(folder, case.sizes, dropout=case.dropout, **case.options)
        assert ("dropout" in operators(planned)) == case.dropout
        assert bool(planned.train.graph.card_homes) == ("card" in name)
        return power_build.compile_test(folder)

    return build


def sweep(program: Path, scenario: str, case: Case) -> dict[str, str]:
    command = [str(program), scenario, str(case.steps), str(case.every)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", CASES)
def test_power_cut_at_every_write(programs, name: str) -> None:
    """Torn, lost and reordered writes, and a second cut while the first is recovered from."""
    found = sweep(programs(name), "power", CASES[name])
    checkpoints = CASES[name].steps // CASES[name].every
    assert int(found["writes"]) >= 3 * checkpoints
    assert int(found["cuts"]) == int(found["writes"]) * (VARIANTS + 1)
    # A cut is told as a header that is not whole only where it hit one: two writes a checkpoint,
    # and some of the second cuts.
    assert 0 < int(found["torn"]) <= 2 * checkpoints * (VARIANTS + 1) + int(found["writes"]) // 10


@pytest.mark.parametrize("name", IO_CASES)
def test_every_operation_fails_once_for_ever_or_turns_a_bit(programs, name: str) -> None:
    """Or turns a bit. Each is told, or repeated with success, or harmless; none is silent."""
    found = {k: int(v) for k, v in sweep(programs(name), "io", CASES[name]).items()}
    assert found["points"] == 3 * found["operations"] == found["told"] + found["retried"]
    assert found["told"] > found["operations"]
    assert found["whole"] + found["spoiled"] == found["told"]
    assert (found["spoiled"] > 0) == ("card" in name)


@pytest.mark.parametrize("name", IO_CASES)
def test_every_operation_of_a_restore_fails(programs, name: str) -> None:
    found = {k: int(v) for k, v in sweep(programs(name), "restore", CASES[name]).items()}
    assert found["points"] == found["told"] + found["retried"] > 20
    assert found["told"] > found["points"] // 2
    assert found["step"] == CASES[name].steps // CASES[name].every * CASES[name].every


def test_rot_in_the_newest_checkpoint_gives_the_older_one(programs) -> None:
    """It is told, wherever the bit stands, in the header too.

    So is a rotten sequence number of the older slot, which might have been the newer.
    """
    found = {k: int(v) for k, v in sweep(programs("sgd"), "rot", CASES["sgd"]).items()}
    assert found["older"] > HEADER_BYTES + 50
    assert found["damaged"] == found["older"] + SEQUENCE_BYTES


def test_power_cut_while_a_card_is_prepared(programs) -> None:
    found = sweep(programs("sgd"), "format", CASES["sgd"])
    assert int(found["cuts"]) == VARIANTS * int(found["writes"]) > 200


def test_cards_that_lie(programs) -> None:
    """Every capacity that folds the region onto itself is found when the card is prepared."""
    found = sweep(programs("sgd"), "cards", CASES["sgd"])
    assert found["found"] == found["wrapped"] != "0"
    assert found["exact"] == "ok"
    assert found["none"] == "no whole checkpoint on the card"
    assert found["protected"] == "card could not write a block"
