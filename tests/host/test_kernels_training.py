"""Losses, optimizers, clipping, rates in C: PyTorch's numbers, numpy's bits, all builds' bits."""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from pathlib import Path

import kernel_build as kb
import numpy as np
import pytest
import recipes
import torch

from poet_mcu.ir.graph import DType, TensorType
from poet_mcu.ops.table import OPERATORS
from poet_mcu.ops.update import bias_correction
from poet_mcu.training.rates import lr_factor
from poet_mcu.training.recipe import Recipe
from poet_mcu.training.updates import RULES

MODES = [0, 1]
COUNT = 67
TOLERANCE = 1e-5


def run(lib, op, inputs, attrs, step=None):
    """Outputs of an operator's kernel, and its inputs as it left them."""
    operator = OPERATORS[op]
    types = [TensorType(a.shape, DType.I32 if a.dtype == np.int32 else DType.F32) for a in inputs]
    outputs = [np.full(t.shape, np.nan, np.float32) for t in operator.infer(types, attrs)]
    kernel = operator.kernel(types, [TensorType(o.shape) for o in outputs], attrs)
    named = {f"in{i}": a.copy() for i, a in enumerate(inputs)} | (step or {})
    named |= {f"out{i}": a for i, a in enumerate(outputs)} | {"null": None}
    shape = (ctypes.byref(kb.descriptor(kernel)),) if kernel.descriptor else ()
    kb.call(lib, kernel.function, *shape, *(named[a] for a in kernel.args))
    return outputs, [named[f"in{i}"] for i in range(len(inputs))]


def elements(seed, scale=1.0):
    return (scale * np.random.default_rng(seed).standard_normal(COUNT)).astype(np.float32)


LOSSES = {
    "bce": {"loss": "bce"},
    "l1": {"loss": "l1"},
    "huber": {"loss": "huber", "huber_delta": 0.7},
    "mse": {"loss": "mse"},
}


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 2000.0])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fused", MODES)
def test_losses_are_torchs(fused, loss, scale):
    y, t = elements(1, scale), elements(2, scale)
    y[5] = t[5]
    if loss == "bce":
        t = (0.5 + 0.5 * np.tanh(t.astype(np.float64) / 2)).astype(np.float32)
        t[:4] = [0, 1, 0, 1]
    recipe = Recipe(**LOSSES[loss])
    ty = torch.tensor(y, dtype=torch.float64, requires_grad=True)
    want = recipes.torch_loss(recipe, ty, torch.tensor(t, dtype=torch.float64))
    want.backward()
    attrs = {"delta": recipe.huber_delta}
    (got, dy), _ = run(kb.library(kb.Build(fused)), loss, (y, t), attrs)
    assert abs(float(got) - want.item()) <= TOLERANCE * want.item()
    assert kb.relative(dy, ty.grad.numpy()) <= TOLERANCE


def test_bce_of_confident_logits_keeps_its_digits():
    """ln(1 + e) of a tiny e: a sum rounded to 1 would lose it all."""
    y, t = np.float32([30, -30, 20, 12]), np.float32([1, 0, 1, 1])
    want = recipes.torch_loss(
        Recipe(loss="bce"), torch.tensor(y).double(), torch.tensor(t).double()
    )
    for fused in MODES:
        (got, _), _ = run(kb.library(kb.Build(fused)), "bce", (y, t), {})
        assert float(got) == pytest.approx(want.item(), rel=1e-6)


@pytest.mark.parametrize("loss", ["bce", "l1", "huber"])
def test_losses_edges(loss):
    lib, attrs = kb.library(kb.Build()), {"delta": 1.0}
    for bad in (np.nan, np.inf, -np.inf):
        y, t = elements(1), np.zeros(COUNT, np.float32)
        y[3] = bad
        (value, dy), _ = run(lib, loss, (y, t), attrs)
        assert not np.isfinite(value) or (loss == "bce" and bad == -np.inf)
        assert np.isfinite(np.delete(dy, 3)).all()
        assert np.isnan(dy[3]) == np.isnan(bad)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fused", MODES)
