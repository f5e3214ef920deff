"""What the board is made of: serial line, memory, card, and each kernel, by the self-test firmware.

Kernels run on made-up operands, and must leave the bits that the same program leaves on this
computer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from poet_mcu.link.selftest import CARD_KEEP, CARD_READ, CARD_WRITE, GUARD_BYTES, SelfTest
from poet_mcu.pipeline.selftest import SelfTestBuild, build_selftest
from poet_mcu.pipeline.target import connect_twin
from poet_mcu.testing.target import Running, Target
from poet_mcu.units import BLOCK_BYTES

pytestmark = pytest.mark.hil
Record = Callable[[str, object], None]
BURST_BYTES = 1 << 20


@pytest.fixture(scope="module")
def built(hil_target: Target, hil_builds: Path) -> SelfTestBuild:
    return build_selftest(hil_target.board, hil_builds / "selftest")


@pytest.fixture(scope="module")
def selftest(hil_target: Target, built: SelfTestBuild) -> Iterator[SelfTest]:
    with hil_target.boot(built.folder) as running:
        yield _selftest(running)


def _selftest(running: Running) -> SelfTest:
    return SelfTest(running.board)


@pytest.fixture(scope="module")
def blocks(selftest: SelfTest) -> int:
    return selftest.open_card()


def test_identify(
    selftest: SelfTest, built: SelfTestBuild, hil_target: Target, record_property: Record
) -> None:
    identity = selftest.board.identify()
    assert identity.board == hil_target.board.name
    assert identity.arena_bytes == built.arena_bytes
    assert identity.train_action_count == len(built.cases)
    assert identity.cycle_hz > 0
    record_property("build id", identity.build_id.hex())
    record_property("cycles per second", identity.cycle_hz)


def test_memory(selftest: SelfTest, built: SelfTestBuild, record_property: Record) -> None:
    found = selftest.memory()
    record_property("bytes", found.nbytes)
    assert found.nbytes == built.tested_bytes
    assert found.bad_words == 0, (
        f"{found.bad_words} words; the first at {found.first_bad:#010x}: expected "
        f"{found.expected:#010x}, got {found.got:#010x}"
    )


def test_kernels(selftest: SelfTest, built: SelfTestBuild, record_property: Record) -> None:
    with connect_twin(built.folder) as host:
        twin = SelfTest(host)
        different = [
            f"{case.name} ({case.kernel.function})"
            for number, case in enumerate(built.cases)
            if selftest.case(number).crc != twin.case(number).crc
        ]
    record_property("calls", len(built.cases))
    record_property("kernels", len({case.kernel.function for case in built.cases}))
    assert different == []


def _clean(found: object) -> tuple[int, int]:
    return getattr(found, "bad_bytes", -1), getattr(found, "guard_bytes", -1)


def test_card_first_and_last_block(
    selftest: SelfTest, blocks: int, hil_target: Target, record_property: Record
) -> None:
    first = hil_target.board.storage.region_first_block
    record_property("blocks", blocks)
    assert blocks > first
    for block in (first, blocks - 1):
        flags = CARD_WRITE | CARD_READ | CARD_KEEP
        assert _clean(selftest.card(block, BLOCK_BYTES, seed=block, flags=flags)) == (0, 0)


def test_card_refuses_the_block_behind_the_last(selftest: SelfTest, blocks: int) -> None:
    from poet_mcu.link import status  # noqa: PLC0415 - one test alone needs it
    from poet_mcu.link.transport import BoardFault  # noqa: PLC0415 - the same

    with pytest.raises(BoardFault) as caught:
        selftest.card(blocks, BLOCK_BYTES, seed=1, flags=CARD_READ)
    assert caught.value.answer.status == status.E_ARG


@pytest.mark.parametrize("nbytes", [4, 508, 516, 1540, 4100])
def test_card_pages_of_odd_length(
    selftest: SelfTest, blocks: int, hil_target: Target, nbytes: int
) -> None:
    """Bytes that are no whole blocks, at the next slot: nothing beside the buffer may change."""
    first = hil_target.board.storage.region_first_block
    slot = max(GUARD_BYTES, hil_target.board.arena.alignment_bytes)
    assert blocks > first
    for offset in (slot, 3 * slot):
        found = selftest.card(first + 8, nbytes, seed=nbytes, offset=offset)
        assert _clean(found) == (0, 0)


def test_card_burst(
    selftest: SelfTest, blocks: int, hil_target: Target, record_property: Record
) -> None:
    """1 MiB in transfers as large as the memory allows, at what speed."""
    first = hil_target.board.storage.region_first_block
    chunk = 1 << (min(selftest.arena_bytes - 2 * GUARD_BYTES, 1 << 16).bit_length() - 1)
    count = min(BURST_BYTES // chunk, (blocks - first) * BLOCK_BYTES // chunk)
    assert count * chunk == BURST_BYTES, "the card holds less than 1 MiB behind its first block"
    found = selftest.card(first, chunk, seed=7, transfers=count)
    for name, cycles, worst in (
        ("write", found.write_cycles, found.write_worst),
        ("read", found.read_cycles, found.read_worst),
    ):
        rate = BURST_BYTES * selftest.cycle_hz / max(1, cycles)
        record_property(f"{name} bytes per second", round(rate))
        record_property(f"longest {name} of {chunk} bytes, us", 1e6 * worst // selftest.cycle_hz)
    assert _clean(found) == (0, 0)


def test_card_keeps_what_was_written(selftest: SelfTest, blocks: int, hil_target: Target) -> None:
    """Written at two places, opened again, read from both."""
    first = hil_target.board.storage.region_first_block
    places = (first, first + 1024)
    assert blocks > places[1] + 8
    for place in places:
        selftest.card(place, 4096, seed=place, flags=CARD_WRITE)
    assert selftest.open_card() == blocks
    for place in places:
        assert _clean(selftest.card(place, 4096, seed=place, flags=CARD_READ)) == (0, 0)
