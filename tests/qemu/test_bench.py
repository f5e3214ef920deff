"""Benchmarks: networks keep their counts, regressions are noticed, the page is current."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import pytest

from poet_mcu import resources
from poet_mcu.board.load import load_board

sys.path.insert(0, str(resources.root() / "tools"))
import bench_figures
import bench_kernels
import bench_networks
import bench_page

SMALL = [
    one
    for one in bench_networks.NETWORKS
    if one.title in ("LeNet-like 28x28", "digits CNN, batch 1")
]
#: A cost table has four prices for a family of kernels, shared by layers of every shape. Vectors
#: and joined updates make it depend on the shape more: seen 1.19, on the M4F and M55 1.52.
PREDICTION = {"m7": 1.25, "m4f": 1.6, "m55": 1.6}


@pytest.mark.qemu
def test_networks_keep_their_counts(capsys):
    committed = bench_figures.load(bench_networks.FIGURES)
    cores = [core for core in bench_networks.BOARDS if committed[core]]
    assert {"m7", "m55"} <= set(cores)
    counted = bench_networks.measure(SMALL, cores, Path("unused"), 2, plain=False)
    assert all(len(rows) == 2 * len(SMALL) for rows in counted.values())
    assert bench_figures.check(counted, bench_networks.FIGURES) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("tool", "row"),
    [(bench_networks, "training: LeNet-like 28x28"), (bench_kernels, "c16x32x16_fwd")],
)
def test_a_committed_figure_made_3_percent_smaller_is_noticed(tool, row, tmp_path, capsys):
    now = bench_figures.load(tool.FIGURES)
    then = copy.deepcopy(now)
    then["m7"][row]["instructions"] = round(0.97 * then["m7"][row]["instructions"])
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(then), encoding="utf-8")
    assert bench_figures.check(now, path) == 1
    said = capsys.readouterr().err
    assert f"figures.json: m7 {row}: expected at most" in said
    assert "(+3.1%); make it faster or run --update" in said
    assert "rows checked, 1 worse than committed, 0 better by over 2 %" in said
    assert bench_figures.check(now, tool.FIGURES) == 0


def test_small_changes_and_improvements_pass_and_missing_figures_do_not(tmp_path):
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"m7": {"a": {"instructions": 1000}}}), encoding="utf-8")
    for value, code in ((1020, 0), (1022, 1), (500, 0)):
        assert bench_figures.check({"m7": {"a": {"instructions": value}}}, path) == code
    assert bench_figures.check({"m7": {"b": {"instructions": 1}}}, path) == 1
    assert bench_figures.check({"m3": {"a": {"instructions": 1}}}, path) == 1


def test_saving_keeps_what_was_not_counted(tmp_path):
    path = tmp_path / "figures.json"
    bench_figures.save(path, {"m7": {"a": 1, "b": 2}})
    bench_figures.save(path, {"m7": {"b": 3}, "m3": {"a": 4}})
    assert bench_figures.load(path) == {"m7": {"a": 1, "b": 3}, "m3": {"a": 4}}
    bench_figures.save(path, {"m7": {"c": 5}}, ["b", "c"])
    assert bench_figures.load(path) == {"m7": {"b": 3, "c": 5}, "m3": {}}


def test_cost_tables_predict_every_network():
    figures = bench_figures.load(bench_networks.FIGURES)
    assert set(figures) == set(bench_networks.BOARDS)
    for core, rows in figures.items():
        for name, row in rows.items():
            ratio = row["instructions"] / row["predicted"]
            assert 1 / PREDICTION[core] < ratio < PREDICTION[core], (core, name, ratio)


@pytest.mark.parametrize("core", bench_networks.BOARDS)
def test_committed_predictions_are_those_of_the_tables(core):
    figures = bench_figures.load(bench_networks.FIGURES)[core]
    board = load_board(bench_networks.BOARDS[core])
    for network in SMALL:
        prepared = bench_networks.prepared_of(network, core, Path("unused"))
        for name, graph in (("training", prepared.train), ("inference", prepared.evaluation)):
            row = figures.get(f"{name}: {network.title}")
            if row:
                assert row["predicted"] == bench_networks.predicted(graph, board)


def test_page_and_picture_are_those_of_the_committed_figures():
    figures = bench_page.load()
    assert bench_page.PAGE.read_text(encoding="utf-8") == bench_page.page(figures)
    assert bench_page.PICTURE.read_text(encoding="utf-8") == bench_page.picture(figures)


def test_a_missed_figure_is_bold():
    assert bench_page.beside(1.704, 1.7) == "1.70 (≤ 1.7)"
    assert bench_page.beside(1.706, 1.7) == "**1.71** (≤ 1.7)"
    assert bench_page.beside(1.7, None) == "1.70"
