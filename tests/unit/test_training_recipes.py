"""Losses, optimizers, clipping, schedules and accumulation in numpy against PyTorch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import models
import numpy as np
import onnx
import pytest
import recipes
import training

from poet_mcu.errors import InputError, ModelError
from poet_mcu.ir.graph import Graph, Phase, Role
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.pipeline.options import Options, graph_options, options_from
from poet_mcu.pipeline.prepare import Prepared, prepare
from poet_mcu.pipeline.selfcheck import sample_feeds
from poet_mcu.sim.moment import Moment
from poet_mcu.sim.plain import run_plain
from poet_mcu.training.rates import lr_factor
from poet_mcu.training.recipe import Recipe
from poet_mcu.training.training import training_notes

STEPS = 20
LR = 0.05


def prepared(proto: onnx.ModelProto, folder: Path, **options: object) -> Prepared:
    return prepare(Options(models.save(proto, folder / "m.onnx"), "host", **options))


LOSS_CASES = {
    "class weights": {"class_weights": (0.5, 2.0, 1.0, 0.25)},
    "label smoothing": {"label_smoothing": 0.1},
    "all smooth": {"label_smoothing": 1.0},
    "weights and smoothing": {"class_weights": (3.0, 0.0, 1.0, 0.5), "label_smoothing": 0.2},
    "bce": {"loss": "bce"},
    "l1": {"loss": "l1"},
    "huber": {"loss": "huber"},
    "huber, small delta": {"loss": "huber", "huber_delta": 0.3},
}
OPTIMIZER_CASES = {
    "weight decay": {"weight_decay": 0.1},
    "momentum": {"optimizer": "momentum"},
    "momentum and decay": {"optimizer": "momentum", "momentum": 0.5, "weight_decay": 0.1},
    "nesterov": {"optimizer": "nesterov", "weight_decay": 0.01},
    "adam": {"optimizer": "adam"},
    "adam, all options": {
        "optimizer": "adam", "beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "weight_decay": 0.1,
    },
    "adamw": {"optimizer": "adamw"},
    "adamw, strong decay": {"optimizer": "adamw", "weight_decay": 0.5},
    "rmsprop": {"optimizer": "rmsprop"},
    "rmsprop, all options": {
        "optimizer": "rmsprop", "alpha": 0.9, "eps": 1e-4, "weight_decay": 0.1,
    },
    "clipped": {"clip_norm": 0.2},
    "clipped adam": {"clip_norm": 0.2, "optimizer": "adam"},
    "not reached clip": {"clip_norm": 1e6},
    "cosine": {"lr_schedule": "cosine", "total_steps": 25, "warmup": 4, "lr_floor": 0.1},
    "step": {"lr_schedule": "step", "lr_step": 6, "lr_gamma": 0.5, "warmup": 3},
    "accumulate": {"accumulate": 3},
    "accumulate, clip, adam": {"accumulate": 4, "clip_norm": 0.1, "optimizer": "adamw"},
    "accumulate, cosine, momentum": {
        "accumulate": 2, "optimizer": "momentum", "lr_schedule": "cosine", "total_steps": 12,
    },
}  # fmt: skip


def check(made: Prepared, forward: training.Forward, path: Path, steps: int, lr: float) -> None:
    start = training.initializers(path)
    batches, losses, weights = recipes.train_plain(made, steps, lr)
    frozen = frozenset(start) - frozenset(weights)
    expected_losses, expected = recipes.train_torch(
        forward, start, batches, lr, made.options, frozen
    )
    limit = training.ONE_STEP if steps <= made.options.accumulate else training.TWENTY_STEPS
    assert training.relative(losses, expected_losses) <= limit
    for name, array in weights.items():
        assert training.relative(array, expected[name]) <= limit, name
        assert not np.array_equal(array, start[name]), f"{name} did not move"


@pytest.mark.parametrize("steps", [1, STEPS])
@pytest.mark.parametrize("case", LOSS_CASES)
def test_losses_equal_pytorch(case: str, steps: int, tmp_path: Path) -> None:
    made = prepared(models.mlp(5), tmp_path, **LOSS_CASES[case])
    check(made, training.mlp, tmp_path / "m.onnx", steps, LR)


@pytest.mark.parametrize("steps", [1, STEPS])
@pytest.mark.parametrize("case", OPTIMIZER_CASES)
def test_updates_equal_pytorch(case: str, steps: int, tmp_path: Path) -> None:
    made = prepared(models.cnn(2), tmp_path, **OPTIMIZER_CASES[case])
    steps = max(steps, made.options.accumulate)
    lr = 0.002 if made.options.optimizer in ("adam", "adamw", "rmsprop") else LR
    check(made, training.digits, tmp_path / "m.onnx", steps, lr)


def test_the_output_may_be_the_loss(tmp_path: Path) -> None:
    made = prepared(models.mlp(1, (6, 8, 1)), tmp_path, loss="none")
    assert not made.train.with_role(Role.LABEL)
    check(made, training.mlp, tmp_path / "m.onnx", 5, LR)


def test_an_output_of_many_numbers_is_no_loss(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"m\.onnx: none: expected an output of one float"):
        prepared(models.mlp(2), tmp_path, loss="none")


def test_a_final_sigmoid_is_left_to_bce(tmp_path: Path) -> None:
    proto = models.mlp(3)
    proto.graph.node.append(models.node("Sigmoid", "y", "p", "squash"))
    proto.graph.output[0].name = "p"
    made = prepared(proto, tmp_path, loss="bce")
    assert made.notes == (
        "the final Sigmoid 'squash' is left to the loss: the output is its logits",
    )
    check(made, training.mlp, tmp_path / "m.onnx", 3, LR)
    computed = prepared(proto, tmp_path, loss="mse")
    assert [n.op for n in computed.train.nodes].count("sigmoid") == 1


def test_a_sigmoid_in_the_middle_is_computed_whatever_the_loss(tmp_path: Path) -> None:
    proto = models.mlp(3)
    proto.graph.node[1].CopyFrom(models.node("Sigmoid", "h1", "r1", "early"))
    for loss in ("bce", "mse", "cross-entropy"):
        made = prepared(proto, tmp_path, loss=loss)
        assert [n.op for n in made.train.nodes].count("sigmoid") == 1


def test_bce_of_large_logits_is_finite_and_right(tmp_path: Path) -> None:
    proto = models.mlp(2, (3, 2, 2))
    made = prepared(proto, tmp_path, loss="bce")
    feeds = sample_feeds(made.train)
    for v in made.train.with_role(Role.INPUT):
        feeds[v.id] = np.full(v.shape, 1e4, np.float32)
    values = run_plain(made.train, made.train.initial, feeds, LR)
    assert np.isfinite(values[made.train.outputs[0]])
    assert values[made.train.outputs[0]] > 100


def test_weights_must_fit_the_classes(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="--class-weights: expected 4 numbers, one a class, got 2"):
        prepared(models.mlp(2), tmp_path, class_weights=(1.0, 2.0))


def test_a_tied_weight_adds_its_gradients_before_adam(tmp_path: Path) -> None:
    shared = models.weights(4, 4)
    nodes = [
        models.node("Gemm", "x w -", "h", transB=1),
        models.node("Relu", "h", "r"),
        models.node("Gemm", "r w -", "y", transB=1),
    ]
    proto = models.model(nodes, [3, 4], {"w": shared}, y=[3, 4])
    made = prepared(proto, tmp_path, optimizer="adam", clip_norm=0.1, accumulate=2)

    def forward(x, w):
        return training.functional.relu(x @ w["w"].T) @ w["w"].T

    check(made, forward, tmp_path / "m.onnx", 4, 0.01)


def test_a_large_rate_uses_the_old_weight_with_every_optimizer(tmp_path: Path) -> None:
    for options in ({"optimizer": "momentum"}, {"clip_norm": 100.0}, {"accumulate": 2}):
        made = prepared(models.mlp(4), tmp_path, **options)
        check(made, training.mlp, tmp_path / "m.onnx", made.options.accumulate, 10.0)


def test_every_parameter_moves_exactly_once_for_an_update(tmp_path: Path) -> None:
    made = prepared(models.mlp(4), tmp_path, accumulate=3, optimizer="adam")
    state = dict(made.train.initial)
    names = training.names_of(made.train)
    homes = made.train.with_role(Role.PARAMETER, Role.STATE)
    moved = []
    for step in range(6):
        values = run_plain(
            made.train, state, sample_feeds(made.train, step), LR, Moment.of(step, 3)
        )
        moved.append([not np.array_equal(values[i], state[i]) for i in names.values()])
        state = {v.id: values[v.id] for v in homes}
    assert [all(row) for row in moved] == [False, False, True, False, False, True]
    assert [any(row) for row in moved] == [False, False, True, False, False, True]
    sums = [v for v in homes if v.name.endswith(":gradient")]
    assert len(sums) == len(names)
    assert not any(state[v.id].any() for v in sums)


@pytest.mark.parametrize("layer", ["conv1", "conv2", "fc"])
def test_freezing_a_layer_leaves_the_other_gradients_as_they_were(
    layer: str, tmp_path: Path
) -> None:
    whole = recipes.train_plain(prepared(models.cnn(2), tmp_path), 1, LR)[2]
    part = prepared(models.cnn(2), tmp_path, freeze=(f"{layer}.*",))
    left = recipes.train_plain(part, 1, LR)[2]
    assert set(whole) - set(left) == {f"{layer}.weight", f"{layer}.bias"}
    for name, array in left.items():
        assert array.tobytes() == whole[name].tobytes(), name


@pytest.mark.parametrize(
    ("count", "expected"), [(1, ["fc"]), (2, ["conv2", "fc"]), (3, ["conv1", "conv2", "fc"])]
)
def test_the_last_layers(count: int, expected: list[str], tmp_path: Path) -> None:
    made = prepared(models.cnn(2), tmp_path, train_last=count)
    names = {name.split(".")[0] for name in training.names_of(made.train)}
    assert sorted(names) == expected
    bias = prepared(models.cnn(2), tmp_path, train_last=count, train=("*.bias",))
    assert sorted(training.names_of(bias.train)) == [f"{name}.bias" for name in expected]


def test_more_last_layers_than_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--train-last: expected at most the 3 operators"):
        prepared(models.cnn(2), tmp_path, train_last=4)


def ops(graph: Graph, phase: Phase) -> list[str]:
    return [node.op for node in graph.nodes if node.phase is phase]


def test_clipped_updates_come_last_and_plain_ones_early(tmp_path: Path) -> None:
    clipped = prepared(models.mlp(2), tmp_path, clip_norm=1.0).train
    assert ops(clipped, Phase.UPDATE) == [
        *["square_sum"] * 4, "clip_factor", *["scale_gradient", "sgd"] * 4,
    ]  # fmt: skip
    summed = prepared(models.mlp(2), tmp_path, clip_norm=1.0, accumulate=2).train
    assert ops(summed, Phase.UPDATE) == [
        *["square_sum"] * 4, "clip_factor", *["scale_state", "sgd", "clear"] * 4,
    ]  # fmt: skip
    plain = prepared(models.mlp(2), tmp_path, accumulate=2).train
    assert ops(plain, Phase.UPDATE) == ["sgd", "clear"] * 4


def test_what_an_update_makes_is_read_by_updates_alone(tmp_path: Path) -> None:
    for options in ({"clip_norm": 1.0}, {"clip_norm": 1.0, "accumulate": 2}):
        graph = prepared(models.cnn(2), tmp_path, **options).train
        made = {v for n in graph.nodes if n.phase is Phase.UPDATE for v in n.outputs}
        assert made
        readers = {n.phase for n in graph.nodes if made & set(n.inputs)}
        assert readers == {Phase.UPDATE}


def test_the_evaluation_keeps_the_place_of_the_state(tmp_path: Path) -> None:
    made = prepared(models.mlp(2), tmp_path, optimizer="adam", accumulate=2)
    for graph in (made.train, made.evaluation):
        names = [v.name for v in graph.with_role(Role.STATE)]
        assert len(names) == 12
        assert names[:3] == ["fc2.weight:gradient", "fc2.weight:mean", "fc2.weight:square"]
    verify_graph(made.evaluation, training=False)


def test_statistics_of_a_batch_with_accumulation_are_warned_of(tmp_path: Path) -> None:
    made = prepared(models.mlp(2), tmp_path, optimizer="momentum", accumulate=2)
    assert not training_notes(made.train, made.options)
    # A forward node that overwrites its statistics, as batch-norm in training does.
    nodes = list(made.train.nodes)
    state = made.train.with_role(Role.STATE)[0]
    nodes[0] = replace(nodes[0], mutates=(state.id,), origin="bn1")
    graph = replace(made.train, nodes=tuple(nodes))
    (note,) = training_notes(graph, made.options)
    assert note.startswith("--accumulate 2 is not one large batch here, 'bn1' take statistics")
    assert not training_notes(graph, Recipe())


def test_a_constant_shape_is_no_weight(tmp_path: Path) -> None:
    tensors = {"w": models.weights(3, 4), "shape": np.array([2, 4], np.int64)}
    nodes = [models.node("Reshape", "x shape", "r"), models.node("Gemm", "r w -", "y", transB=1)]
    made = prepared(models.model(nodes, [2, 2, 2], tensors, y=[2, 3]), tmp_path, train=("*",))
    assert list(training.names_of(made.train)) == ["w"]
    with pytest.raises(InputError, match="--train 'shape': expected a pattern that matches"):
        prepared(models.model(nodes, [2, 2, 2], tensors, y=[2, 3]), tmp_path, train=("shape",))


def test_options_survive_json(tmp_path: Path) -> None:

    path = tmp_path / "m.onnx"
    options = Options(
        path, "host", loss="huber", huber_delta=0.5, optimizer="adamw", clip_norm=1.0, accumulate=3,
        lr_schedule="cosine", total_steps=9, warmup=2, train=("a", "b"), train_last=2, batch=4,
    )  # fmt: skip
    again = options_from(json.loads(json.dumps(graph_options(options))), path, "host")
    assert again == options
    assert "huber-delta=0.5 clip-norm=1 accumulate=3" in options.summary()


REFUSED = {
    "--loss: expected one of .* got 'hubber'; did you mean 'huber'": {"loss": "hubber"},
    "--optimizer: expected one of .* got 'adem'": {"optimizer": "adem"},
    "--lr-schedule: expected one of .* got 'cosin'": {"lr_schedule": "cosin"},
    "--class-weights: expected --loss cross-entropy beside it, got bce": {
        "loss": "bce", "class_weights": (1.0,),
    },
    "--label-smoothing: expected --loss cross-entropy": {"loss": "mse", "label_smoothing": 0.1},
    "--label-smoothing: expected a number in": {"label_smoothing": 1.5},
    "--class-weights: expected a number from 0 on, got -1": {"class_weights": (1.0, -1.0)},
    "--huber-delta: expected --loss huber beside it, got l1": {"loss": "l1", "huber_delta": 2.0},
    "--huber-delta: expected a number above 0": {"loss": "huber", "huber_delta": 0.0},
    "--momentum: expected --optimizer momentum or nesterov": {"momentum": 0.5},
    r"--beta2: expected a number in \[0, 1\), got 1": {"optimizer": "adam", "beta2": 1.0},
    "--alpha: expected --optimizer rmsprop": {"optimizer": "adam", "alpha": 0.5},
    "--eps: expected a number above 0": {"optimizer": "adam", "eps": 0.0},
    "--weight-decay: expected a number from 0 on": {"weight_decay": -0.1},
    "--clip-norm: expected a number above 0": {"clip_norm": 0.0},
    "--accumulate: expected a number from 1 on, got 0": {"accumulate": 0},
    "--warmup: expected a number from 0 on": {"warmup": -1},
    "--lr-step: expected the updates between two falls, got none": {"lr_schedule": "step"},
    "--lr-step: expected --lr-schedule step beside it, got constant": {"lr_step": 3},
    "--total-steps: expected the number of updates, got none": {"lr_schedule": "cosine"},
    "--total-steps: expected more than the 5 updates of --warmup, got 5": {
        "lr_schedule": "cosine", "total_steps": 5, "warmup": 5,
    },
    "--lr-floor: expected --lr-schedule cosine": {"lr_floor": 0.5},
    "--lr-gamma: expected a number above 0": {
        "lr_schedule": "step", "lr_step": 1, "lr_gamma": 0.0,
    },
    "--train-last: expected a number above 0": {"train_last": 0},
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_makes_no_sense_is_refused(message: str) -> None:
    with pytest.raises(InputError, match=message):
        Options(Path("m.onnx"), "host", **REFUSED[message])


SCHEDULES = {
    "constant": {},
    "warm-up": {"warmup": 7},
    "step": {"lr_schedule": "step", "lr_step": 9, "lr_gamma": 0.3},
    "step after warm-up": {"lr_schedule": "step", "lr_step": 9, "warmup": 5},
    "cosine": {"lr_schedule": "cosine", "total_steps": 50},
    "cosine to a floor": {"lr_schedule": "cosine", "total_steps": 50, "lr_floor": 0.2},
    "cosine after warm-up": {"lr_schedule": "cosine", "total_steps": 50, "warmup": 10},
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_schedules_are_pytorchs(case: str) -> None:
    recipe = Recipe(**SCHEDULES[case])
    expected = recipes.torch_rates(recipe, 0.3, 50)
    ours = [0.3 * lr_factor(recipe, update) for update in range(50)]
    assert np.abs(np.subtract(ours, expected)).max() <= 1e-9
    last = lr_factor(recipe, recipe.total_steps or 50)
    assert lr_factor(recipe, 10**6) == (last if recipe.lr_schedule != "step" else 0)
