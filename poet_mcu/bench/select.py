"""Which calls a board is tested with and measured by."""

from __future__ import annotations

from poet_mcu.bench.case import Case
from poet_mcu.bench.cases import common_cases
from poet_mcu.bench.recurrent import every_case
from poet_mcu.bench.table import place
from poet_mcu.board.tables import OPTIONAL_FAMILIES

#: multiply-adds or elements of a call: a soft-float core takes about a second for so many
LARGEST = 150_000
#: the same for the few calls of families that a board need not price
LARGEST_RARE = 350_000


def board_cases(arena_bytes: int) -> tuple[Case, ...]:
    """The common calls that fit the arena, and for every other kernel its smallest call.

    A kernel whose smallest call does not fit is left out.
    """
    fitting = [case for case in every_case() if place(case).end <= arena_bytes]
    usual = common_names()
    found = {case.name: case for case in fitting if case.name in usual and case.work <= _most(case)}
    known = {case.kernel.function for case in found.values()}
    for case in sorted(fitting, key=lambda one: place(one).end):
        if case.kernel.function not in known:
            known.add(case.kernel.function)
            found[case.name] = case
    return tuple(found.values())


def _most(case: Case) -> int:
    return LARGEST_RARE if case.cost.family in OPTIONAL_FAMILIES else LARGEST


def common_names() -> frozenset[str]:
    """Names of the cases that weigh in full when prices are fitted."""
    return frozenset(case.name for case in common_cases())
