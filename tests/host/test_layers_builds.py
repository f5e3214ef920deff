"""Layers of all kinds, recurrent ones too: the same bits from every compiler and level."""

from __future__ import annotations

import sys
from pathlib import Path

import kernel_build as kb
import kernels_run
import models
import numpy as np
import pytest

from poet_mcu.ir.graph import Graph
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import prepare
from poet_mcu.pipeline.selfcheck import sample_feeds

sys.path.insert(0, str(Path(__file__).parents[1] / "qemu"))
import test_layers_bits
import test_recurrent_bits

BUILDS = [
    kb.Build(fused, level, compiler, hardware)
    for fused in (0, 1)
    for level, compiler in (("-O0", "gcc"), ("-O3", "gcc"), ("-O2", "clang"))
    for hardware in (False, True)
    if (fused or not hardware) and (kb.HAS_FMA or not hardware)
]


@pytest.fixture(scope="module", params=["layers", "recurrent"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    proto, batch = {
        "layers": (test_layers_bits.network(), 2),
        "recurrent": (test_recurrent_bits.network(), 7),
    }[request.param]
    path = models.save(proto, tmp_path_factory.mktemp("builds") / "net.onnx")
    return prepare(Options(path, "host", batch=batch)).train


def values(graph: Graph, build: kb.Build) -> dict[int, np.ndarray]:
    lib, feeds = kb.library(build), sample_feeds(graph)
    found = {**graph.initial, **feeds}
    for node in graph.nodes:
        kernels_run.run_node(graph, node, found, 0.1, lib)
    return found


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_every_build_gives_the_bits_of_the_usual_one(build: kb.Build, graph: Graph) -> None:
    usual, other = values(graph, kb.Build(build.fused)), values(graph, build)
    assert usual.keys() == other.keys()
    assert all(kb.same_bits(other[i], usual[i]) for i in usual)


def test_the_modes_differ(graph: Graph) -> None:
    """Else the test above would not notice that a mode was ignored."""
    plain, fused = (values(graph, kb.Build(mode)) for mode in (0, 1))
    assert not all(kb.same_bits(plain[i], fused[i]) for i in plain)
