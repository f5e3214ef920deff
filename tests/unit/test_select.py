"""Forms of kernels: chosen by price within the memory that is free, seen by the planner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import kernels_run
import models
import pytest

from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.codegen.steps import CodeNames, step_view
from poet_mcu.ir.graph import Graph, Role
from poet_mcu.lower.lower import kernel_of
from poet_mcu.lower.select import forms, with_forms
from poet_mcu.ops import conv_packed
from poet_mcu.ops.table import OPERATORS
from poet_mcu.ops.window import Window
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import plan
from poet_mcu.pipeline.prepare import prepare
from poet_mcu.pipeline.selfcheck import check_program, sample_feeds
from poet_mcu.schedule import free_early, simulate
from poet_mcu.schedule.pricing import make_problem, workspaces
from poet_mcu.sim.plain import run_plain

BOARD = "qemu-mps2-an500"
ROOMY = 2**20


def strided(folder: Path) -> Path:
    """Two layers of stride 2: one with both directions, one without input gradient."""
    proto = models.model(
        [
            models.node("Conv", "x w1 b1", "a", strides=[2, 2], pads=[1, 1, 1, 1]),
            models.node("Relu", "a", "r"),
            models.node("Conv", "r w2", "c", strides=[2, 2], pads=[1, 1, 1, 1]),
            models.node("Flatten", "c", "f"),
            models.node("MatMul", "f w3", "y"),
        ],
        [1, 4, 32, 32],
        {
            "w1": models.weights(12, 4, 3, 3),
            "b1": models.weights(12),
            "w2": models.weights(24, 12, 3, 3),
            "w3": models.weights(24 * 64, 5),
        },
    )
    return models.save(proto, folder / "strided.onnx")


def plain(folder: Path) -> Graph:
    """The training graph with every kernel in the form that is always there."""
    graph = prepare(Options(strided(folder), BOARD, ram_bytes=1)).train
    assert not forms(graph)
    return graph


def priced(mac: float, element: float) -> Board:
    """The board with these prices of the packed form."""
    board = load_board(BOARD)
    row = board.cost["conv_packed"].model_copy(
        update={"cycles_per_mac": mac, "cycles_per_element": element, "cycles_per_call": 0.0}
    )
    return board.model_copy(update={"cost": {**board.cost, "conv_packed": row}})


def packed_forms(graph: Graph) -> list[str]:
    return [e["form"] for e in forms(graph).values() if e["form"].startswith("packed")]


def test_the_cheapest_form_is_taken(tmp_path: Path) -> None:
    graph = plain(tmp_path)
    cheap = with_forms(graph, priced(0.1, 0.01), ROOMY)
    assert packed_forms(cheap) == ["packed_wide"] * 3  # two forward, one back
    assert packed_forms(with_forms(graph, priced(9.0, 0.01), ROOMY)) == []


def test_a_board_without_the_price_keeps_the_form_without_workspace(tmp_path: Path) -> None:
    board = load_board(BOARD)
    cost = {k: v for k, v in board.cost.items() if k not in ("conv_packed", "conv_general")}
    graph = plain(tmp_path)
    bare = board.model_copy(update={"cost": cost})
    assert packed_forms(with_forms(graph, bare, ROOMY)) == []
    assert make_problem(graph, bare, ROOMY).base_s > 0  # at its direction's price


def test_workspace_is_taken_only_where_it_fits(tmp_path: Path) -> None:
    """The larger the budget the more workspace; none below what the plan needs without it."""
    graph = plain(tmp_path)
    board = priced(0.1, 0.01)
    problem = make_problem(graph, board, ROOMY)
    homes = ROOMY - problem.memory_bytes
    peak = homes + simulate(problem, free_early(problem)).peak_bytes
    assert with_forms(graph, board, peak - 8) == graph
    used = []
    for memory in (peak, peak + 4096, peak + 8192, peak + 2**15):
        chosen = with_forms(graph, board, memory)
        fits = make_problem(chosen, board, memory)
        assert simulate(fits, free_early(fits)).peak_bytes <= fits.memory_bytes
        assert fits.base_j <= problem.base_j
        used.append(sum(workspaces(chosen).values()))
    assert used == sorted(used)
    assert used[0] < used[-1]


def test_results_do_not_show_the_form(tmp_path: Path) -> None:
    graph = plain(tmp_path)
    feeds = sample_feeds(graph)
    kept = [v.id for v in graph.with_role(Role.PARAMETER, Role.LOSS)]
    results = []
    for one in (graph, with_forms(graph, priced(0.1, 0.01), ROOMY)):
        for run in (run_plain, kernels_run.run_kernels):
            values = run(one, graph.initial, feeds, 0.05)
            results.append([values[v].tobytes() for v in kept])
    assert results[0] == results[2]
    assert results[1] == results[3]


@pytest.fixture
def planned(tmp_path: Path):
    return plan(Options(strided(tmp_path), BOARD, time_limit_s=5.0))


def test_the_planner_sees_workspace_and_the_plan_tells_the_form(planned) -> None:
    """The board's own prices: going back through a stride is worth packing."""
    found = planned.facts["kernel_forms"]
    packed = [name.split()[0] for name, e in found.items() if e["form"].startswith("packed")]
    assert packed == ["conv2d", "conv2d", "conv2d_bwd_x"]
    step = planned.train
    for node, nbytes in workspaces(step.graph).items():
        assert step.problem.ops[node].workspace_bytes >= nbytes
    largest = max(entry["workspace_bytes"] for entry in found.values())
    assert largest in {slot.nbytes for slot in step.placement.scratch}
    assert check_program(step) == step.arena_peak_bytes
    view = step_view(step.graph, step.program, CodeNames(), "poet_train", "", "at")
    lines = [line for line in view.lines if "packed" in line.statement]
    assert len(lines) == len(packed)
    assert all(", packed" in line.comment and "at_workspace" in line.statement for line in lines)


