"""The plan as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from poet_mcu.units import format_bytes, format_si

_ROWS = (
    ("keep_all", "keep every activation"),
    ("free_early", "free early, in place"),
    ("page_all", "page everything"),
    ("recompute_all", "recompute everything"),
    ("sqrt_checkpoints", "square-root checkpoints"),
    ("paging_only", "best with paging only"),
    ("remat_only", "best with recompute only"),
)

#: "for SD" is the energy of transfers and of waiting for them, "waiting" the time of it
_FIGURES = (
    "peak", "energy", "for SD", "time", "waiting", "SD read", "SD written", "recomputes",
)  # fmt: skip

#: Solvers prove to 1e-4 of the scaled energy; a larger gap is not called optimal.
_PROVEN_GAP = 1e-4


def plan_table(facts: dict[str, Any]) -> Table:
    """The plan beside its baselines; what does not fit budget or deadline is marked."""
    title = f"{facts['model']} on {facts['board']}, budget {format_bytes(facts['ram_bytes'])}"
    table = Table(title=title, title_justify="left", box=None)
    for heading in ("plan", "fits", *_FIGURES):
        table.add_column(heading, justify="left" if heading in ("plan", "fits") else "right")
    for key, label in _ROWS:
        _add(table, label, facts["baselines"][key])
    _add(table, f"this plan ({_standing(facts)})", facts, style="bold")
    table.caption = caption(facts)
    table.caption_justify = "left"
    return table


def _standing(facts: dict[str, Any]) -> str:
    """The strategy asked for; of the solver's own plan, whether nothing can be better."""
    if facts["strategy"] != "optimal":
        return str(facts["strategy"])
    return "optimal" if facts["gap"] <= _PROVEN_GAP else "best found"


def _add(table: Table, label: str, entry: dict[str, Any], style: str = "") -> None:
    fits = "" if entry["status"] in ("optimal", "feasible") else "no"
    if entry["peak_bytes"] is None:
        table.add_row(label, fits, *("-" for _ in _FIGURES), style=style)
        return
    table.add_row(
        label,
        fits,
        format_bytes(entry["peak_bytes"]),
        format_si(entry["energy_j"], "J"),
        format_si(entry["energy_j"] - entry["compute_j"], "J"),
        format_si(entry["time_s"], "s"),
        format_si(entry["stall_s"], "s"),
        format_bytes(entry["sd_read_bytes"]),
        format_bytes(entry["sd_write_bytes"]),
        str(entry["recomputes"]),
        style=style,
    )


def why(facts: dict[str, Any]) -> str:
    """One sentence: what the plan does, and what each of its two means alone would cost."""
    pages, again = facts["page_ins"] + facts["page_outs"], facts["recomputes"]
    if not pages and not again:
        return "everything fits: nothing is paged and nothing is computed twice"
    alone = "; ".join(
        f"{label} alone {_alone(facts, facts['baselines'][key])}"
        for key, label in (("paging_only", "paging"), ("remat_only", "recompute"))
    )
    does = []
    if pages:
        does += [_count(facts["page_outs"], "page-out"), _count(facts["page_ins"], "page-in")]
    if again:
        does.append(_count(again, "recomputation"))
    return f"the plan makes {', '.join(does)} a step; {alone}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _alone(facts: dict[str, Any], entry: dict[str, Any]) -> str:
    if entry["peak_bytes"] is None:
        return "does not fit"
    more = entry["energy_j"] - facts["energy_j"]
    if abs(more) <= 1e-9 * facts["energy_j"]:
        return "costs the same"
    if more < 0:  # the search over both was stopped before it got there
        return f"costs {format_si(-more, 'J')} less: raise --time-limit"
    return f"costs {format_si(more, 'J')} more"


def caption(facts: dict[str, Any]) -> str:
    """What the plan does, the smallest budget that works, bound and gap."""
    parts = [why(facts)]
    parts.append(f"smallest RAM that works: {format_bytes(facts['minimum_peak_bytes'])}")
    if facts["lower_bound"] is not None:
        parts.append(
            f"proven: no plan below {format_si(facts['lower_bound'], 'J')} "
            f"(gap {facts['gap']:.2%}, in {facts['solve_s']:.1f} s, {facts['solver']})"
        )
    return "; ".join(parts)


def operator_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Time by operator: what the board's tables say, and what was measured where it was."""
    table = Table(title="one training step by operator", title_justify="left", box=None)
    measured = any("measured_s" in row for row in rows)
    for heading in ("operator", "runs", "predicted", *(("measured", "ratio") if measured else ())):
        table.add_column(heading, justify="left" if heading == "operator" else "right")
    for row in rows:
        cells = [row["op"], str(row["runs"]), format_si(row["predicted_s"], "s")]
        if measured:
            ratio = row["ratio"]
            cells += [format_si(row["measured_s"], "s"), "-" if ratio is None else f"{ratio:.2f}"]
        table.add_row(*cells)
    return table


def cost_table(families: Mapping[str, Mapping[str, float]]) -> Table:
    """Fitted prices by family, and the factor by which they miss."""
    table = Table(title="cycles by kernel family", title_justify="left", box=None)
    for heading in ("family", "a MAC", "an element", "a function", "a call", "off by", "at most"):
        table.add_column(heading, justify="left" if heading == "family" else "right")
    for family, row in families.items():
        table.add_row(family, *(f"{value:.4g}" for value in row.values()))
    return table


def card_table(card: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    """Seconds of transfers by direction and size."""
    table = Table(title="transfers", title_justify="left", box=None)
    for heading in ("direction", "size", "median", "p99", "worst"):
        table.add_column(heading, justify="left" if heading == "direction" else "right")
    for way, sizes in card.items():
        for size, found in sizes.items():
            times = (format_si(value, "s") for value in found.values())
            table.add_row(way, format_bytes(int(size)), *times)
    return table
