"""The rows of a sweep as curves, as a table and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from poet_mcu.report.numbers import fits, label_of
from poet_mcu.report.page import Page, Section, Table
from poet_mcu.report.pareto import Curve, Panel, Point, pareto_figure
from poet_mcu.report.svg import Svg
from poet_mcu.units import format_bytes, format_si

Row = Mapping[str, Any]

#: baselines that a solver makes for each budget; the others are one plan for all budgets
_CURVES = {"paging_only": "paging only", "remat_only": "recompute only"}
_MEASURES = (
    ("energy_j", "J", "Energy of a step over the RAM budget"),
    ("time_s", "s", "Time of a step over the RAM budget"),
)


def sweep_figure(title: str, rows: Sequence[Row], least_bytes: int | None) -> Svg:
    """Energy and time over RAM; ``rows`` by rising budget."""
    panels = [
        Panel(
            heading,
            unit,
            _curves(rows, key, unit),
            tuple(row["ram_bytes"] for row in rows if not fits(row)),
            least_bytes,
            tuple(row["ram_bytes"] for row in rows),
        )
        for key, unit, heading in _MEASURES
    ]
    return pareto_figure(title, panels)


def _curves(rows: Sequence[Row], key: str, unit: str) -> tuple[Curve, ...]:
    plan = [_point(row["ram_bytes"], row[key], "this plan", unit) for row in rows if fits(row)]
    curves = [Curve("poet-mcu", tuple(plan))]
    for name, label in _CURVES.items():
        points = [
            _point(row["ram_bytes"], row["baselines"][name][key], label, unit)
            for row in rows
            if name in row["baselines"] and fits(row["baselines"][name])
        ]
        curves.append(Curve(label, tuple(points)))
    once = rows[0]["baselines"] if rows else {}
    single = [
        _point(entry["peak_bytes"], entry[key], label_of(name), unit)
        for name, entry in once.items()
        if name not in _CURVES and entry["peak_bytes"] is not None
    ]
    return (*curves, Curve("plans without a solver", tuple(single), joined=False))


def _point(ram_bytes: int, value: float, name: str, unit: str) -> Point:
    return Point(ram_bytes, value, f"{name}: {ram_bytes} bytes, {format_si(value, unit)}")


def sweep_table(rows: Sequence[Row]) -> Table:
    """One row a budget."""
    headings = (
        "budget", "status", "peak", "energy", "gap", "time", "stall", "SD read", "SD written",
        "recomputes", "paging only", "recompute only",
    )  # fmt: skip
    cells = tuple(_cells(row) for row in rows)
    faint = frozenset(k for k, row in enumerate(rows) if not fits(row))
    return Table(headings, cells, faint=faint)


def _cells(row: Row) -> tuple[str, ...]:
    alone = [_energy(row["baselines"].get(name)) for name in _CURVES]
    first = (format_bytes(row["ram_bytes"]), row["status"])
    if not fits(row):
        return (*first, *("-" for _ in range(8)), *alone)
    return (
        *first,
        format_bytes(row["peak_bytes"]),
        format_si(row["energy_j"], "J"),
        "-" if row["gap"] is None else f"{row['gap']:.2%}",
        format_si(row["time_s"], "s"),
        format_si(row["stall_s"], "s"),
        format_bytes(row["sd_read_bytes"]),
        format_bytes(row["sd_write_bytes"]),
        str(row["recomputes"]),
        *alone,
    )


def _energy(entry: Row | None) -> str:
    return format_si(entry["energy_j"], "J") if entry is not None and fits(entry) else "no plan"


def sweep_page(facts: Mapping[str, Any], figure: Svg) -> Page:
    """``facts``: what sweep.json holds."""
    rows: Sequence[Row] = facts["rows"]
    good = [row for row in rows if fits(row)]
    chips = [("budgets", str(len(rows))), ("with a plan", str(len(good)))]
    chips.append(("smallest RAM that works", format_bytes(facts["minimum_peak_bytes"])))
    if good:
        ends = (good[0]["energy_j"], good[-1]["energy_j"])
        span = " to ".join(format_si(end, "J") for end in ends)
        chips.append(("energy, least to most RAM", span))
    text = (
        "Each staircase is what a budget can buy; the marks are plans that need no solver, at the "
        "RAM they need. Crosses are budgets without a plan."
    )
    return Page(
        title=f"{facts['model']} on {facts['board']}: RAM, energy and time",
        subtitle=f"Plans of one training step: {facts['options']}",
        chips=tuple(chips),
        sections=(
            Section("curves", "Curves", text, figures=(figure,)),
            Section("points", "Points", table=sweep_table(rows)),
        ),
        footer="Figures are the planner's, priced by the tables of the board.",
    )
