"""Good plans for graphs too large for plain branch and bound: LP bound, RENS, RINS.

RENS (relaxation enforced neighbourhood search, Berthold 2014) fixes what the LP relaxation leaves
integral and solves the rest; RINS (Danna, Rothberg, Le Pape 2005) fixes where the LP and the best
plan agree. Both give plans only; the bound comes from the LP and the full program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from poet_mcu.schedule.backend import Answer, Backend, Limits, SolveStatus
from poet_mcu.schedule.ilp import Formulation

#: how far from an integer a column of the LP may be and still count as integral
INTEGRAL = 1e-6
#: a sub-problem gets this share of the time left
SHARE = 0.4


class Note(Protocol):
    """Keeps an answer (its bound holds for all plans or not); whether the gap is closed."""

    def __call__(self, answer: Answer, *, bound: bool) -> bool:
        """See the class."""


def relaxation(form: Formulation, backend: Backend, limits: Limits) -> Answer:
    """The LP relaxation: a bound on every plan, and where to look."""
    return backend.solve(form.model, limits, relax=True)


def _decided(form: Formulation) -> list[str]:
    groups = (form.R, form.z, form.p, form.h)
    return [var.name for group in groups for var in group.values()]


def rens(form: Formulation, lp: Mapping[str, float]) -> dict[str, float]:
    """Columns that the relaxation leaves integral, at their values."""
    fixed: dict[str, float] = {}
    for name in _decided(form):
        nearest = float(round(lp[name]))
        if abs(lp[name] - nearest) <= INTEGRAL:
            fixed[name] = nearest
    return fixed


def rins(form: Formulation, lp: Mapping[str, float], best: Mapping[str, float]) -> dict[str, float]:
    """Columns on which the relaxation and the best plan agree."""
    return {
        name: best[name]
        for name in _decided(form)
        if name in best and abs(lp[name] - best[name]) <= INTEGRAL
    }


def improve(
    form: Formulation,
    backend: Backend,
    *,
    left_s: Callable[[], float],
    gaps: tuple[float, float],
    note: Note,
    start: Callable[[], Mapping[str, float] | None],
) -> None:
    """LP, RENS, then RINS around the best plan until nothing gets better.

    ``note`` takes each answer; ``start`` is the best plan's point.
    ``gaps``: relative and absolute, in the model's numbers.
    """
    lp = relaxation(form, backend, Limits(left_s()))
    if lp.status is not SolveStatus.OPTIMAL or lp.values is None or note(lp, bound=True):
        return
    limits = Limits(SHARE * left_s(), *gaps)
    answer = backend.solve(form.model, limits, fixed=rens(form, lp.values), start=None)
    if note(answer, bound=False):
        return
    point = start()
    if point is None:
        return
    limits = Limits(SHARE * left_s(), *gaps)
    near = rins(form, lp.values, point)
    note(backend.solve(form.model, limits, fixed=near, start=point), bound=False)
