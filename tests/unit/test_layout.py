"""Transposes that move, meet and vanish: the same values and gradients, never more work."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import models
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models import node, weights

from poet_mcu.frontend.layout import _pieces, sink_transposes
from poet_mcu.frontend.model_file import read_model
from poet_mcu.frontend.onnx_import import load_model
from poet_mcu.frontend.walk import Walk
from poet_mcu.ir.graph import Phase, Role
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.sim.plain import run_plain
from poet_mcu.training.recipe import Recipe
from poet_mcu.training.training import training_graph

#: sums over the same numbers in another order
LIMIT = 1e-5
TO_NCHW, TO_NHWC = [0, 3, 1, 2], [0, 2, 3, 1]


def both(proto, folder, trainable):
    """The graph as the model says it, and with its transposes moved."""
    walk = Walk(read_model(models.save(proto, folder / "m.onnx")), None, trainable)
    walk.run()
    assert walk.problems == []
    before = walk.graph()
    after = sink_transposes(before)
    verify_graph(after, training=False)
    return before, after


def moved(graph):
    turned = [n for n in graph.nodes if n.op == "transpose"]
    return sum(graph.values[n.outputs[0]].type.elements for n in turned)


def close(a, b):
    # A gradient that cancels (softmax over one number) keeps the rounding of its parts, about 1e-7.
    scale = max(float(np.abs(b).max()), 0.1)
    return float(np.abs(np.asarray(a, np.float64) - b).max()) / scale <= LIMIT


def step(forward, seed=0):
    """Output and gradients of one step."""
    graph = training_graph(forward, Recipe(loss="mse"))
    verify_graph(graph, training=True)
    (x,), (t,) = graph.with_role(Role.INPUT), graph.with_role(Role.LABEL)
    feeds = {v.id: weights(*v.shape, seed=seed + i, scale=1.0) for i, v in enumerate((x, t))}
    values = run_plain(graph, graph.initial, feeds, 0.1)
    found = {"output": values[graph.root(forward.outputs[0])].ravel()}
    for item in graph.nodes:
        if item.phase is Phase.UPDATE:
            value = graph.values[item.inputs[0]]
            found[value.origin] = values[graph.root(item.inputs[1])].reshape(value.shape)
    return found


def same_step(before, after):
    wanted, got = step(before), step(after)
    assert set(got) == set(wanted)
    for name, array in wanted.items():
        assert close(got[name], array), name


# --- any model ------------------------------------------------------------------------------------


@dataclass
class _Model:
    """ONNX nodes drawn one after the other; ``seen`` are earlier values by name."""

    data: st.DataObject
    shape: tuple[int, ...]
    nodes: list = field(default_factory=list)
    tensors: dict = field(default_factory=dict)
    seen: list = field(default_factory=list)
    at: str = "h"

    def emit(self, op, inputs, shape, **attrs):
        name = f"v{len(self.nodes)}"
        self.nodes.append(node(op, inputs, name, **attrs))
        self.at, self.shape = name, tuple(shape)
        self.seen.append((name, self.shape))

    def tensor(self, array):
        name = f"t{len(self.tensors)}"
        self.tensors[name] = array
        return name

    def axis(self):
        return self.data.draw(st.integers(0, len(self.shape) - 1))

    def turn(self):
        perm = self.data.draw(st.permutations(range(len(self.shape))))
        self.emit("Transpose", self.at, [self.shape[i] for i in perm], perm=perm)

    def back(self):
        """Channels last and back again, as exporters write it."""
        if len(self.shape) == 4:
            perm = self.data.draw(st.sampled_from([TO_NCHW, TO_NHWC]))
            self.emit("Transpose", self.at, [self.shape[i] for i in perm], perm=perm)

    def one(self):
        self.emit(self.data.draw(st.sampled_from(["Relu", "Tanh", "Neg"])), self.at, self.shape)

    def two(self):
        op = self.data.draw(st.sampled_from(["Add", "Mul", "Sub"]))
        rank = self.data.draw(st.integers(1, len(self.shape)))
        full = self.shape[len(self.shape) - rank :]
        shape = [n if self.data.draw(st.booleans()) else 1 for n in full]
        name = self.tensor(weights(*shape, seed=len(self.tensors)))
        self.emit(op, f"{self.at} {name}", self.shape)

    def residual(self):
        others = [name for name, shape in self.seen[:-1] if shape == self.shape]
        if others:
            self.emit("Add", f"{self.at} {self.data.draw(st.sampled_from(others))}", self.shape)

    def reduce(self):
        axis = self.axis()
        shape = [1 if i == axis else n for i, n in enumerate(self.shape)]
        self.emit("ReduceMean", self.at, shape, axes=[axis], keepdims=1)

    def softmax(self):
        self.emit("Softmax", self.at, self.shape, axis=self.axis())

    def concat(self):
        axis = self.axis()
        if math.prod(self.shape) <= 400:
            shape = [2 * n if i == axis else n for i, n in enumerate(self.shape)]
            self.emit("Concat", f"{self.at} {self.at}", shape, axis=axis)

    def part(self):
        axis = self.axis()
        if self.shape[axis] > 1:
            shape = [n - 1 if i == axis else n for i, n in enumerate(self.shape)]
            names = [self.tensor(np.asarray([v], np.int64)) for v in (1, 99, axis)]
            self.emit("Slice", f"{self.at} {' '.join(names)}", shape)

    def pad(self):
        axis = self.axis()
        pads = [0] * (2 * len(self.shape))
        pads[axis] = 1
        name = self.tensor(np.asarray(pads, np.int64))
        shape = [n + 1 if i == axis else n for i, n in enumerate(self.shape)]
        self.emit("Pad", f"{self.at} {name}", shape)

    def reshape(self):
        """Two neighbours become one, or one becomes two, or an axis of one comes or goes."""
        axis, shape = self.axis(), list(self.shape)
        kind = self.data.draw(st.sampled_from(["merge", "split", "one"]))
        if kind == "merge" and axis + 1 < len(shape) > 2:
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        elif kind == "split" and shape[axis] % 2 == 0 and len(shape) < 5:
            shape[axis : axis + 1] = [2, shape[axis] // 2]
        elif 1 in shape and len(shape) > 2:
            shape.remove(1)
        elif len(shape) < 5:
            shape.insert(axis, 1)
        name = self.tensor(np.asarray(shape, np.int64))
        self.emit("Reshape", f"{self.at} {name}", shape)


_STEPS = ["turn", "turn", "back", "back", "one", "two", "two", "residual", "reduce", "softmax",
          "concat", "part", "pad", "reshape", "reshape"]  # fmt: skip


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_model_keeps_its_values_and_gradients(tmp_path, data):
    first = (2, data.draw(st.sampled_from([1, 3])), 2, data.draw(st.sampled_from([1, 4])))
    made = _Model(data, first)
    for name in data.draw(st.lists(st.sampled_from(_STEPS), min_size=3, max_size=10)):
        getattr(made, name)()
    if data.draw(st.booleans()):  # Flatten and a matrix
        made.emit("Flatten", made.at, (made.shape[0], math.prod(made.shape[1:])), axis=1)
        w = made.tensor(weights(3, made.shape[1], seed=9))
        made.emit("Gemm", f"{made.at} {w}", (made.shape[0], 3), transB=1)
    nodes = [node("Add", "x p", "h"), *made.nodes, node("Abs", made.at, "y")]
    proto = models.model(nodes, first, {"p": weights(*first), **made.tensors})
    frozen = data.draw(st.booleans())
    before, after = both(proto, tmp_path, lambda name: name == "p" or not frozen)
    assert moved(after) <= moved(before)
    assert models.run_graph(after, np.ones(first, np.float32))[0].shape == (
        before.values[before.outputs[0]].shape
    )
    same_step(before, after)


# --- what becomes of the usual patterns -----------------------------------------------------------


def channels_last(middle, tensors, classes=3):
    """NHWC in: Transpose, Conv, Transpose, ``middle`` from a to b, Transpose, Conv, Transpose."""
    nodes = [
        node("Transpose", "x", "x1", perm=TO_NCHW),
        node("Conv", "x1 k1", "c1", pads=[1, 1, 1, 1]),
        node("Transpose", "c1", "a", perm=TO_NHWC),
        *middle,
        node("Transpose", "b", "b1", perm=TO_NCHW),
        node("Conv", "b1 k2", "c2"),
        node("Transpose", "c2", "y", perm=TO_NHWC),
    ]
    stored = {"k1": weights(4, 2, 3, 3), "k2": weights(classes, 4, 1, 1, seed=1), **tensors}
    return models.model(nodes, (2, 4, 5, 2), stored, y=(2, "h", "w", classes))


MIDDLES = {
    "activation": ([node("Relu", "a", "b")], {}),
    "bias": ([node("Add", "a w", "b")], {"w": weights(4)}),
    "scale of planes": (
        [node("ReduceMean", "a", "g", axes=[1, 2]), node("Sigmoid", "g", "s"),
         node("Mul", "a s", "b")],
        {},
    ),
    "residual": ([node("Relu", "a", "r"), node("Add", "r a", "b")], {}),
    "pads": ([node("Pad", "a pads", "b")], {"pads": np.int64([0, 1, 0, 0, 0, 0, 2, 0])}),
    "parts": (
        [node("Split", "a", "l r", axis=3), node("Concat", "r l", "b", axis=-1)], {}
    ),
    "constant of all positions": ([node("Mul", "a w", "b")], {"w": weights(4, 5, 4)}),
    "slope": ([node("PRelu", "a w", "b")], {"w": weights(1, 1, 4)}),
    "comparison": (
        [node("Greater", "a w", "m"), node("Where", "m a w", "b")], {"w": weights(4)}
    ),
    "softmax over channels": ([node("Softmax", "a", "b", axis=3)], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", MIDDLES)
def test_channels_last_patterns_leave_the_ends_alone(case, tmp_path):
    """Only the input and the output are transposed; a trained tensor of all positions stays."""
    middle, tensors = MIDDLES[case]
    proto = channels_last(middle, tensors)
    for train in (True, False):
        before, after = both(proto, tmp_path, lambda name, t=train: t or name == "k1")
        count = sum(n.op == "transpose" for n in after.nodes)
        assert count == (4 if train and case == "constant of all positions" else 2)
        assert sum(n.op == "transpose" for n in before.nodes) == 4
        same_step(before, after)


def test_flatten_before_a_frozen_matrix_costs_nothing(tmp_path):
    nodes = [
        node("Conv", "x k", "c"),
        node("Transpose", "c", "t", perm=TO_NHWC),
        node("Flatten", "t", "f"),
        node("MatMul", "f w", "y"),
    ]
    tensors = {"k": weights(4, 2, 2, 2), "w": weights(36, 3)}
    proto = models.model(nodes, (2, 2, 4, 4), tensors)
    _, trained = both(proto, tmp_path, lambda _: True)
    assert [n.op for n in trained.nodes] == ["conv2d", "transpose", "dense"]
    before, frozen = both(proto, tmp_path, lambda name: name == "k")
    assert [n.op for n in frozen.nodes] == ["conv2d", "dense"]
    same_step(before, frozen)
    # The moved matrix is no tensor of the file any more: nothing is written back under its name.
    assert [v.origin for v in frozen.with_role(Role.CONSTANT)] == [""]


def test_a_model_without_transposes_is_left_alone(tmp_path):
    before, after = both(models.cnn(2), tmp_path, lambda _: True)
    assert after is before


def test_a_transpose_that_nothing_undoes_stays_where_it_is(tmp_path):
    nodes = [node("Transpose", "x", "t", perm=[1, 0, 2]), node("Mul", "t w", "y")]
    proto = models.model(nodes, (2, 3, 4), {"w": weights(3, 2, 4)})
    before, after = both(proto, tmp_path, lambda _: True)
    assert after is before


def test_the_report_counts_them(tmp_path):
    proto = channels_last(*MIDDLES["activation"])
    found = load_model(models.save(proto, tmp_path / "m.onnx"), None, lambda _: True)
    assert "2 Transposes cancelled or moved into constants" in found.report.notes


@pytest.mark.parametrize(
    ("a", "b", "pieces"),
    [
        ((2, 6), (2, 2, 3), [([0], [0]), ([1], [1, 2])]),
        ((1, 8, 4), (8, 1, 4), [([0, 1], [0, 1]), ([2], [2])]),
        ((2, 3, 4), (24,), [([0, 1, 2], [0])]),
        ((4, 3), (2, 6), [([0, 1], [0, 1])]),
        ((5,), (5, 1), [([0], [0, 1])]),
        ((2,), (3,), None),
    ],
)
def test_pieces_of_a_reshape(a, b, pieces):
    assert _pieces(a, b) == pieces
