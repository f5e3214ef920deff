"""The kernels agree with PyTorch and with central differences; edges follow poet/kernels.h."""

from __future__ import annotations

import ctypes

import kernel_build as kb
import numpy as np
import pytest
import torch
from test_kernels_bits import REAL_LAYERS, conv_arrays, conv_calls
from torch.nn import functional

TOLERANCE = 1e-5
MODES = [0, 1]


def layer_of(*values):
    return dict(zip(kb.CONV.split(), values, strict=True))


UNUSUAL = {
    "strided, dilated, grouped": layer_of(3, 6, 11, 9, 10, 4, 7, 3, 2, 2, 1, 1, 2, 2, 3, 2),
    "kernel larger than input": layer_of(1, 2, 2, 2, 5, 2, 1, 4, 5, 1, 1, 3, 0, 1, 1, 1),
}
LAYERS = REAL_LAYERS | UNUSUAL


def after(v, axis, before):
    """Padding behind the last input of an axis, negative when inputs are left over."""
    reach = (v[f"o{axis}"] - 1) * v[f"stride_{axis}"] + v[f"dilation_{axis}"] * (v[f"k{axis}"] - 1)
    return reach + 1 - before - v[axis]


def torch_conv(v, arrays):
    x, w, b, dy = arrays
    cg = v["c"] // v["groups"]
    tx = torch.from_numpy(x).view(v["n"], v["c"], v["h"], v["w"]).double().requires_grad_()
    tw = torch.from_numpy(w).view(v["m"], cg, v["kh"], v["kw"]).double().requires_grad_()
    tb = torch.from_numpy(b).double().requires_grad_()
    top, left = v["pad_top"], v["pad_left"]
    padded = functional.pad(tx, (left, after(v, "w", left), top, after(v, "h", top)))
    stride, dilation = (v["stride_h"], v["stride_w"]), (v["dilation_h"], v["dilation_w"])
    y = functional.conv2d(padded, tw, tb, stride, 0, dilation, v["groups"])
    y.backward(torch.from_numpy(dy).view_as(y).double())
    return [t.detach().numpy().ravel() for t in (y, tx.grad, tw.grad, tb.grad)]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("fused", MODES)
def test_convolution_is_torch_conv2d(fused, layer):
    lib, v = kb.library(kb.Build(fused)), LAYERS[layer]
    arrays = conv_arrays(v, 1)
    want = torch_conv(v, arrays)
    calls = conv_calls(*arrays)
    for (name, inputs, size), expected in zip(calls, want, strict=False):
        out = np.full(size, np.nan, np.float32)
        kb.call(lib, f"poet_{name}_f32", kb.shape_of(kb.CONV, v), *inputs, out)
        assert kb.relative(out, expected) < TOLERANCE, name
    db = np.full(v["m"], np.nan, np.float32)
    kb.call(
        lib,
        "poet_channel_sum_f32",
        (ctypes.c_int32 * 3)(v["n"], v["m"], v["oh"] * v["ow"]),
        arrays[3],
        db,
    )
    assert kb.relative(db, want[3]) < TOLERANCE


@pytest.mark.parametrize("by_output", [0, 1])
@pytest.mark.parametrize("fused", MODES)
def test_dense_is_torch_linear(fused, by_output):
    lib, rng = kb.library(kb.Build(fused)), np.random.default_rng(3)
    n, k, m = 7, 65, 11
    x, w, dy = (rng.standard_normal(s, np.float32) for s in ((n, k), (m, k), (n, m)))
    b = rng.standard_normal(m, np.float32)
    tx, tw = (torch.from_numpy(a).double().requires_grad_() for a in (x, w))
    ty = functional.linear(tx, tw, torch.from_numpy(b).double())
    ty.backward(torch.from_numpy(dy).double())
    shape = (ctypes.c_int32 * 4)(n, k, m, by_output)
    stored = w if by_output else np.ascontiguousarray(w.T)
    y, dx, dw = np.zeros((n, m), np.float32), np.zeros_like(x), np.zeros_like(stored)
    kb.call(lib, "poet_dense_fwd_f32", shape, x, stored, b, y)
    kb.call(lib, "poet_dense_bwd_x_f32", shape, dy, stored, dx)
    kb.call(lib, "poet_dense_bwd_w_f32", shape, x, dy, dw)
    assert kb.relative(y, ty.detach().numpy()) < TOLERANCE
    assert kb.relative(dx, tx.grad.numpy()) < TOLERANCE
    assert kb.relative(dw if by_output else dw.T, tw.grad.numpy()) < TOLERANCE


def run_pool(x, kernel, stride, pad, dy):
    lib = kb.library(kb.Build())
    planes, h, w = x.shape
    out = [(size + 2 * pad - kernel) // stride + 1 for size in (h, w)]
    v = {"planes": planes, "h": h, "w": w, "oh": out[0], "ow": out[1], "kh": kernel}
    v |= {"kw": kernel, "stride_h": stride, "stride_w": stride, "pad_top": pad, "pad_left": pad}
    shape = kb.shape_of(kb.POOL, v | {"dilation_h": 1, "dilation_w": 1})
    y, where = np.zeros((planes, *out), np.float32), np.zeros((planes, *out), np.uint8)
    kb.call(lib, "poet_maxpool2d_fwd_f32", shape, x, y, where)
    dx = np.full_like(x, np.nan)
    if dy is not None:
        kb.call(lib, "poet_maxpool2d_bwd_f32", shape, dy, where, dx)
    return y, where, dx


@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (4, 3, 2)])
def test_pooling_is_torch_max_pool2d(kernel, stride, pad):
    rng = np.random.default_rng(4)
    x = rng.integers(-3, 3, (5, 9, 8)).astype(np.float32)  # many ties
    tx = torch.from_numpy(x).requires_grad_()
    ty = functional.max_pool2d(tx[None], kernel, stride, pad)[0]
    dy = rng.standard_normal(ty.shape).astype(np.float32)
    ty.backward(torch.from_numpy(dy))
    y, _, dx = run_pool(x, kernel, stride, pad, dy)
    assert np.array_equal(y, ty.detach().numpy())
    assert kb.relative(dx, tx.grad.numpy()) < TOLERANCE


