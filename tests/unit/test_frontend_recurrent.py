"""LSTM, GRU and RNN: import of what exporters write, layouts, refusals, and what is planned."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import models as m
import numpy as np
import onnx
import pytest
import torch
import training
from models import node, ops, refusal, weights
from torch import nn

from poet_mcu.ir.graph import Role
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.selfcheck import sample_feeds
from poet_mcu.sim.plain import run_plain

# PyTorch's exporters warn of batches and buffers that the tests fix on purpose.
pytestmark = pytest.mark.filterwarnings("ignore")

#: behind exp-like functions, float32 against double
EXP = 1e-4
STEPS, SIZE, HIDDEN = 6, 5, 4


class Net(nn.Module):
    """A recurrent layer of PyTorch and a linear one of the last step, or of the last state."""

    def __init__(self, kind: str, *, last: bool = False, **more: Any) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.cell = getattr(nn, kind)(SIZE, HIDDEN, **more)
        self.last, self.first = last, more.get("batch_first", False)
        self.head = nn.Linear(HIDDEN * (2 if more.get("bidirectional") else 1), 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, state = self.cell(x)
        if self.last:
            state = state[0] if isinstance(state, tuple) else state
            return self.head(state.transpose(0, 1).flatten(1))
        return self.head(y[:, -1] if self.first else y[-1])


def exported(net: nn.Module, x: torch.Tensor, folder: Path, exporter: str) -> Path:
    """The ONNX file that one of PyTorch's exporters makes, in evaluation mode."""
    path = folder / f"{exporter}.onnx"
    if exporter == "dynamo":
        program = torch.onnx.export(net.eval(), (x,), dynamo=True, verbose=False)
        assert program is not None
        program.save(str(path))
    else:
        file = io.BytesIO()
        torch.onnx.export(net.eval(), (x,), file, dynamo=False, opset_version=17)
        path.write_bytes(file.getvalue())
    return path


#: PyTorch's gates (LSTM i f g o, GRU r z n) in ONNX's order (i o f c, z r h)
ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def in_onnx(kind: str, array: np.ndarray) -> np.ndarray:
    """Rows of PyTorch's gates in ONNX's order."""
    blocks = array.reshape(len(ORDER[kind]), HIDDEN, -1)[list(ORDER[kind])]
    return blocks.reshape(array.shape)


def expected_gradients(kind: str, cell: Any) -> list[np.ndarray]:
    """Those of B, R and W of each layer, as the import makes them."""
    found = []
    for layer in range(cell.num_layers):
        ends = [f"_l{layer}", f"_l{layer}_reverse"][: 2 if cell.bidirectional else 1]

        def stacked(name: str, ends: list[str] = ends) -> np.ndarray:
            rows = (getattr(cell, f"{name}{end}").grad.numpy() for end in ends)
            return np.stack([in_onnx(kind, array) for array in rows])

        found.append(np.concatenate([stacked("bias_ih"), stacked("bias_hh")], 1))
        found += [stacked("weight_hh"), stacked("weight_ih")]
    return found