def test_weighted_cross_entropy_is_torchs(fused, weighted, smoothing):
    rng = np.random.default_rng(3)
    z = (4 * rng.standard_normal((9, 7))).astype(np.float32)
    labels = rng.integers(0, 7, 9).astype(np.int32)
    weights = rng.random(7, np.float32) if weighted else np.ones(7, np.float32)
    tz = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    want = torch.nn.functional.cross_entropy(
        tz, torch.tensor(labels).long(), torch.tensor(weights).double(), label_smoothing=smoothing
    )
    want.backward()
    attrs = {"smoothing": smoothing}
    (loss, dz), _ = run(kb.library(kb.Build(fused)), "weighted_xent", (z, labels, weights), attrs)
    assert float(loss) == pytest.approx(want.item(), rel=TOLERANCE)
    assert kb.relative(dz, tz.grad.numpy()) <= TOLERANCE


@pytest.mark.parametrize("label", [-1, 7, 2**31 - 1, -(2**31)])
def test_weighted_label_out_of_range_is_nan(label):
    z, labels = np.ones((3, 7), np.float32), np.int32([1, label, 2])
    weights = np.ones(7, np.float32)
    inputs = (z, labels, weights)
    (loss, dz), _ = run(kb.library(kb.Build()), "weighted_xent", inputs, {"smoothing": 0.1})
    assert np.isnan(loss)
    assert np.isnan(dz).all()


def test_losses_run_in_place():
    lib = kb.library(kb.Build())
    y, t = elements(1), elements(2)
    for loss, tail in (("bce", ()), ("l1", ()), ("huber", (1.0,))):
        (want, dy), _ = run(lib, loss, (y, t), {"delta": 1.0})
        kind = type("S", (ctypes.Structure,), {
            "_fields_": [("n", ctypes.c_int32), ("d", ctypes.c_float)]
        })  # fmt: skip
        over, value = y.copy(), np.zeros(1, np.float32)
        kb.call(lib, f"poet_{loss}_f32", ctypes.byref(kind(COUNT, *tail)), over, t, value, over)
        assert value[0] == want
        assert kb.same_bits(over, dy)


UPDATES = {
    "sgd": Recipe(),
    "decay": Recipe(weight_decay=0.1),
    "momentum": Recipe(optimizer="momentum", weight_decay=0.05),
    "nesterov": Recipe(optimizer="nesterov"),
    "adam": Recipe(optimizer="adam", weight_decay=0.05),
    "adamw": Recipe(optimizer="adamw"),
    "rmsprop": Recipe(optimizer="rmsprop", weight_decay=0.05),
}


def steps_of(lib, recipe, gradients, lr=0.01):
    """(weights by the kernel, weights by numpy) after updates with these gradients."""
    op, names, attrs = RULES[recipe.optimizer](recipe)
    kernel = [elements(0), *(np.zeros(COUNT, np.float32) for _ in names)]
    numpy = [a.copy() for a in kernel]
    for n, g in enumerate(gradients):
        step = {"lr": lr, "bias1": float(bias_correction(1 - recipe.beta1, n + 1))}
        step["bias2"] = float(bias_correction(1 - recipe.beta2, n + 1))
        _, left = run(lib, op, (kernel[0], g, *kernel[1:]), attrs, step)
        kernel = [left[0], *left[2:]]
        numpy = OPERATORS[op].reference(
            (numpy[0], g, *numpy[1:]), {**attrs, "lr": lr, "updates": n}
        )
    return kernel, numpy


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("fused", MODES)
def test_updates_are_torchs(fused, name, count):
    recipe = UPDATES[name]
    gradients = [elements(i + 1, 10.0 ** (i % 5 - 3)) for i in range(count)]
    for g in gradients:
        g[7] = 0
    weight = torch.tensor(elements(0), requires_grad=True)
    optimizer = recipes.torch_optimizer(recipe, [weight], 0.01)
    for g in gradients:
        weight.grad = torch.tensor(g)
        optimizer.step()
    got, _ = steps_of(kb.library(kb.Build(fused)), recipe, gradients)
    limit = 1e-5 if count == 1 else 1e-4
    moved = weight.detach().numpy() - elements(0)
    assert kb.relative(got[0], weight.detach().numpy()) <= limit
    assert kb.relative(got[0] - elements(0), moved) <= 10 * limit


@pytest.mark.parametrize("name", UPDATES)
def test_updates_without_fma_are_numpy_to_the_bit(name):
    gradients = [elements(i + 1, 10.0 ** (i % 5 - 3)) for i in range(5)]
    got, want = steps_of(kb.library(kb.Build(0)), UPDATES[name], gradients)
    for ours, numpys in zip(got, want, strict=True):
        assert kb.same_bits(ours, numpys)


BUILDS = [
    kb.Build(fused, level, compiler)
    for fused in MODES
    for level in ("-O0", "-O3")
    for compiler in ("gcc", "clang")
]


