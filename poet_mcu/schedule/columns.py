"""Columns in every version of PuLP."""

from __future__ import annotations

import pulp


def column(
    model: pulp.LpProblem, name: str, low: float, high: float, kind: str = pulp.LpContinuous
) -> pulp.LpVariable:
    """A new column; PuLP 4 makes them by the model, before 3.3 only the class does."""
    make = getattr(model, "add_variable", None)
    if make is None:
        return pulp.LpVariable(name, low, high, kind)
    return make(name, low, high, kind)
