"""scikit-learn's multilayer perceptrons by skl2onnx: forward, one training step, and back."""

from __future__ import annotations

import warnings

import eco
import models
import numpy as np
import onnx
import onnxruntime
import pytest
from skl2onnx import to_onnx
from sklearn.base import clone
from sklearn.neural_network import MLPClassifier, MLPRegressor

from poet_mcu.errors import ModelError
from poet_mcu.frontend.export import save_with_weights
from poet_mcu.frontend.onnx_import import check_model, load_model
from poet_mcu.training.recipe import Recipe
from poet_mcu.training.training import training_graph

#: float32 on both sides, sums in another order
LIMIT = 1e-5
_X = models.weights(eco.BATCH, 5, seed=1, scale=1.0)
#: plain gradient descent on one batch, as the firmware does it
_PLAIN = {
    "solver": "sgd",
    "learning_rate_init": eco.LR,
    "momentum": 0.0,
    "alpha": 0.0,
    "batch_size": eco.BATCH,
    "random_state": 0,
}
_CLASSES = np.asarray([2, 0, 1])
_SIDES = np.asarray([1, 0, 1])
_NUMBERS = models.weights(eco.BATCH, 1, seed=2)
_PAIRS = models.weights(eco.BATCH, 2, seed=3)


def classifier(layers, activation):
    return MLPClassifier(layers, activation=activation, **_PLAIN)


def regressor(layers, activation):
    return MLPRegressor(hidden_layer_sizes=layers, activation=activation, **_PLAIN)


#: name -> model, targets, loss, factor of the rate. scikit-learn halves the squared error and
#: adds it up over outputs, PyTorch and we take the mean: the rate makes up for it.
CASES = {
    "three classes": (classifier((8, 6), "relu"), _CLASSES, "cross-entropy", 1.0),
    "two classes": (classifier((8,), "logistic"), _SIDES, "bce", 1.0),
    "one number": (regressor((8,), "tanh"), _NUMBERS, "mse", 0.5),
    "two numbers": (regressor((7,), "identity"), _PAIRS, "mse", 1.0),
}


def fitted(name):
    """A fresh model after one step, so that it is there to be exported."""
    model, targets, *_ = CASES[name]
    model = clone(model)
    step(model, targets)
    return model


def step(model, targets):
    flat = targets.ravel() if targets.ndim == 2 and targets.shape[1] == 1 else targets
    more = {"classes": np.unique(targets)} if isinstance(model, MLPClassifier) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.partial_fit(_X, flat, **more)


def exported(model, folder, zipmap=True):
    options = None if isinstance(model, MLPRegressor) else {id(model): {"zipmap": zipmap}}
    return models.save(to_onnx(model, _X[:1], options=options), folder / "mlp.onnx")


def truth(model):
    if isinstance(model, MLPRegressor):
        return model.predict(_X)
    return model.predict_proba(_X)


def load(path, loss):
    return load_model(path, eco.BATCH, lambda _: True, fuse_sigmoid=loss == "bce")


@pytest.mark.parametrize("zipmap", [True, False], ids=["zipmap", "tensor"])
@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_scikit_learn(name, zipmap, tmp_path):
    model = fitted(name)
    path = exported(model, tmp_path, zipmap)
    assert check_model(path) == []
    found = load_model(path, eco.BATCH, lambda _: True)
    wanted = truth(model)
    wanted = wanted[:, 1] if name == "two classes" else wanted
    assert eco.relative(eco.forward(found, _X), wanted) <= LIMIT


@pytest.mark.parametrize("name", CASES)
def test_one_step_is_that_of_scikit_learn(name, tmp_path):
    model, (_, targets, loss, factor) = fitted(name), CASES[name]
    before = [a.copy() for a in (*model.coefs_, *model.intercepts_)]
    found = load(exported(model, tmp_path), loss)
    mine = eco.starts(found)
    step(model, targets)
    after = [*model.coefs_, *model.intercepts_]
    labels = targets[:, None] if loss == "bce" else targets
    _, trained = eco.one_step(found, _X, labels, loss, eco.LR * factor)
    pairs = eco.partners(mine, {str(i): np.float32(a) for i, a in enumerate(before)})
    assert len(pairs) == len(before) == len(mine)
    for i, (first, wanted) in enumerate(zip(before, after, strict=True)):
        other, way = pairs[str(i)]
        change = eco.turned_like(np.asarray(wanted - first), mine[other].shape)[way]
        assert np.abs(change).max() > 1e-4
        got = trained[other] - mine[other]
        # The change is small beside the weight, whose rounding it carries.
        assert eco.relative(got, change) <= 1e-4, i
        assert eco.relative(trained[other], mine[other] + change) <= LIMIT, i


def test_the_trained_file_still_gives_labels(tmp_path):
    """All outputs stay in the file that is written back; labels follow the new weights."""
    model = fitted("three classes")
    path = exported(model, tmp_path)
    found = load(path, "cross-entropy")
    _, trained = eco.one_step(found, _X, _CLASSES, "cross-entropy", 5.0)
    save_with_weights(path, trained, tmp_path / "trained.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "trained.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx")
    labels, probabilities = session.run(None, {"X": _X})
    y = eco.forward(load(tmp_path / "trained.onnx", "cross-entropy"), _X)
    assert labels.tolist() == y.argmax(1).tolist()
    rows = np.asarray([[row[c] for c in (0, 1, 2)] for row in probabilities])
    assert eco.relative(y, rows) <= LIMIT


def test_what_is_left_out_is_said(tmp_path):
    notes = load(exported(fitted("three classes"), tmp_path), "cross-entropy").report.notes
    assert notes[0] == (
        "the output 'output_label' is left out: 'out_activations_result' is trained"
    )
    notes = load(exported(fitted("two classes"), tmp_path, zipmap=False), "bce").report.notes
    assert notes[:2] == (
        "the output 'label' is left out: 'probabilities' is trained",
        (
            "'probabilities' holds two columns that add up to 1: 'out_activations_result', "
            "the second, is the output; train it with --loss bce"
        ),
    )


def test_two_classes_by_cross_entropy_are_refused(tmp_path):
    found = load(exported(fitted("two classes"), tmp_path), "cross-entropy")
    with pytest.raises(ModelError, match="expected logits of two or more classes, got one; "):
        training_graph(found.graph, Recipe(), activation=found.activation)
