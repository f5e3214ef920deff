"""Writes tests/data/golden/*.npz: inputs, losses and gradients of every operator, by PyTorch.

    python tools/make_golden.py [GROUP ...]

The cases stand in tests/golden_cases. tests/host/test_golden.py compares the files with our
operators, also where PyTorch is not installed, and with PyTorch where it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

import golden_run  # noqa: E402 - the tests' folder comes first
import golden_torch  # noqa: E402
from golden_cases import GROUPS  # noqa: E402


def main() -> None:
    golden_run.FOLDER.mkdir(parents=True, exist_ok=True)
    for group in sys.argv[1:] or GROUPS:
        arrays = {}
        for name, case in GROUPS[group].items():
            for key, array in golden_torch.vector(name, case).items():
                arrays[f"{name}/{key}"] = array
        path = golden_run.FOLDER / f"{group}.npz"
        np.savez_compressed(path, **arrays)
        print(f"{path.name}: {len(GROUPS[group])} vectors, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