def fingerprint(lib):
    gradients = [elements(i + 1) for i in range(3)]
    parts = [a for recipe in UPDATES.values() for a in steps_of(lib, recipe, gradients)[0]]
    y, t = elements(1, 3.0), elements(2)
    for loss in ("bce", "l1", "huber"):
        parts += run(lib, loss, (y, t), {"delta": 1.0})[0]
    labels, weights = np.int32([0, 1, 2]), np.float32([1, 2, 0.5])
    rows = (y[:9].reshape(3, 3), labels, weights)
    parts += run(lib, "weighted_xent", rows, {"smoothing": 0.1})[0]
    for op, inputs in (("square_sum", (y, t[:1].reshape(()))), ("clip_factor", (t[0] ** 2,))):
        arrays = tuple(np.asarray(a, np.float32) for a in inputs)
        parts += run(lib, op, arrays, {"most": 0.3})[0]
    parts += run(lib, "accumulate", (y, t), {"scale": 1 / 3})[1]
    return np.concatenate([np.ravel(p) for p in parts])


@pytest.mark.parametrize("fused", MODES)
def test_compilers_and_levels_agree(fused):
    prints = [fingerprint(kb.library(b)) for b in BUILDS if b.fused == fused]
    assert all(kb.same_bits(p, prints[0]) for p in prints)
    assert np.isfinite(prints[0]).all()


@pytest.mark.parametrize("scale", [1e-6, 0.1, 1e3])
@pytest.mark.parametrize("fused", MODES)
def test_clipping_is_torchs(fused, scale):
    lib = kb.library(kb.Build(fused))
    parts = [elements(i, scale) for i in range(3)]
    total = None
    for g in parts:
        inputs = (g,) if total is None else (g, total)
        ((total,), _) = run(lib, "square_sum", inputs, {})
    ((factor,), _) = run(lib, "clip_factor", (total,), {"most": 2.0})
    tensors = [torch.zeros(COUNT, requires_grad=True) for _ in parts]
    for tensor, g in zip(tensors, parts, strict=True):
        tensor.grad = torch.tensor(g)
    torch.nn.utils.clip_grad_norm_(tensors, 2.0)
    for tensor, g in zip(tensors, parts, strict=True):
        ((scaled,), _) = run(lib, "scale_gradient", (g, factor), {})
        assert kb.relative(scaled, tensor.grad.numpy()) <= 1e-6
        _, (state, _) = run(lib, "scale_state", (g, factor), {})
        assert kb.same_bits(state, scaled)


def test_clipping_of_what_is_not_finite():
    lib = kb.library(kb.Build())
    for total, want in ((np.nan, np.nan), (np.inf, 0.0), (0.0, 1.0)):
        (factor,), _ = run(lib, "clip_factor", (np.asarray(total, np.float32),), {"most": 1.0})
        np.testing.assert_equal(float(factor), want)


def test_a_sum_of_gradients_and_its_end():
    lib, total = kb.library(kb.Build()), np.zeros(COUNT, np.float32)
    parts = [elements(i) for i in range(3)]
    for g in parts:
        _, (total, _) = run(lib, "accumulate", (total, g), {"scale": 1 / 3})
    assert kb.relative(total, np.mean(np.float64(parts), axis=0)) <= 1e-6
    _, (total,) = run(lib, "clear", (total,), {})
    assert not total.any()


ROOT_TEST = """
#include <stdint.h>
#include <stdio.h>
#include <math.h>
#include "root.h"
int main(void)
{
    uint64_t bad = 0;
    for (uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += %d) {
        const float x = poet_float_of((uint32_t)bits);
        const float ours = poet_root_by_integers(x);
        const float truth = sqrtf(x);
        bad += (truth != truth) ? (ours == ours) : (poet_bits_of(ours) != poet_bits_of(truth));
        bad += (truth == truth) && (poet_bits_of(poet_root(x)) != poet_bits_of(truth));
    }
    printf("%%lu\\n", (unsigned long)bad);
    return 0;
}
"""