def test_bands_are_as_large_as_there_is_room(tmp_path: Path) -> None:
    """With room a gradient is one band and costs what the two nodes cost; else it is small."""
    graph = plain(tmp_path)
    board = load_board(BOARD)
    roomy = with_forms(graph, board, ROOMY)
    for one, all_rows in ((roomy, True), (graph, False)):
        kernels = [kernel_of(one, n.id) for n in one.nodes if n.op == "conv2d_bwd_w_sgd"]
        shapes = [dict(kernel.fields) for kernel in kernels]
        assert shapes
        assert all((s["band_rows"] == s["rows"]) == all_rows for s in shapes)
    apart = prepare(Options(strided(tmp_path), BOARD, ram_bytes=1, fuse=False)).train
    joined = make_problem(roomy, board, ROOMY).base_j
    packed_apart = make_problem(with_forms(apart, board, ROOMY), board, ROOMY).base_j
    assert joined <= packed_apart * (1 + 1e-9)


def test_a_plan_with_forms_costs_less(planned) -> None:
    board = load_board(BOARD)
    nodes = tuple(
        replace(n, attrs={k: v for k, v in n.attrs.items() if k != "variant"})
        for n in planned.train.graph.nodes
    )
    without = make_problem(replace(planned.train.graph, nodes=nodes), board, ROOMY)
    assert planned.facts["energy_j"] < without.base_j * (1 - 1e-6)


def test_shapes_with_blocks_of_their_own_have_no_other_form() -> None:
    shape = {"n": 1, "c": 8, "h": 9, "w": 9, "m": 8, "oh": 9, "ow": 9, "dh": 1, "dw": 1}
    rows = Window(**shape, kh=3, kw=3, sh=1, sw=1, top=1, left=1, groups=1)
    assert conv_packed.useful(rows, conv_packed.forward(rows)) == ()
    assert OPERATORS["relu"].variants([], [], {}) == ()


def test_a_layer_too_deep_for_the_workspace_has_no_such_form() -> None:
    shape = {"n": 1, "c": 512, "h": 8, "w": 8, "m": 8, "oh": 4, "ow": 4, "dh": 1, "dw": 1}
    deep = Window(**shape, kh=3, kw=3, sh=2, sw=2, top=1, left=1, groups=1)
    assert conv_packed.useful(deep, conv_packed.forward(deep)) == ()
