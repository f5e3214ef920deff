"""Prices are the formulas of the docstrings, worked out by hand; and they never go down."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poet_mcu.board import list_boards, load_board
from poet_mcu.board.tables import KERNEL_FAMILIES
from poet_mcu.cost import (
    Price,
    is_estimated,
    moved_bytes,
    node_cycles,
    node_price,
    page_in_price,
    page_out_price,
)
from poet_mcu.errors import InternalError
from poet_mcu.ops.operator import Cost


def with_numbers(**changes):
    """The M3 board with round numbers: 1 MHz, 2 W, known rows and card."""
    board = load_board("qemu-lm3s6965evb")
    row = board.cost["conv_fwd"].model_copy(
        update={
            "cycles_per_mac": 10.0,
            "cycles_per_element": 7.0,
            "cycles_per_transcendental": 1000.0,
            "cycles_per_call": 3.0,
            "estimated": False,
        }
    )
    core = board.core.model_copy(update={"clock_hz": 1_000_000})
    power = board.power.model_copy(update={"active_w": 2.0, "sd_read_w": 1.0, "sd_write_w": 3.0})
    storage = board.storage.model_copy(
        update={
            "read_latency_s": 0.5,
            "write_latency_s": 1.5,
            "read_throughput_bytes_per_s": 1024.0,
            "write_throughput_bytes_per_s": 512.0,
            **changes,
        }
    )
    return board.model_copy(
        update={"core": core, "power": power, "storage": storage, "cost": {"conv_fwd": row}}
    )


def test_cycles_seconds_joules_of_a_node():
    board = with_numbers()
    cost = Cost("conv_fwd", macs=5, elements=11, transcendental=2)
    assert node_cycles(cost, board) == 3 + 50 + 77 + 2000
    assert node_price(cost, board) == Price(pytest.approx(2130e-6), pytest.approx(4260e-6))
    assert node_cycles(Cost("conv_fwd"), board) == 3


def test_unknown_family_is_our_bug():
    with pytest.raises(InternalError, match=r"cost\.conv_fdw: expected one of conv_fwd, .*mean"):
        node_cycles(Cost("conv_fdw"), load_board("host"))


def test_estimated_is_reported():
    board = with_numbers()
    assert not is_estimated(Cost("conv_fwd"), board)
    row = board.cost["conv_fwd"].model_copy(update={"estimated": True})
    assert is_estimated(Cost("conv_fwd"), board.model_copy(update={"cost": {"conv_fwd": row}}))


@pytest.mark.parametrize(
    ("nbytes", "moved"), [(0, 0), (1, 512), (511, 512), (512, 512), (513, 1024), (65536, 65536)]
)
def test_whole_blocks_are_moved(nbytes, moved):
    assert moved_bytes(nbytes, with_numbers()) == moved


def test_granule_larger_than_a_block():
    assert moved_bytes(513, with_numbers(transfer_granule_bytes=4096)) == 4096


def test_negative_size_is_our_bug():
    with pytest.raises(InternalError, match="expected a size of at least 0 bytes, got -1"):
        moved_bytes(-1, with_numbers())


def test_transfer_that_holds_the_cpu():
    board = with_numbers()
    assert page_in_price(1000, board) == Price(1.5, 1.5 * (2.0 + 1.0))
    assert page_out_price(1000, board) == Price(3.5, 3.5 * (2.0 + 3.0))
    assert page_in_price(0, board) == Price(0.0, 0.0)


def test_transfer_beside_compute_charges_the_card_alone():
    board = with_numbers(overlap=True)
    assert page_in_price(1000, board) == Price(1.5, 1.5 * 1.0)
    assert page_out_price(1000, board) == Price(3.5, 3.5 * 3.0)


def test_prices_add_up():
    assert Price(1.0, 2.0) + Price(0.5, 0.25) == Price(1.5, 2.25)


COUNTS = st.integers(0, 10**9)


@given(st.sampled_from(KERNEL_FAMILIES), COUNTS, COUNTS, COUNTS, st.integers(0, 1000))
def test_more_work_never_costs_less(family, macs, elements, transcendental, more):
    board = load_m7()
    cost = Cost(family, macs, elements, transcendental)
    base = node_price(cost, board)
    assert base.seconds > 0
    assert base.joules > 0
    for field in ("macs", "elements", "transcendental"):
        grown = dataclasses.replace(cost, **{field: getattr(cost, field) + more})
        assert node_price(grown, board).seconds >= base.seconds


@given(st.integers(1, 2**24), st.integers(0, 2**20))
def test_larger_transfers_never_cost_less(nbytes, more):
    board = load_m7()
    for price in (page_in_price, page_out_price):
        assert price(nbytes + more, board).joules >= price(nbytes, board).joules > 0


_CACHE = []


def load_m7():
    """Hypothesis calls often: the file is read once."""
    if not _CACHE:
        _CACHE.append(load_board("qemu-m7-sd"))
    return _CACHE[0]


@pytest.mark.parametrize("name", list_boards())
def test_one_large_transfer_beats_many_small_ones(name):
    board = load_board(name)
    one, many = page_out_price(32768, board), page_out_price(512, board)
    assert one.seconds < 64 * many.seconds
    assert page_in_price(512, board).seconds < page_out_price(512, board).seconds


def test_soft_float_is_dearer_than_an_fpu():
    cost = Cost("conv_fwd", macs=10_000, elements=100)
    slow, fast = load_board("qemu-lm3s6965evb"), load_board("qemu-m4-sd")
    assert node_cycles(cost, slow) > 3 * node_cycles(cost, fast)
