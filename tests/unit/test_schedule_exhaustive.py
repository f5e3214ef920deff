"""The planner against the best there is, on training steps with every feature at once."""

import collections

import pytest
from exhaustive import TooLarge, compare, optimum, training_case
from test_schedule_bus import BusOracle

#: the first so many cases have been compared (docs/proofs.md)
CASES = 2000
BLOCK = 50
DAILY = 60
#: all the features a case may have; the sample by default must show each
FEATURES = {
    "deadline",
    "in place",
    "mask",
    "overlap",
    "paging off",
    "parameter and state in one update",
    "parameters on the card",
    "recompute off",
    "stateful forward operator",
    "updated on the card",
    "wear limit",
    "workspace",
}


def test_optimum_of_the_sample():
    ends = collections.Counter()
    features = collections.Counter()
    for seed in range(100, 100 + DAILY):
        case = training_case(seed, most_ops=5)
        _, ended = compare(case)
        ends[ended] += 1
        features.update(case.features if ended == "optimal" else [])
    assert ends["optimal"] > DAILY // 2
    assert ends["infeasible"] > DAILY // 10
    assert set(features) == FEATURES


@pytest.mark.slow
@pytest.mark.parametrize("block", range(CASES // BLOCK))
def test_optimum_at_length(block):
    ends = collections.Counter()
    for seed in range(BLOCK * block, BLOCK * block + BLOCK):
        try:
            ends[compare(training_case(seed))[1]] += 1
        except TooLarge:
            ends["too large"] += 1
    assert ends["optimal"] + ends["infeasible"] >= 0.9 * BLOCK


def test_the_two_searches_agree():
    """Both know nothing of the planner, and nothing of each other."""
    known = 0
    for seed in range(2000, 2040):
        case = training_case(seed, most_ops=4)
        if case.problem.overlap and len(case.problem.tensors) > 7:
            continue  # the search in Python takes a minute there
        switches = {"paging": case.paging, "remat": case.remat}
        best = optimum(case.problem, **switches)
        other = BusOracle(case.problem, **switches).least()
        assert (best is None) == (other is None), case.problem.name
        assert best is None or best == pytest.approx(other, rel=1e-9)
        known += best is not None
    assert known > 10