def test_pooling_first_nan_wins():
    x = np.array([[[1, np.nan, 9, 9], [np.nan, 5, 9, 3]]], np.float32)
    y, where, _ = run_pool(x, 2, 2, 0, None)
    assert np.isnan(y[0, 0, 0])
    assert where.tolist() == [[[1, 0]]]
    assert y[0, 0, 1] == 9


def run_xent(z, labels):
    lib = kb.library(kb.Build())
    loss, dz = np.zeros(1, np.float32), np.zeros_like(z)
    shape = (ctypes.c_int32 * 2)(*z.shape)
    kb.call(lib, "poet_softmax_xent_f32", shape, z, labels.astype(np.int32), loss, dz)
    return loss[0], dz


@pytest.mark.parametrize("scale", [0.1, 3.0, 60.0, 1000.0])
def test_softmax_cross_entropy_is_torchs(scale):
    rng = np.random.default_rng(6)
    z = (rng.standard_normal((16, 10)) * scale).astype(np.float32)
    labels = rng.integers(0, 10, 16)
    tz = torch.from_numpy(z).double().requires_grad_()
    want = functional.cross_entropy(tz, torch.from_numpy(labels))
    want.backward()
    loss, dz = run_xent(z, labels)
    assert abs(loss - want.item()) < TOLERANCE * max(1.0, want.item())
    assert kb.relative(dz, tz.grad.numpy()) < TOLERANCE


@pytest.mark.parametrize("label", [-1, 10, 2**31 - 1, -(2**31)])
def test_label_out_of_range_is_nan_in_loss_and_row(label):
    z = np.ones((3, 10), np.float32)
    loss, dz = run_xent(z, np.array([1, label, 2]))
    assert np.isnan(loss)
    assert np.isnan(dz[1]).all()
    assert not np.isnan(dz[[0, 2]]).any()


def test_nan_in_a_row_reaches_loss_and_its_row_only():
    z = np.ones((2, 4), np.float32)
    z[1, 2] = np.nan
    loss, dz = run_xent(z, np.array([1, 2]))
    assert np.isnan(loss)
    assert np.isnan(dz[1]).all()
    assert not np.isnan(dz[0]).any()


def test_mse_is_torchs():
    lib, rng = kb.library(kb.Build()), np.random.default_rng(7)
    y, t = (rng.standard_normal(33, np.float32) for _ in "yt")
    ty = torch.from_numpy(y).double().requires_grad_()
    want = functional.mse_loss(ty, torch.from_numpy(t).double())
    want.backward()
    loss, dy = np.zeros(1, np.float32), np.zeros_like(y)
    kb.call(lib, "poet_mse_f32", (ctypes.c_int32 * 1)(33), y, t, loss, dy)
    assert abs(loss[0] - want.item()) < TOLERANCE
    assert kb.relative(dy, ty.grad.numpy()) < TOLERANCE


def test_relu_edges():
    lib = kb.library(kb.Build())
    x = np.array([-0.0, 0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-45], np.float32)
    shape, y, dx = (ctypes.c_int32 * 1)(8), np.zeros(8, np.float32), np.zeros(8, np.float32)
    kb.call(lib, "poet_relu_fwd_f32", shape, x, y)
    assert np.isnan(y[2:4]).all()
    assert np.array_equal(y[[0, 1, 4, 5, 6, 7]], np.float32([0, 0, np.inf, 0, 1e-45, 0]))
    assert not np.signbit(y[[0, 1, 5, 7]]).any()
    kb.call(lib, "poet_relu_bwd_f32", shape, x, np.ones(8, np.float32), dx)
    assert dx.tolist() == [0, 0, 0, 0, 1, 0, 1, 0]


def test_central_differences_of_a_convolution():
    """d(sum(y * dy)) / dx and / dw, with no help from PyTorch."""
    v = UNUSUAL["strided, dilated, grouped"] | {"n": 1}
    lib, shape = kb.library(kb.Build()), kb.shape_of(kb.CONV, v)
    x, w, b, dy = conv_arrays(v, 1)
    x, w, dy = (np.round(a * 8) / 8 for a in (x, w, dy))  # small dyadic: y is exact

    def objective(x, w):
        y = np.zeros(dy.size, np.float32)
        kb.call(lib, "poet_conv2d_fwd_f32", shape, x, w, b, y)
        return float(np.dot(y.astype(np.float64), dy))

    rng = np.random.default_rng(8)
    for name, inputs, at in (("bwd_x", (dy, w), 0), ("bwd_w", (x, dy), 1)):
        grad = np.zeros((x, w)[at].size, np.float32)
        kb.call(lib, f"poet_conv2d_{name}_f32", shape, *inputs, grad)
        for i in rng.integers(0, grad.size, 20):
            values = []
            for step in (0.25, -0.25):
                moved = [x.copy(), w.copy()]
                moved[at][i] += np.float32(step)
                values.append(objective(*moved))
            assert abs((values[0] - values[1]) / 0.5 - grad[i]) < 1e-3
