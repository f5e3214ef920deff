"""Prices of kernel families from what calls of kernels took.

For every family the prices of mac, element, transcendental and call that come nearest to the
counts of its cases, as a factor, none of them negative. What nearly every network is made of
counts most; the rest decides what that leaves open, as the price of a transcendental call.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from poet_mcu.bench.case import Case
from poet_mcu.board.tables import KERNEL_FAMILIES, OPTIONAL_FAMILIES

RARE = 0.02  # weight of a case that is not among the common ones
FEATURES = ("mac", "element", "transcendental", "call")


def fit(
    rows: npt.NDArray[np.float64],
    counts: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Non-negative prices with the least squared logarithm of price over count; rows [cases, 4].

    Near the answer (p - c)^2 / (p c) is log(p / c)^2, so the linear problem is solved again and
    again with the last prices in the weight. Too high and too low by one factor weigh alike.
    """
    predicted = counts
    prices = np.zeros(rows.shape[1])
    of_case = np.ones(len(counts)) if weights is None else np.sqrt(weights)
    for _ in range(50):
        weight = of_case / np.sqrt(np.maximum(predicted, 1) * counts)
        prices = _nonnegative(rows * weight[:, None], counts * weight)
        predicted = rows @ prices
    return prices


def _nonnegative(
    rows: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Least squares without negative prices: the best of all subsets of the four features."""
    best, best_error = np.zeros(rows.shape[1]), np.inf
    used = [i for i in range(rows.shape[1]) if rows[:, i].any()]
    for size in range(1, len(used) + 1):
        for subset in itertools.combinations(used, size):
            prices = np.linalg.lstsq(rows[:, subset], wanted, rcond=None)[0]
            error = float(np.sum((rows[:, subset] @ prices - wanted) ** 2))
            if (prices >= 0).all() and error < best_error - 1e-12:
                best, best_error = np.zeros(rows.shape[1]), error
                best[list(subset)] = prices
    return best


@dataclass(frozen=True)
class Fitted:
    """Prices of a family, and by which factor they miss the common cases and all cases."""

    prices: tuple[float, ...]
    common: tuple[float, ...]
    every: tuple[float, ...]


def family_table(
    counts: Mapping[str, float], cases: Sequence[Case], common: Collection[str]
) -> dict[str, Fitted]:
    """Family -> its row of the table; cases without a count are left out, and families without any.

    ``common`` are the names of the cases that weigh in full; a family that has none of them is
    fitted to what it has.
    """
    table = {}
    for family in (*KERNEL_FAMILIES, *OPTIONAL_FAMILIES):
        # A node that does two things is priced by two rows: it fits neither.
        alone = [case for case in cases if case.cost.then is None and case.name in counts]
        used = [case for case in alone if case.cost.family == family]
        if not used:
            continue
        costs = [case.cost for case in used]
        # A call's price would take up what differs between the few shapes of an optional family.
        call = 0 if family in OPTIONAL_FAMILIES else 1
        matrix = np.array([(c.macs, c.elements, c.transcendental, call) for c in costs], float)
        wanted = np.array([counts[case.name] for case in used], float)
        usual = np.array([case.name in common for case in used])
        usual = usual if usual.any() else ~usual
        weights = np.where(usual, 1.0, RARE)
        prices = tuple(float(f"{price:.4g}") for price in fit(matrix, wanted, weights))
        errors = np.exp(np.abs(np.log(matrix @ np.array(prices) / wanted)))
        table[family] = Fitted(prices, tuple(errors[usual].tolist()), tuple(errors.tolist()))
    return table
