"""LSTM, GRU and RNN: loss and gradients, by numpy and by C, equal PyTorch's in double."""

from __future__ import annotations

import node_run
import numpy as np
import pytest
import recurrent
import torch
from models import node
from test_ops_torch import normal

EXP = 1e-4  # behind exp-like functions
STEPS, BATCH, SIZE, HIDDEN = 5, 3, 4, 7
ORDER = {"LSTM": "h w r b - h0 c0 p", "GRU": "h w r b - h0", "RNN": "h w r b - h0"}


def tensors(kind, directions, names):
    """w, r and those of ``names``, all trained."""
    rows = recurrent.KINDS[kind][0] * HIDDEN
    shapes = {
        "w": (directions, rows, SIZE),
        "r": (directions, rows, HIDDEN),
        "b": (directions, 2 * rows),
        "h0": (directions, BATCH, HIDDEN),
        "c0": (directions, BATCH, HIDDEN),
        "p": (directions, 3 * HIDDEN),
    }
    made = {name: normal(shapes[name], i, 0.6) for i, name in enumerate(shapes)}
    return {name: made[name] for name in ("w", "r", *names.split())}


def check(kind, folder, names="b", outputs="y", direction="forward", **attrs):
    """Everything that is asked for of the layer, flattened into one output."""
    directions = 2 if direction == "bidirectional" else 1
    given = tensors(kind, directions, names)
    inputs = " ".join(n if n in ("h", *given) else "-" for n in ORDER[kind].split())
    while inputs.endswith(" -"):
        inputs = inputs[:-2]
    wanted = outputs.split()
    places = ("y", "yh", "yc")[: 3 if kind == "LSTM" else 2]
    extra = {**attrs, "direction": direction, "hidden_size": HIDDEN}
    if "activations" in extra:
        extra["activations"] = list(extra["activations"]) * directions
    layer = node(kind, inputs, "", **extra)
    layer.output[:] = [f"o_{n}" if n in wanted else "" for n in places]
    nodes = [layer]
    nodes += [node("Flatten", f"o_{n}", f"f_{n}", axis=0) for n in wanted]
    nodes.append(node("Concat", " ".join(f"f_{n}" for n in wanted), "y", axis=1))

    def function(h, *leaves):
        found = recurrent.run(
            kind, h, dict(zip(given, leaves, strict=True)), direction=direction, **attrs
        )
        return torch.cat([found[places.index(n)].reshape(1, -1) for n in wanted], 1)

    x = normal((STEPS, BATCH, SIZE))
    return node_run.compare(nodes, function, x, given, folder, tolerance=EXP)


DIRECTIONS = ("forward", "reverse", "bidirectional")


@pytest.mark.parametrize("outputs", ["y", "yh", "yc", "y yh yc"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_lstm(outputs, direction, tmp_path):
    check("LSTM", tmp_path, "b h0 c0", outputs, direction)


@pytest.mark.parametrize("names", ["", "b", "h0", "b c0", "p", "b h0 c0 p"])
def test_lstm_with_some_operands(names, tmp_path):
    check("LSTM", tmp_path, names, "y yc")


@pytest.mark.parametrize("outputs", ["y", "yh", "y yh"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("before", [0, 1])
def test_gru(outputs, direction, before, tmp_path):
    check("GRU", tmp_path, "b h0", outputs, direction, linear_before_reset=before)


@pytest.mark.parametrize("names", ["", "b", "h0"])
@pytest.mark.parametrize("before", [0, 1])
def test_gru_with_some_operands(names, before, tmp_path):
    check("GRU", tmp_path, names, linear_before_reset=before)


@pytest.mark.parametrize("outputs", ["y", "yh", "y yh"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_rnn(outputs, direction, tmp_path):
    check("RNN", tmp_path, "b h0", outputs, direction)


@pytest.mark.parametrize("names", ["", "b", "h0"])
def test_rnn_with_some_operands(names, tmp_path):
    check("RNN", tmp_path, names)


@pytest.mark.parametrize(
    ("kind", "activations"),
    [
        ("LSTM", ("Tanh", "Relu", "Sigmoid")),
        ("LSTM", ("Sigmoid", "Sigmoid", "Relu")),
        ("GRU", ("Tanh", "Sigmoid")),
        ("RNN", ("Relu",)),
        ("RNN", ("Sigmoid",)),
    ],
)
def test_other_activations(kind, activations, tmp_path):
    outputs = "y yc" if kind == "LSTM" else "y yh"
    check(kind, tmp_path, "b h0", outputs, "bidirectional", activations=activations)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_batch_first(kind, direction, tmp_path):
    """layout=1: batch in front, in x, in the state and in every output."""
    directions = 2 if direction == "bidirectional" else 1
    given = tensors(kind, directions, "b h0")
    given["h0"] = np.ascontiguousarray(given["h0"].swapaxes(0, 1))
    layer = node(kind, "h w r b - h0", "", direction=direction, hidden_size=HIDDEN, layout=1)
    layer.output[:] = ["all", "last"]
    nodes = [layer, *(node("Flatten", n, f"f_{n}", axis=0) for n in ("all", "last"))]
    nodes.append(node("Concat", "f_all f_last", "y", axis=1))

    def function(h, w, r, b, h0):
        leaves = {"w": w, "r": r, "b": b, "h0": h0.transpose(0, 1)}
        y, last, _ = recurrent.run(kind, h.transpose(0, 1), leaves, direction=direction)
        parts = (y.permute(2, 0, 1, 3), last.transpose(0, 1))
        return torch.cat([part.reshape(1, -1) for part in parts], 1)

    x = normal((BATCH, STEPS, SIZE))
    node_run.compare(nodes, function, x, given, tmp_path, tolerance=EXP)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_one_step_of_one_sample(kind, tmp_path, monkeypatch):
    for name, size in (("STEPS", 1), ("BATCH", 1), ("HIDDEN", 1)):
        monkeypatch.setitem(globals(), name, size)
    check(kind, tmp_path, "b h0", "y yh", "bidirectional")
    check(kind, tmp_path, "b", "yh", "bidirectional")


def test_more_columns_than_a_block_of_the_gru_has(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "HIDDEN", 35)
    check("GRU", tmp_path, "b h0", "y", "bidirectional")
