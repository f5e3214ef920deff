"""The numbers of a plan as tables: beside its baselines, and what it does to the card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from poet_mcu.report.page import Table
from poet_mcu.units import format_bytes, format_si

LABELS = {
    "keep_all": "keep every activation",
    "free_early": "free early, in place",
    "page_all": "page everything",
    "recompute_all": "recompute everything",
    "sqrt_checkpoints": "square-root checkpoints",
    "paging_only": "best with paging only",
    "remat_only": "best with recompute only",
}
_HEADINGS = (
    "plan", "peak", "energy", "compute", "SD", "to this plan", "time", "compute", "stall",
    "SD read", "SD written", "pages out / in", "recomputes",
)  # fmt: skip

MISSES = "\u2717"
MISSES_NOTE = f"{MISSES} misses the budget or the deadline, or no plan of this kind exists."

#: terabytes written that a card is sold for: Micron i300 microSD 128 GB (3D QLC), data sheet
ENDURANCE_BYTES = 120 * 10**12
ENDURANCE_SOURCE = (
    "Micron i300 industrial microSD, 128 GB, 3D QLC: 120 TB written by its data sheet (the 1 TB "
    "card 960 TB). Another card's number is in its own data sheet, if anywhere."
)
_YEAR_S = 365.25 * 86400


def label_of(key: str) -> str:
    """A baseline's name for people."""
    return LABELS.get(key, key.replace("_", " "))


def fits(entry: Mapping[str, Any]) -> bool:
    """Whether the plan holds budget and deadline."""
    return entry["status"] in ("optimal", "feasible")


def comparison(facts: Mapping[str, Any]) -> Table:
    """Every baseline and the plan; energy and time each with their two parts."""
    known: Mapping[str, Mapping[str, Any]] = facts["baselines"]
    order = [key for key in LABELS if key in known] + [key for key in known if key not in LABELS]
    rows = [_row(label_of(key), known[key], facts["energy_j"]) for key in order]
    faint = frozenset(k for k, key in enumerate(order) if not fits(known[key]))
    mine = _row(f"this plan ({facts['strategy']})", facts, facts["energy_j"])
    return Table(_HEADINGS, (*rows, mine), strong=len(rows), faint=faint)


def _row(label: str, entry: Mapping[str, Any], energy_j: float) -> tuple[str, ...]:
    if entry["peak_bytes"] is None:
        return (f"{label} {MISSES}", *("-" for _ in _HEADINGS[1:]))
    return (
        label if fits(entry) else f"{label} {MISSES}",
        format_bytes(entry["peak_bytes"]),
        format_si(entry["energy_j"], "J"),
        format_si(entry["compute_j"], "J"),
        format_si(entry["sd_j"], "J"),
        _ratio(entry["energy_j"], energy_j),
        format_si(entry["time_s"], "s"),
        format_si(entry["time_s"] - entry["stall_s"], "s"),
        format_si(entry["stall_s"], "s"),
        format_bytes(entry["sd_read_bytes"]),
        format_bytes(entry["sd_write_bytes"]),
        f"{entry['page_outs']} / {entry['page_ins']}",
        str(entry["recomputes"]),
    )


def _ratio(energy_j: float, mine_j: float) -> str:
    if not mine_j > 0:
        return "-"
    return f"{(energy_j / mine_j - 1) * 100:+.1f} %" if energy_j != mine_j else "0 %"


def wear_table(moved_bytes: int, payload_bytes: int, step_s: float) -> Table:
    """An estimate of the card's life. ``moved_bytes``: whole units that one step writes."""
    rows = [
        ("written by a step", f"{format_bytes(moved_bytes)} ({moved_bytes} bytes)"),
        ("of that, values", f"{format_bytes(payload_bytes)} ({payload_bytes} bytes)"),
    ]
    if moved_bytes:
        per_terabyte = 10**12 // moved_bytes
        steps = ENDURANCE_BYTES // moved_bytes
        years = steps * step_s / _YEAR_S
        rows += [
            ("steps for each terabyte written", f"{per_terabyte:,}"),
            (f"steps to {ENDURANCE_BYTES / 1e12:g} TB", f"about {int(float(f'{steps:.3g}')):,}"),
            ("which is, one step after the other", f"about {years:.3g} years"),
        ]
    return Table(("the card", "estimate"), tuple(rows))


def wear_notes(moved_bytes: int, driver: str) -> tuple[str, ...]:
    """What the estimate assumes."""
    notes = [f"An estimate, not a promise. Endurance assumed: {ENDURANCE_SOURCE}"]
    notes.append(
        "Counted are the bytes that the card is sent, in its unit of writing. What the card writes "
        "inside itself for them is not known; it is more, the smaller the writes."
    )
    if not moved_bytes:
        notes.insert(0, "This plan writes nothing to the card.")
    if driver != "sd_spi":
        notes.append(
            f"This board pages by '{driver}': on it no card wears. Take it for a real one."
        )
    return tuple(notes)
