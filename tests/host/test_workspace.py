"""The workspace an operator asks for is the one its kernel uses: no byte more, hardly one less."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

import kernel_build as kb
import numpy as np
import pytest

sys.path.insert(0, str(kb.ROOT / "tools"))
import bench_kernels as bench

from poet_mcu.bench.case import Case
from poet_mcu.bench.recurrent import every_case

#: bytes around a workspace that nobody may touch, and what is in them
GUARD, CANARY = 256, 0xA5
#: a workspace ends at most so far behind what is used of it: a band of it has whole rows (0.2 seen)
SLACK = 1 / 4
CASES = {case.name: case for case in every_case() if case.workspace_bytes}
STEP = {"lr": ctypes.c_float(0.01), "bias1": ctypes.c_float(0.1), "bias2": ctypes.c_float(0.001)}


def operands(case: Case) -> dict[str, Any]:
    rng = np.random.default_rng(len(case.name))
    kinds = [(f"in{i}", t) for i, t in enumerate(case.inputs)]
    kinds += [(f"out{i}", t) for i, t in enumerate(case.outputs)]
    found = {}
    for name, kind in kinds:
        floats = (case.low + (1 - case.low) * rng.random(kind.shape)).astype(np.float32)
        whole = rng.integers(0, case.below, kind.shape).astype(kind.dtype.numpy)
        found[name] = floats if kind.dtype.numpy == np.float32 else whole
    return found


def run(case: Case, arrays: dict[str, Any], ws: np.ndarray) -> None:
    kernel = case.kernel
    given: list[Any] = [ctypes.byref(kb.descriptor(kernel))] if kernel.descriptor else []
    at = {**arrays, "ws": ws}
    for role in kernel.args:
        pointer = ctypes.c_void_p(at[role].ctypes.data) if role in at else None
        given.append(pointer if role in at else STEP.get(role, ctypes.c_void_p(None)))
    function = getattr(kb.library(kb.Build(1)), kernel.function)
    function.restype = None
    function(*given)


@pytest.mark.parametrize("name", CASES)
def test_the_canaries_around_a_workspace_live(name: str) -> None:
    case, results = CASES[name], []
    for paint in (CANARY, 0x5A):
        raw = np.full(case.workspace_bytes + 2 * GUARD, paint, np.uint8)
        raw[:GUARD] = raw[GUARD + case.workspace_bytes :] = CANARY
        inside = raw[GUARD : GUARD + case.workspace_bytes]
        arrays = operands(case)
        run(case, arrays, inside)
        assert (raw[:GUARD] == CANARY).all(), "wrote before its workspace"
        assert (raw[GUARD + case.workspace_bytes :] == CANARY).all(), "wrote behind its workspace"
        used = np.flatnonzero(inside != paint)
        assert used.size, "the workspace is not used"
        assert case.workspace_bytes - used[-1] <= 64 + SLACK * case.workspace_bytes
        results.append(b"".join(a.tobytes() for a in arrays.values()))
    assert results[0] == results[1], "reads what it has not written"


@dataclass(frozen=True)
class Short(Case):
    """A case whose operator asks for less than its kernel uses."""

    @property
    def workspace_bytes(self) -> int:
        return super().workspace_bytes - 64


@pytest.mark.qemu
def test_a_workspace_too_small_is_seen_on_a_core() -> None:
    """The cases of ``test_kernels_builds.py::test_bits_on_the_core`` have these canaries too."""
    case = CASES["s2_16x32x16_bwd_x_packed"]
    short = Short(f"{case.name}_short", case.op, case.inputs, case.attrs)
    (core,) = [c for c in bench.CORES if c.name == "m7"]
    assert bench.differing(core, [case, short]) == [short.name]
