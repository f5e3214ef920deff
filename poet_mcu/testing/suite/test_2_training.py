"""Training: 20 steps against the reference, power away and back, and the soak."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from poet_mcu.link.client import Board
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import BuildFolder
from poet_mcu.pipeline.validate import batches, judge, run_steps
from poet_mcu.testing.target import Running

pytestmark = pytest.mark.hil
Record = Callable[[str, object], None]
STEPS, HALF = 20, 10


def test_identify(board: Board, firmware: BuildFolder, record_property: Record) -> None:
    assert board.identity.build_id == firmware.build_id
    assert board.identity.board == firmware.board.name
    assert board.identity.card_status == 0
    record_property("build id", board.identity.build_id.hex())


def test_training(board: Board, firmware: BuildFolder, record_property: Record) -> None:
    """20 steps with pages on the card: the host's bits, the reference's numbers, the plan's SD."""
    prepared = firmware.prepared()
    work = batches(prepared, None, STEPS)
    ours = run_steps(Session.of(board, prepared), work)
    facts, faults = judge(firmware, prepared, ours, work)
    assert firmware.plan["page_outs"] > 0
    for key in ("cycles_per_step", "stack_used_bytes", "sd_read_bytes", "reference_difference"):
        record_property(key, facts[key])
    assert faults == []
    assert facts["bit_identical_to_host"]


def test_power_cycle_and_resume(
    running: Running, board: Board, firmware: BuildFolder, record_property: Record
) -> None:
    """A checkpoint, the power away and back, and the same weights as without."""
    work = batches(firmware.prepared(), None, STEPS)
    board.reset_model()
    session = Session(board)
    for x, y in work[:HALF]:
        session.train_step(x, y)
    board.checkpoint()
    for x, y in work[HALF:]:
        session.train_step(x, y)
    expected = session.parameters()
    record_property("power", running.power_cycle())
    again = running.board
    assert again.identify().steps_done == 0
    assert again.restore().step == HALF
    session = Session(again)
    for x, y in work[HALF:]:
        session.train_step(x, y)
    found = session.parameters()
    assert {n for n, a in found.items() if a.tobytes() != expected[n].tobytes()} == set()


@pytest.mark.soak
def test_soak(
    board: Board, firmware: BuildFolder, pytestconfig: pytest.Config, record_property: Record
) -> None:
    """The same 20 steps again and again: every round must end in the same bits."""
    work = batches(firmware.prepared(), None, STEPS)
    first = run_steps(Session(board), work)
    ends_at = time.monotonic() + pytestconfig.getoption("--soak")
    rounds = 1
    while time.monotonic() < ends_at:
        found = run_steps(Session(board), work)
        assert found.losses.tobytes() == first.losses.tobytes(), f"round {rounds}"
        for name, array in found.weights.items():
            assert array.tobytes() == first.weights[name].tobytes(), f"round {rounds}: {name}"
        rounds += 1
    counters = board.counters()
    record_property("rounds", rounds)
    record_property("damaged frames", counters.damaged_frames)
    assert counters.stack_bytes == 0 or counters.stack_free_bytes > 0