@pytest.mark.parametrize("stride", [997, pytest.param(1, marks=pytest.mark.slow)])
def test_the_integer_root_rounds_as_ieee_asks(stride, tmp_path):
    source, program = tmp_path / "root.c", tmp_path / "root"
    source.write_text(ROOT_TEST % stride)
    kernels = kb.ROOT / "firmware" / "kernels"
    command = ["gcc", "-std=c11", "-O2", f"-I{kernels}", str(source), "-lm", "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run([str(program)], check=True, capture_output=True, text=True)
    assert done.stdout == "0\n"


# ---- rates -----------------------------------------------------------------------------------


class Training(ctypes.Structure):
    """poet_training of poet/rates.h."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("accumulate", "lr_kind", "warmup", "period")),
        *((name, ctypes.c_float) for name in ("gamma", "floor", "complement1", "complement2")),
    )


@cache
def rates(build: kb.Build) -> ctypes.CDLL:
    path = Path(kb._OUT.name) / f"rates{hash(build)}.so"
    source = kb.ROOT / "firmware" / "train" / "rates.c"
    command = [build.compiler, *build.flags(), *kb.WARNINGS, "-fPIC", "-shared", "-o", str(path)]
    subprocess.run([*command, str(source), "-lm"], check=True)
    lib = ctypes.CDLL(str(path))
    lib.poet_lr_factor.argtypes = (ctypes.POINTER(Training), ctypes.c_uint32)
    lib.poet_lr_factor.restype = ctypes.c_float
    lib.poet_bias_correction.argtypes = (ctypes.c_float, ctypes.c_uint32)
    lib.poet_bias_correction.restype = ctypes.c_float
    return lib


def factors(build: kb.Build, recipe: Recipe, updates) -> list[float]:
    length = (recipe.total_steps or 0) - recipe.warmup
    period = recipe.lr_step if recipe.lr_schedule == "step" else length
    kind = ("constant", "step", "cosine").index(recipe.lr_schedule)
    given = Training(
        1, kind, recipe.warmup, max(period, 0), recipe.lr_gamma, recipe.lr_floor, 0.1, 0.001
    )
    return [rates(build).poet_lr_factor(ctypes.byref(given), n) for n in updates]


SCHEDULES = {
    "constant": Recipe(),
    "warm-up": Recipe(warmup=11),
    "step": Recipe(lr_schedule="step", lr_step=7, lr_gamma=0.7, warmup=3),
    "cosine": Recipe(lr_schedule="cosine", total_steps=100),
    "cosine and warm-up": Recipe(lr_schedule="cosine", total_steps=97, warmup=10, lr_floor=0.05),
}


@pytest.mark.parametrize("case", SCHEDULES)
@pytest.mark.parametrize("fused", MODES)
def test_rates_are_torchs(fused, case):
    recipe = SCHEDULES[case]
    got = factors(kb.Build(fused), recipe, range(97))
    assert np.abs(np.subtract(got, recipes.torch_rates(recipe, 1.0, 97))).max() <= 1e-6
    later = [0, 1, 96, 97, 98, 100, 101, 5000, 2**32 - 2]
    want = [lr_factor(recipe, n) for n in later]
    assert np.abs(np.subtract(factors(kb.Build(fused), recipe, later), want)).max() <= 1e-6
    assert factors(kb.Build(fused), recipe, [0])[0] > 0


def test_a_long_cosine_is_right_to_its_end():
    recipe = Recipe(lr_schedule="cosine", total_steps=1_000_000)
    points = [0, 1, 1000, 499_999, 500_000, 500_001, 999_000, 999_998, 999_999, 1_000_000]
    got = factors(kb.Build(0), recipe, points)
    for n, factor in zip(points, got, strict=True):
        exact = np.cos(np.pi / 2 * n / 1_000_000) ** 2 if n < 1_000_000 else 0.0
        assert factor == pytest.approx(exact, rel=1e-6, abs=0)


@pytest.mark.parametrize("fused", MODES)
def test_rates_have_the_same_bits_in_every_build(fused):
    builds = [b for b in BUILDS if b.fused == fused]
    for recipe in SCHEDULES.values():
        found = [factors(build, recipe, range(120)) for build in builds]
        assert all(f == found[0] for f in found)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999])
def test_bias_correction(beta):
    complement = np.float32(1 - beta)
    exact = 1 - np.float64(complement)
    for n in (1, 2, 3, 7, 10, 100, 999, 1000, 123_456, 2**32 - 1):
        got = rates(kb.Build(0)).poet_bias_correction(float(complement), n)
        want = -np.expm1(n * np.log1p(-np.float64(complement))) if exact else 1.0
        assert got == pytest.approx(want, rel=1e-6)
        assert np.float32(got) == bias_correction(1 - beta, n)
        assert got == rates(kb.Build(1)).poet_bias_correction(float(complement), n)
