"""Golden vectors: our operators against stored results of PyTorch, and those against PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import golden_run
import golden_torch
import numpy as np
import pytest
from golden_cases import GROUPS

from poet_mcu.ops.operator import Operator
from poet_mcu.ops.table import OPERATORS

TESTS = Path(golden_run.__file__).parent
ALL = [(group, name) for group in GROUPS for name in GROUPS[group]]
_MAX_BYTES = 1_500_000

_WITHOUT_TORCH = """
import pathlib, sys
sys.modules["torch"] = None
sys.path.insert(0, sys.argv[1])
import golden_run
try:
    import torch
except ImportError:
    print(golden_run.check_in_numpy(pathlib.Path(sys.argv[2])), "vectors agree")
"""


def test_every_vector_in_numpy_where_torch_cannot_be_imported(tmp_path):
    command = [sys.executable, "-c", _WITHOUT_TORCH, str(TESTS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(ALL)} vectors agree\n"


@pytest.mark.parametrize("group", GROUPS)
def test_every_vector_by_the_kernels(group, tmp_path):
    for name, golden in golden_run.load(group).items():
        graph = golden.graph(tmp_path)
        for fused in (0, 1):
            if golden.steps:
                continue
            golden_run.check(golden, golden_run.one_step(golden, graph, fused))
        assert graph.nodes, name


@pytest.mark.parametrize("group", GROUPS)
def test_the_files_are_what_torch_gives(group):
    """Model and inputs to the bit, results within the rounding of float32."""
    stored = np.load(golden_run.FOLDER / f"{group}.npz")
    fresh = {
        f"{name}/{key}": array
        for name, case in GROUPS[group].items()
        for key, array in golden_torch.vector(name, case).items()
    }
    assert set(stored.files) == set(fresh), "run tools/make_golden.py"
    for key, array in fresh.items():
        kind = key.partition("/")[2].partition("/")[0]
        if kind in ("loss", "grad", "after"):
            # Double precision rounded once; torch may sum in another order on another machine.
            assert golden_run.difference(stored[key], array) <= 1e-6, key
        else:
            assert np.array_equal(stored[key], array), f"{key}: run tools/make_golden.py"


def test_every_operator_has_a_vector(tmp_path):
    seen = set().union(
        *(golden_run.operators(golden_run.load(group)[name], tmp_path) for group, name in ALL)
    )
    assert sorted(set(OPERATORS) - seen) == []


def test_every_differentiable_operator_is_differentiated(tmp_path):
    """It stands before a trained tensor's gradient, not only somewhere in a graph."""
    seen = set()
    for group, name in ALL:
        golden = golden_run.load(group)[name]
        if any(key.startswith(("grad/", "after/")) for key in golden.arrays):
            graph = golden.graph(tmp_path)
            seen |= {node.op for node in graph.nodes if node.phase.value == "forward"}
    wanted = {
        n
        for n, op in OPERATORS.items()
        if type(op).gradient is not Operator.gradient
        or type(op).gradients is not Operator.gradients
    }
    assert sorted(wanted - seen - _OF_GRADIENTS) == []


#: Made by gradient rules alone; their own gradient would be a second derivative.
_OF_GRADIENTS = frozenset(
    {"pow_slope", "pow_log", "prelu_slope", "greater", "equal", "ratio", "scale"}
)


def test_the_files_are_small():
    total = sum(path.stat().st_size for path in golden_run.FOLDER.glob("*.npz"))
    assert total <= _MAX_BYTES


def test_a_wrong_result_is_seen(tmp_path):
    golden = golden_run.load("activations")["gelu"]
    found = golden_run.one_step(golden, golden.graph(tmp_path), None)
    golden_run.check(golden, found)
    wrong = found["grad/shift"].copy()
    wrong.flat[3] += 3 * golden.tolerance * np.abs(wrong).max()
    with pytest.raises(AssertionError):
        golden_run.check(golden, {**found, "grad/shift": wrong})
    with pytest.raises(AssertionError):
        golden_run.check(golden, {"loss": found["loss"]})
