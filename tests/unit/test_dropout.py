"""Dropout: the generator's known answers, statistics of the masks, import, steps of a training."""

from __future__ import annotations

from itertools import combinations

import models as m
import numpy as np
import pytest
import torch
from models import node, ops, refusal, weights
from torch import nn

from poet_mcu.errors import InputError
from poet_mcu.frontend.onnx_import import load_model
from poet_mcu.ir.graph import Role
from poet_mcu.ops.dropout import kept, threefry
from poet_mcu.ops.table import OPERATORS
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import prepare
from poet_mcu.pipeline.selfcheck import sample_feeds
from poet_mcu.sim.moment import Moment
from poet_mcu.sim.plain import run_plain
from poet_mcu.training.training import evaluation_graph

#: (key, counter, words) of Threefry-2x32-20: known answers of its authors' Random123
KNOWN = (
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
)
COUNT = 40_000
#: five standard deviations: a right generator fails one comparison in 1.7 million, and the masks
#: are fixed numbers, so that a test that passes passes always
SIGMAS = 5.0


@pytest.mark.parametrize(("key", "counter", "words"), KNOWN)
def test_known_answers(key, counter, words):
    c0, c1 = (np.asarray([c], np.uint32) for c in counter)
    assert tuple(int(w[0]) for w in threefry(key, c0, c1)) == words


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_the_share_that_stays(ratio):
    deviation = np.sqrt(ratio * (1 - ratio) / COUNT)
    for step in range(5):
        share = kept(COUNT, 7, 3, step, ratio).mean()
        assert abs(share - (1 - ratio)) <= SIGMAS * deviation, step


def correlation(a, b):
    return abs(np.corrcoef(a, b)[0, 1])


def test_steps_nodes_and_seeds_have_masks_of_their_own():
    """Independent masks are uncorrelated within 1/sqrt(count); so are neighbours in one mask."""
    chosen = [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 1, 0)]
    masks = {who: kept(COUNT, *who, 0.5) for who in chosen}
    most = SIGMAS / np.sqrt(COUNT)
    for a, b in combinations(chosen, 2):
        assert correlation(masks[a], masks[b]) <= most, (a, b)
    for who, mask in masks.items():
        for lag in (1, 2, 3, 4, 8, 64):
            assert correlation(mask[:-lag], mask[lag:]) <= most, (who, lag)


def test_a_longer_mask_begins_with_the_shorter_one():
    assert np.array_equal(kept(7, 1, 2, 3, 0.4), kept(100, 1, 2, 3, 0.4)[:7])


def with_dropout(opset=17, ratio=0.5, mode=True, **attrs):
    """Relu, Dropout, MatMul; ``mode`` None: no training_mode."""
    tensors = {"w": weights(3, 2)}
    names = "r"
    if opset < 12:
        attrs["ratio"] = ratio
    else:
        tensors["ratio"] = np.asarray(ratio, np.float32)
        names = "r ratio"
        if mode is not None:
            tensors["mode"] = np.asarray(mode)
            names = "r ratio mode"
    nodes = [
        node("Relu", "x", "r"),
        node("Dropout", names, "d", "drop", **attrs),
        node("MatMul", "d w", "y"),
    ]
    return m.model(nodes, [4, 3], tensors, opset=opset)


DROPS = ["relu", "dropout", "dense"]


@pytest.mark.parametrize("opset", [7, 10, 12, 13, 22])
@pytest.mark.parametrize(
    ("dropout", "mode", "drops"),
    [
        ("model", True, True),
        ("model", False, False),
        ("model", None, False),
        ("on", False, True),
        ("off", True, False),
    ],
)
def test_import(opset, dropout, mode, drops, tmp_path):
    """Before opset 12 no node says how it was exported: one that is there drops."""
    proto = with_dropout(opset, 0.25, mode)
    path = m.save(proto, tmp_path / "m.onnx")
    found = load_model(path, None, m.every, dropout=dropout, seed=5)
    expected = drops or (opset < 12 and dropout == "model")
    assert ops(found) == (DROPS if expected else ["relu", "dense"])
    for item in found.graph.nodes:
        if item.op == "dropout":
            assert dict(item.attrs) == {"ratio": 0.25, "seed": 5, "stream": 0}
    evaluation = evaluation_graph(found.graph, found.graph)
    assert [item.op for item in evaluation.nodes] == ["relu", "dense"]
    x = weights(4, 3, seed=2)
    without = with_dropout(opset, 0.0, mode=False)
    got = m.run_graph(evaluation, x)[0]
    np.testing.assert_allclose(got, m.run_onnx(without, x), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exporter", ["script", "dynamo"])
def test_exported_in_training_mode(exporter, tmp_path):
    """Both of PyTorch's exporters keep Dropout in a model that is in training mode."""
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3)).train()
    path, x = tmp_path / "m.onnx", torch.zeros(2, 4)
    if exporter == "dynamo":
        program = torch.onnx.export(net, (x,), dynamo=True, verbose=False)
        assert program is not None
        program.save(str(path))
    else:
        mode = torch.onnx.TrainingMode.TRAINING
        torch.onnx.export(net, (x,), path, dynamo=False, opset_version=17, training=mode)
    found = load_model(path, None, m.every)
    assert ops(found) == ["dense", "dropout", "dense"]
    assert found.graph.nodes[1].attrs["ratio"] == 0.3


