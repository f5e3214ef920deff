"""Draws docs/figure2.svg: the schedule of the eight-layer example of POET (arXiv 2207.07697).

As in the paper's figure 2, layers 2 and 3 are cheap and large, 5 and 6 expensive; the plan of
least energy recomputes 2 and 3 and pages 5 and 6. Run it from anywhere:

    python tools/draw_figure2.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from poet_mcu.report import schedule_figure, write_atomic  # noqa: E402
from poet_mcu.schedule import Op, Problem, SolveOptions, Tensor, simulate, solve  # noqa: E402

LAYERS = 8
TITLE = "Least energy for eight layers: 2 and 3 are recomputed, 5 and 6 paged"
UNIT_BYTES = 1024
#: units of UNIT_BYTES of each layer's output, 1 to 8
SIZES = (1, 8, 8, 1, 5, 5, 9, 7)
#: millijoules (and milliseconds) of each layer's run
COSTS = (6.0, 1.0, 1.0, 8.0, 30.0, 30.0, 8.0, 4.0)
#: millijoules and milliseconds for each unit moved to or from the card
MOVE = 0.9
BUDGET_UNITS = 28


def _tensor(number: int, name: str, units: int, *, end: bool = False) -> Tensor:
    cost = MOVE * units * 1e-3
    return Tensor(number, name, units * UNIT_BYTES, pageable=True, page_in_s=cost, page_out_s=cost,
                  page_in_j=cost, page_out_j=cost, at_end=end)  # fmt: skip


def eight_layers() -> Problem:
    """Layers 1 to 8 and back: the backward op of a layer reads the outputs around its layer."""
    tensors = [_tensor(k, f"out {k}", SIZES[k - 1]) for k in range(1, LAYERS + 1)]
    tensors += [
        _tensor(LAYERS + k, f"grad {k}", SIZES[k - 1], end=k == 1) for k in range(LAYERS, 0, -1)
    ]
    ops = [
        Op(k, f"layer {k}", (k - 1,) if k > 1 else (), (k,), COSTS[k - 1] * 1e-3,
           COSTS[k - 1] * 1e-3, 0, recomputable=True, backward=False)
        for k in range(1, LAYERS + 1)
    ]  # fmt: skip
    for k in range(LAYERS, 0, -1):
        above = (LAYERS + k + 1,) if k < LAYERS else ()
        cost = 2e-3 * COSTS[k - 1]
        ops.append(
            Op(2 * LAYERS + 1 - k, f"backward {k}", (k, *above), (LAYERS + k,), cost, cost, 0,
               recomputable=False, backward=True)
        )  # fmt: skip
    return Problem("eight layers", tuple(tensors), tuple(ops), BUDGET_UNITS * UNIT_BYTES)


def main() -> None:
    problem = eight_layers()
    solution = solve(problem, SolveOptions())
    if solution.schedule is None:
        raise SystemExit(f"figure 2: expected a plan, got {solution.status.value}")
    metrics = simulate(problem, solution.schedule)
    write_atomic(
        ROOT / "docs" / "figure2.svg",
        schedule_figure(problem, solution.schedule, TITLE).standalone(),
    )
    print(f"docs/figure2.svg: {metrics}")


if __name__ == "__main__":
    main()