def gradients(made: Prepared) -> tuple[float, list[np.ndarray], dict[int, np.ndarray]]:
    graph = made.train
    feeds = sample_feeds(graph)
    values = run_plain(graph, graph.initial, feeds, 1.0)
    found = [graph.initial[v.id] - values[v.id] for v in graph.with_role(Role.PARAMETER)]
    return float(values[graph.outputs[0]].reshape(())), found, feeds


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}),
    "lstm, batch first": ("LSTM", {"batch_first": True}),
    "lstm, two layers, both directions": ("LSTM", {"num_layers": 2, "bidirectional": True}),
    "lstm, last state": ("LSTM", {"last": True, "bidirectional": True}),
    "gru": ("GRU", {"batch_first": True}),
    "gru, both directions": ("GRU", {"batch_first": True, "bidirectional": True}),
    "gru, last state": ("GRU", {"last": True}),
    "rnn": ("RNN", {"batch_first": True}),
    "rnn of relu, both directions": ("RNN", {"nonlinearity": "relu", "bidirectional": True}),
    "rnn, last state": ("RNN", {"last": True, "batch_first": True}),
}


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("case", CASES)
def test_exported_by_torch(case: str, exporter: str, tmp_path: Path) -> None:
    """Loss and the norm of each weight's gradient; rows of weights are in another order."""
    kind, more = CASES[case]
    net = Net(kind, **more)
    shape = (2, STEPS, SIZE) if more.get("batch_first") else (STEPS, 2, SIZE)
    path = exported(net, torch.zeros(shape), tmp_path, exporter)
    made = prepare(Options(path, "host", fuse=False))
    loss, found, feeds = gradients(made)
    (x,), (t,) = made.train.with_role(Role.INPUT), made.train.with_role(Role.LABEL)
    double = net.double()
    out = double(torch.tensor(feeds[x.id]).double())
    value = nn.functional.cross_entropy(out, torch.tensor(feeds[t.id]).long())
    value.backward()
    assert loss == pytest.approx(value.item(), rel=1e-5)
    if exporter == "dynamo" and kind == "RNN":
        # Written out step by step, products with the zero state folded into constants.
        assert ops_of(made).count("dense") >= STEPS
        return
    parameters = made.train.with_role(Role.PARAMETER)
    ours = [g for g, v in zip(found, parameters, strict=True) if not v.origin.startswith("head")]
    for got, wanted in zip(ours, expected_gradients(kind, double.cell), strict=True):
        assert got.shape == wanted.shape
        assert training.relative(got, wanted) <= EXP


def ops_of(made: Prepared) -> list[str]:
    return [item.op for item in made.train.nodes]


def test_the_transpose_behind_both_directions_costs_nothing(tmp_path: Path) -> None:
    """ONNX's [steps, directions, batch, hidden] is turned back by every exporter."""
    net = Net("LSTM", bidirectional=True)
    path = exported(net, torch.zeros(STEPS, 2, SIZE), tmp_path, "script")
    assert "transpose" not in ops_of(prepare(Options(path, "host")))


def lstm(inputs: str = "x w r b", outputs: str = "y", **attrs: Any) -> onnx.NodeProto:
    return node("LSTM", inputs, outputs, "cell", hidden_size=HIDDEN, **attrs)


def tensors(directions: int = 1, **more: np.ndarray) -> dict[str, np.ndarray]:
    made = {
        "w": weights(directions, 4 * HIDDEN, SIZE, seed=1),
        "r": weights(directions, 4 * HIDDEN, HIDDEN, seed=2),
        "b": weights(directions, 8 * HIDDEN, seed=3),
    }
    return made | more


X = [STEPS, 2, SIZE]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_forward_as_onnx_runtime(direction: str, tmp_path: Path) -> None:
    """The layer as the model's last node, with all steps' lengths given in full."""
    directions = 2 if direction == "bidirectional" else 1
    given = tensors(directions, lengths=np.asarray([STEPS, STEPS], np.int32))
    given["h0"] = weights(directions, 2, HIDDEN, seed=4)
    proto = m.model([lstm("x w r b lengths h0", direction=direction)], X, given)
    assert ops(m.agree(proto, tmp_path))[:2] == ["dense", "lstm"]


def test_a_zero_state_is_no_weight(tmp_path: Path) -> None:
    zero = np.zeros((1, 2, HIDDEN), np.float32)
    found = m.agree(m.model([lstm("x w r b - zero zero")], X, tensors(zero=zero)), tmp_path)
    assert "zero" not in found.report.weights
    assert "initial_h of 'cell' is zero ('zero'): it stays so and is no weight" in (
        found.report.notes
    )


