"""From a plan's data to the page of ``report.html``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from poet_mcu.ir.graph import Graph
from poet_mcu.ir.placement import ArenaPart, Placement
from poet_mcu.ir.schedule import Schedule
from poet_mcu.report.arena import arena_figure
from poet_mcu.report.axis import legend
from poet_mcu.report.energy import energy_figure
from poet_mcu.report.grid import KEYS, schedule_parts
from poet_mcu.report.memory import Levels, memory_figure
from poet_mcu.report.numbers import MISSES_NOTE, comparison, wear_notes, wear_table
from poet_mcu.report.page import Page, Section
from poet_mcu.report.svg import Svg
from poet_mcu.report.timeline import busy_s, timeline_figure
from poet_mcu.report.trace import Kind, Trace, trace
from poet_mcu.schedule.problem import Problem
from poet_mcu.units import format_bytes, format_si


@dataclass(frozen=True, slots=True)
class ReportInput:
    """What the report shows. ``facts`` has the keys of plan.json.

    ``written_bytes`` is what the card is sent in a step, in its unit of writing; ``driver`` the
    board's storage driver.
    """

    facts: Mapping[str, Any]
    options: str
    why: str
    graph: Graph
    problem: Problem
    schedule: Schedule
    placement: Placement
    levels: Levels
    written_bytes: int
    driver: str


def report_page(given: ReportInput) -> Page:
    """The page; ``page.render_page`` makes HTML of it."""
    facts = given.facts
    traced = trace(given.problem, given.schedule)
    return Page(
        title=f"{facts['model']} on {facts['board']}",
        subtitle=f"Plan of one training step: {given.options}",
        chips=_chips(facts),
        sections=(
            Section(
                "numbers",
                "Numbers",
                _proof(facts, given.why),
                comparison(facts),
                notes=(MISSES_NOTE,),
            ),
            _schedule(given, traced),
            _memory(given, traced),
            _timeline(given, traced),
            _energy(given, traced),
            _arena(given),
            _wear(given),
        ),
        footer="Figures are the planner's, priced by the tables of the board.",
    )


def _chips(facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    gap = facts["gap"]
    moved = facts["sd_read_bytes"] + facts["sd_write_bytes"]
    return (
        ("budget", format_bytes(facts["ram_bytes"])),
        ("peak", format_bytes(facts["peak_bytes"])),
        ("energy of a step", format_si(facts["energy_j"], "J")),
        ("time of a step", format_si(facts["time_s"], "s")),
        ("SD traffic of a step", format_bytes(moved)),
        ("recomputes", str(facts["recomputes"])),
        ("gap to the proven bound", "not proven" if gap is None else f"{gap:.2%}"),
        ("smallest RAM that works", format_bytes(facts["minimum_peak_bytes"])),
    )


def _proof(facts: Mapping[str, Any], why: str) -> str:
    text = f"{why[:1].upper()}{why[1:]}."
    if facts["lower_bound"] is not None:
        text += (
            f" Proven: no plan for this order of operators needs less than "
            f"{format_si(facts['lower_bound'], 'J')} ({facts['solver']}, "
            f"{facts['solve_s']:.1f} s)."
        )
    return text


def _schedule(given: ReportInput, traced: Trace) -> Section:
    row = Svg(760, 16, "legend")
    legend(row, 2, 1, KEYS)
    text = (
        "Stages down, values across: each row runs one operator, with what it needs brought back "
        "before and what it leaves put away after. Hover a cell for names, bytes and actions."
    )
    grid = schedule_parts(given.problem, traced)
    return Section("schedule", "Schedule", text, grid=grid, legend=row)


def _memory(given: ReportInput, traced: Trace) -> Section:
    names = {t.id: (t.name, t.nbytes) for t in given.problem.tensors}
    facts = given.facts
    text = (
        f"The peak is {format_bytes(facts['peak_bytes'])} ({facts['peak_bytes']} bytes) at "
        f"{facts['peak_at']}; the budget is {format_bytes(facts['ram_bytes'])}. The arena as "
        f"placed has {format_bytes(given.placement.arena_bytes)} where at least "
        f"{format_bytes(facts['arena_peak_bytes'])} are live at once."
    )
    return Section("ram", "RAM over time", text,
                   figures=(memory_figure(traced, given.levels, names),))  # fmt: skip


def _timeline(given: ReportInput, traced: Trace) -> Section:
    computing = busy_s(traced.spans, Kind.COMPUTE)
    again = busy_s(traced.spans, Kind.RECOMPUTE)
    card = busy_s(traced.spans, Kind.READ, Kind.WRITE)
    stall = busy_s(traced.spans, Kind.STALL)
    text = (
        f"A step takes {format_si(traced.end_s, 's')}: {format_si(computing, 's')} of computing, "
        f"{format_si(again, 's')} of recomputing, {format_si(stall, 's')} of waiting for the card, "
        f"whose bus is busy for {format_si(card, 's')}."
    )
    figure = timeline_figure(traced.spans, given.problem.deadline_s)
    return Section("time", "CPU and SD bus", text, figures=(figure,))


def _energy(given: ReportInput, traced: Trace) -> Section:
    facts = given.facts
    text = (
        f"{format_si(facts['energy_j'], 'J')} in all: {format_si(facts['compute_j'], 'J')} of "
        f"computing and recomputing, {format_si(facts['sd_j'], 'J')} of the card. A page-in counts "
        "for the operator that needs it, a page-out for the one it follows."
    )
    many = len(traced.energies) > 28
    return Section("energy", "Energy by operator", text,
                   figures=(energy_figure(traced.energies),), scroll=many)  # fmt: skip


def _part_text(part: ArenaPart) -> str:
    reach = "" if part.reached else ", out of the DMA's reach"
    return f"{part.name} has offsets {part.offset} to {part.end - 1}{reach}"


def _arena(given: ReportInput) -> Section:
    placement = given.placement
    text = (
        f"{len(placement.slots)} slots in {format_bytes(placement.arena_bytes)} "
        f"({placement.arena_bytes} bytes), aligned to {placement.alignment_bytes}. Each rectangle "
        "is one stay of one value at its addresses."
    )
    if placement.parts:
        text += f" {'; '.join(map(_part_text, placement.parts))}; the main RAM has those behind."
    figure = arena_figure(given.graph, placement, len(given.schedule.actions))
    return Section("arena", "Arena map", text, figures=(figure,))


def _wear(given: ReportInput) -> Section:
    facts = given.facts
    table = wear_table(given.written_bytes, facts["sd_write_bytes"], facts["time_s"])
    notes = wear_notes(given.written_bytes, given.driver)
    return Section("wear", "Wear of the card", table=table, notes=notes)
