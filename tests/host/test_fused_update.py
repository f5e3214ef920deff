"""A gradient that ends in its update gives the bits of the two kernels one after the other."""

from __future__ import annotations

import ctypes
import itertools
import sys
from pathlib import Path

import kernel_build as kb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_kernels_bits import conv_shapes

from poet_mcu.ir.graph import TensorType
from poet_mcu.ops.fused_update import GRADIENTS, UPDATES, fused_name
from poet_mcu.ops.table import OPERATORS

ATTRS = {
    "sgd": {},
    "sgd_decay": {"weight_decay": 0.1},
    "momentum": {"momentum": 0.9, "weight_decay": 0.01, "nesterov": 1},
    "adam": {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "decoupled": 0},
    "rmsprop": {"alpha": 0.99, "eps": 1e-8, "weight_decay": 0.01},
}
STATES = {"sgd": 0, "sgd_decay": 0, "momentum": 1, "adam": 2, "rmsprop": 1}
NUMBERS = {"lr": 0.05, "bias1": 0.1, "bias2": 0.001}


def run(op, attrs, arrays, outputs, fused):
    """The arrays after the node, outputs last; scratch and surroundings are poison."""
    operator = OPERATORS[op]
    kinds = [TensorType(a.shape) for a in arrays]
    kernel = operator.kernel(kinds, outputs, attrs)
    scratch = operator.workspace_bytes(kinds, outputs, attrs)
    guarded = [np.full(a.size + 32, 7.0, np.float32) for a in (*arrays, *outputs_of(outputs))]
    for raw, a in zip(guarded, arrays, strict=False):
        raw[16 : 16 + a.size] = a.ravel()
    band = kb.guarded(scratch // 4)
    args = []
    for role in kernel.args:
        if role in NUMBERS:
            args.append(NUMBERS[role])
        elif role == "ws":
            args.append(band[16:])
        elif role == "null":
            args.append(None)
        else:
            number = int(role.removeprefix("out").removeprefix("in"))
            args.append(guarded[number + (len(arrays) if role.startswith("out") else 0)][16:])
    kb.call(kb.library(kb.Build(fused)), kernel.function, kb.descriptor(kernel), *args)
    assert np.isnan(band[:16]).all()
    assert np.isnan(band[16 + scratch // 4 :]).all()
    for raw in guarded:
        assert (raw[:16] == 7).all()
        assert (raw[-16:] == 7).all()
    return [raw[16:-16].copy() for raw in guarded]


def outputs_of(kinds):
    return [np.zeros(kind.shape, np.float32) for kind in kinds]


def compare(gradient, update, attrs, inputs, seed, fused):
    """Both ways from the same start; the joined operator's reference agrees as well."""
    rng = np.random.default_rng(seed)
    kinds = [TensorType(a.shape) for a in inputs]
    (made,) = OPERATORS[gradient].infer(kinds, attrs)
    w = rng.standard_normal(made.shape, np.float32)
    state = [rng.random(made.shape, np.float32) for _ in range(STATES[update])]
    *_, dw = run(gradient, attrs, inputs, [made], fused)
    both = ATTRS[update]
    apart = run(update, both, [w, dw.reshape(made.shape), *state], [], fused)
    joined = run(fused_name(gradient, update), {**attrs, **both}, [*inputs, w, *state], [], fused)
    changed = [apart[0], *apart[2:]]
    for got, want in zip(joined[len(inputs) :], changed, strict=True):
        assert kb.same_bits(got, want), (gradient, update)
    reference = OPERATORS[fused_name(gradient, update)].reference(
        [*inputs, w, *state], {**attrs, **both, "lr": NUMBERS["lr"], "updates": 0}
    )
    for got, want in zip(joined[len(inputs) :], reference, strict=True):
        # float32 sums of up to some hundred terms in another order; Adam divides by a root
        assert kb.relative(got, np.asarray(want).ravel()) < 1e-4


def conv_inputs(v, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((v["n"], v["c"], v["h"], v["w"]), np.float32)
    dy = rng.standard_normal((v["n"], v["m"], v["oh"], v["ow"]), np.float32)
    attrs = {
        "pads": (v["pad_top"], v["pad_left"], 0, 0),
        "strides": (v["stride_h"], v["stride_w"]),
        "dilations": (v["dilation_h"], v["dilation_w"]),
        "group": v["groups"],
        "x_shape": x.shape,
        "w_shape": (v["m"], v["c"] // v["groups"], v["kh"], v["kw"]),
    }
    return [x, dy], attrs


@pytest.mark.parametrize("fused", [0, 1])
@settings(max_examples=50, deadline=None, derandomize=True)
@given(v=conv_shapes(), seed=st.integers(0, 99), update=st.sampled_from(UPDATES))
def test_convolutions_of_any_shape(fused, v, seed, update):
    inputs, attrs = conv_inputs(v, seed)
    compare("conv2d_bwd_w", update, attrs, inputs, seed, fused)


#: n, c, size, m, k, stride, groups: more than one band of each kind of kernel
LAYERS = {
    "three by three": (2, 16, 6, 10, 3, 1, 1),
    "image input": (2, 3, 9, 30, 3, 1, 1),
    "stride 2": (1, 5, 9, 23, 3, 2, 1),
    "pointwise": (2, 40, 5, 37, 1, 1, 1),
    "depthwise": (2, 70, 5, 70, 3, 1, 70),
    "depthwise stride 2": (2, 70, 6, 70, 3, 2, 70),
    "groups": (2, 24, 5, 36, 3, 1, 6),
    "five by five": (1, 4, 8, 9, 5, 1, 1),
}


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_of_many_bands(layer, update):
    n, c, size, m, k, stride, groups = LAYERS[layer]
    pad = k // 2
    out = (size + 2 * pad - k) // stride + 1
    v = {"n": n, "c": c, "h": size, "w": size, "m": m, "oh": out, "ow": out, "kh": k, "kw": k}
    v |= {"stride_h": stride, "stride_w": stride, "pad_top": pad, "pad_left": pad}
    v |= {"dilation_h": 1, "dilation_w": 1, "groups": groups}
    inputs, attrs = conv_inputs(v, 3)
    kernel = OPERATORS[f"conv2d_bwd_w_{update}"].kernel(
        [TensorType(a.shape) for a in inputs] + [TensorType(attrs["w_shape"])] * 3,
        [],
        {**attrs, **ATTRS[update]},
    )
    fields = dict(kernel.fields)
    assert fields["band_rows"] < fields["rows"]
    compare("conv2d_bwd_w", update, attrs, inputs, 3, 1)


@pytest.mark.parametrize(("by_output", "update"), [*itertools.product((0, 1), UPDATES)])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(n=st.integers(1, 5), k=st.integers(1, 90), m=st.integers(1, 90), fused=st.booleans())
def test_dense(by_output, update, n, k, m, fused):
    rng = np.random.default_rng(n * k * m)
    inputs = [rng.standard_normal(shape, np.float32) for shape in ((n, k), (n, m))]
    attrs = {"w_rows_are_outputs": by_output}
    compare("dense_bwd_w", update, attrs, inputs, k, int(fused))


@pytest.mark.parametrize("update", UPDATES)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(n=st.integers(1, 3), m=st.integers(1, 600), plane=st.integers(1, 9))
def test_bias(update, n, m, plane):
    dy = np.random.default_rng(m).standard_normal((n, m, plane), np.float32)
    compare("channel_sum", update, {}, [dy], m, 1)


def test_subnormals_and_specials_of_one_sample():
    """The joined outer product rounds the product before the update as the two kernels do."""
    special = [0.0, -0.0, 1e-45, -1e-38, 1e-30, np.inf, 3e38, 1.5]
    x = np.asarray([special], np.float32)
    dy = np.asarray([[*special, -2.0]], np.float32)
    lib = kb.library(kb.Build(1))
    dw, w = kb.guarded(72), np.ones(72, np.float32)
    shape = (ctypes.c_int32 * 4)(1, 8, 9, 1)
    kb.call(lib, "poet_dense_bwd_w_f32", shape, x, dy, dw)
    kb.call(lib, "poet_sgd_f32", (ctypes.c_int32 * 1)(72), dw, 0.5, w)
    joined = np.ones(72, np.float32)
    kernel = OPERATORS["dense_bwd_w_sgd"].kernel(
        [TensorType((1, 8)), TensorType((1, 9)), TensorType((9, 8))], [], {"w_rows_are_outputs": 1}
    )
    kb.call(lib, kernel.function, kb.descriptor(kernel), x, dy, None, 0.5, joined)
    assert kb.same_bits(joined, w)
    assert np.isnan(joined).any()


def test_every_pair_is_in_the_table():
    assert all(fused_name(g, u) in OPERATORS for g in GRADIENTS for u in UPDATES)
    assert fused_name("conv2d_bwd_x", "sgd") == ""
