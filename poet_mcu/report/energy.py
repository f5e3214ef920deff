"""Energy by operator as bars: compute, recompute and the card, the dearest first."""

from __future__ import annotations

from collections.abc import Sequence

from poet_mcu.report.axis import Key, legend, scaled, ticks
from poet_mcu.report.svg import Svg, shorten
from poet_mcu.report.trace import OpEnergy
from poet_mcu.units import format_si

WIDTH = 1100.0
LEFT, RIGHT, _TOP, _ROW = 250.0, 84.0, 58.0, 20.0
_KEYS: tuple[Key, ...] = (
    ("compute", "", "", "compute"),
    ("recompute", "hatch", "", "recompute for it"),
    ("pagein", "", "", "card reads for it"),
    ("pageout", "hatch", "", "card writes after it"),
)


def energy_figure(energies: Sequence[OpEnergy]) -> Svg:
    """One bar an op; the numbers at their ends add up to the energy of the step."""
    rows = sorted(energies, key=lambda e: -e.total_j)
    most = max((e.total_j for e in rows), default=0.0)
    factor, prefix = scaled(most)
    scale = (WIDTH - LEFT - RIGHT) / (most or 1.0)
    height = _TOP + _ROW * len(rows) + 8
    svg = Svg(WIDTH, height, "energy by operator")
    legend(svg, LEFT, 8, _KEYS)
    for tick in ticks(most / factor, 8):
        x = LEFT + tick * factor * scale
        svg.line(x, _TOP - 4, x, height - 4, "rule")
        svg.text(x, _TOP - 10, f"{tick:g}", "muted", anchor="middle")
    svg.text(LEFT - 10, _TOP - 10, f"energy in {prefix}J", "muted", anchor="end")
    for k, row in enumerate(rows):
        _bar(svg, row, _TOP + k * _ROW, scale)
    return svg


def _bar(svg: Svg, row: OpEnergy, y: float, scale: float) -> None:
    x = LEFT
    svg.text(LEFT - 10, y + _ROW / 2, shorten(row.name, 38), "middle", anchor="end", title=row.name)
    parts = (
        ("compute", ("compute",), row.compute_j),
        ("recompute for it", ("recompute", "hatch"), row.recompute_j),
        ("card reads for it", ("pagein",), row.read_j),
        ("card writes after it", ("pageout", "hatch"), row.write_j),
    )
    for what, layers, joules in parts:
        if joules <= 0:
            continue
        for css in layers:
            title = f"{row.name}: {what}, {format_si(joules, 'J')}"
            svg.rect(x, y + 3, joules * scale, _ROW - 6, css, title)
        x += joules * scale
    svg.text(x + 6, y + _ROW / 2, format_si(row.total_j, "J"), "middle muted", size=10)