def test_a_ratio_of_zero_is_nothing(tmp_path):
    assert ops(m.load(with_dropout(ratio=0.0), tmp_path)) == ["relu", "dense"]


def test_a_note_names_the_option(tmp_path):
    notes = m.load(with_dropout(), tmp_path).report.notes
    assert "1 Dropout in training steps (--dropout off: none)" in notes


def test_refusals(tmp_path):
    assert refusal(with_dropout(seed=0), tmp_path) == (
        "node 1 'drop' (Dropout): expected Dropout without a seed, got 0: its masks come from "
        "--seed; export without it, or choose --dropout off"
    )
    assert refusal(with_dropout(ratio=1.0), tmp_path) == (
        "node 1 'drop' (Dropout): expected a ratio in [0, 1), got 1; correct it, or choose "
        "--dropout off"
    )
    nodes = [node("Relu", "x", "r"), node("Dropout", "r", "d mask", "drop")]
    nodes += [node("Cast", "mask", "f", to=1), node("Add", "d f", "y")]
    assert refusal(m.model(nodes, [1, 3]), tmp_path).startswith(
        "node 1 'drop' (Dropout): expected Dropout without its mask, got 'mask' in use"
    )


def test_options(tmp_path):
    for options, words in (({"seed": -1}, "--seed"), ({"dropout": "maybe"}, "--dropout")):
        with pytest.raises(InputError, match=words):
            Options(tmp_path / "m.onnx", "host", **options)
    made = Options(tmp_path / "m.onnx", "host", dropout="on", seed=3)
    assert "dropout=on seed=3" in made.summary()


def made(folder, **options):
    path = m.save(with_dropout(ratio=0.3), folder / "m.onnx")
    return prepare(Options(path, "host", loss="mse", **options)).train


def masks_of(graph, moment):
    """Where the forward node's output and the gradient of its input are 0."""
    state = dict(graph.initial)
    feeds = {i: np.abs(a) + np.float32(0.1) for i, a in sample_feeds(graph).items()}
    values = run_plain(graph, state, feeds, 0.1, moment)
    return [values[n.outputs[0]] == 0 for n in graph.nodes if n.op == "dropout"]


def test_every_step_has_a_mask_of_its_own_also_while_gradients_are_summed(tmp_path):
    graph = made(tmp_path, accumulate=3)
    found = [masks_of(graph, Moment.of(step, 3))[0] for step in range(6)]
    assert len({mask.tobytes() for mask in found}) == 6
    assert found[4].tobytes() == masks_of(graph, Moment.of(4, 3))[0].tobytes()
    assert Moment.of(4, 3) == Moment(1, update=False, step=4)


def test_forward_and_backward_drop_the_same(tmp_path):
    nodes = [
        node("Add", "x p", "h"),
        node("Dropout", "h ratio mode", "d"),
        node("Add", "d q", "y"),
    ]
    tensors = {"p": weights(5, 7), "q": weights(5, 7, seed=1)}
    tensors |= {"ratio": np.asarray(0.3, np.float32), "mode": np.asarray(True)}
    path = m.save(m.model(nodes, [5, 7], tensors), tmp_path / "m.onnx")
    graph = prepare(Options(path, "host", loss="mse", fuse=False)).train
    forward, backward = masks_of(graph, Moment.of(9, 1))
    assert np.array_equal(forward, backward)
    assert 0 < forward.sum() < forward.size


def test_two_nodes_have_masks_of_their_own(tmp_path):
    nodes = [node("Dropout", "x ratio mode", "a"), node("Dropout", "a ratio mode", "y")]
    tensors = {"ratio": np.asarray(0.5, np.float32), "mode": np.asarray(True)}
    found = m.load(m.model(nodes, [5, 7], tensors), tmp_path).graph
    assert [item.attrs["stream"] for item in found.nodes] == [0, 1]
    assert all(OPERATORS[item.op].by_step for item in found.nodes)
    assert found.with_role(Role.INPUT)
