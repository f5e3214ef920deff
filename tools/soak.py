"""Trains on an emulated board with a bad card, a bad line and restarts; the bits must not change.

    python tools/soak.py --steps 10000

Says what was injected, by kind. Status 1: the weights or a loss differ from the undisturbed run.
``--work`` keeps build and card image. See docs/faults.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "host"))

import soak_run  # noqa: E402  the folder is put on the path above


def report(bad: soak_run.Outcome, good: soak_run.Outcome) -> bool:
    """Print what happened; True when all bits are those of the undisturbed run."""
    for kind, count in sorted(bad.injected.items()):
        print(f"{kind:28} {count}")
    injected = sum(n for kind, n in bad.injected.items() if kind != soak_run.MOVED)
    print(
        f"{bad.steps} steps in {bad.seconds:.0f} s, {injected} faults injected, "
        f"{bad.recoveries} recoveries, {bad.runs} runs, "
        f"{bad.untold} losses never told"
    )
    same = bad.same_as(good)
    print("weights, states and losses:", "the same bits" if same else "DIFFERENT")
    return same


def main() -> int:
    """0 when nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0, help="which faults they are")
    parser.add_argument("--work", type=Path, help="an empty folder; default: a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="poet-mcu-soak-") as scratch:
        folder = given.work or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        rates = soak_run.Rates(seed=given.seed)
        made = soak_run.prepare(folder, rates)
        good = soak_run.undisturbed(made, given.steps)

        def watch(step: int) -> None:
            if (step + 1) % 500 == 0:
                print(f"step {step + 1}", file=sys.stderr, flush=True)

        return 0 if report(soak_run.soak(made, folder, given.steps, rates, watch), good) else 1


if __name__ == "__main__":
    sys.exit(main())