REFUSED = {
    "sequences that end early": (
        lstm("x w r b lengths"),
        {"lengths": np.asarray([STEPS, 2], np.int32)},
        (
            "expected sequence_lens of 6 (all steps), got [6, 2]; export without it: every "
            "sequence has all steps"
        ),
    ),
    "clip": (
        lstm(clip=3.0),
        {},
        (
            "expected LSTM without clip, got clip=3; train without it: its gradient is not ours to "
            "choose"
        ),
    ),
    "input_forget": (
        lstm(input_forget=1),
        {},
        "expected LSTM without input_forget, got input_forget=1; export with gates of their own",
    ),
    "an activation": (
        lstm(activations=["HardSigmoid", "Tanh", "Tanh"]),
        {},
        "expected activations of Sigmoid, Tanh, Relu, got HardSigmoid; use one of those",
    ),
    "too few activations": (
        lstm(activations=["Sigmoid"]),
        {},
        "expected 3 activations, the same in each direction, got ['Sigmoid']; export with those",
    ),
    "a state of another batch": (
        lstm("x w r b - h0"),
        {"h0": weights(1, 3, HIDDEN)},
        (
            "expected initial_h of shape [1, 2, 4], got [1, 3, 4]; export with the same batch "
            "throughout"
        ),
    ),
    "a bias of another layer": (
        lstm(),
        {"b": weights(1, 3)},
        "expected B of shape [1, 32], got [1, 3]; export again",
    ),
    "weights without directions": (
        lstm(),
        {"w": weights(16, SIZE)},
        "expected W of shape [1, 16, 5], got [16, 5]; export again",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    layer, more, why = REFUSED[case]
    proto = m.model([layer], X, tensors(**more), y=[STEPS, 1, 2, HIDDEN])
    text = refusal(proto, tmp_path)
    assert text.startswith(f"node 0 'cell' (LSTM): {why}")


def test_computed_weights_are_refused(tmp_path: Path) -> None:
    nodes = [node("Reshape", "x shape", "w"), lstm()]
    given = {**tensors(), "shape": np.asarray([1, 16, 5], np.int64)}
    del given["w"]
    proto = m.model(nodes, [8, 2, SIZE], given, y=[8, 1, 2, HIDDEN])
    assert refusal(proto, tmp_path).startswith(
        "node 1 'cell' (LSTM): expected W as an initializer or constant, got 'w', which is computed"
    )


def test_a_frozen_layer_below_has_no_backward_pass(tmp_path: Path) -> None:
    net = Net("LSTM")
    path = exported(net, torch.zeros(STEPS, 2, SIZE), tmp_path, "script")
    made = prepare(Options(path, "host", train=("head.*",)))
    assert "lstm" in ops_of(made)
    assert not any(name.startswith(("lstm_bwd", "recurrent")) for name in ops_of(made))


def test_a_layer_counts_once_among_the_last(tmp_path: Path) -> None:
    """Its dense part belongs to it, though it is a node of its own."""
    net = Net("GRU", num_layers=2)
    path = exported(net, torch.zeros(STEPS, 2, SIZE), tmp_path, "script")
    names = {}
    for count in (1, 2, 3):
        made = prepare(Options(path, "host", train_last=count))
        names[count] = {v.origin for v in made.train.with_role(Role.PARAMETER)}
    assert names[1] == {"head.weight", "head.bias"}
    assert [len(names[count]) for count in (1, 2, 3)] == [2, 5, 8]


def test_frozen_recurrent_weights_need_no_gradient(tmp_path: Path) -> None:
    proto = m.model([lstm()], X, tensors(), y=[STEPS, 1, 2, HIDDEN])
    path = m.save(proto, tmp_path / "m.onnx")
    made = prepare(Options(path, "host", loss="mse", freeze=("r", "b"), fuse=False))
    assert [n for n in ops_of(made) if n not in ("dense", "lstm", "mse")] == [
        "lstm_bwd",
        "dense_bwd_w",
        "sgd",
    ]
