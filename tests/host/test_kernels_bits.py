"""The fast kernels give the bits of the plain ones, in both FMA modes and every build."""

from __future__ import annotations

import ctypes

import kernel_build as kb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

MODES = [0, 1]


@st.composite
def conv_shapes(draw):
    """Any convolution: groups, depthwise, strides, one-sided padding, dilation, even kernels."""

    def pick(low, high):
        return draw(st.integers(low, high))

    plain = draw(st.booleans())
    groups = draw(st.sampled_from([1, 1, 1, 2, 3, 8]))
    cg, mg = (1, 1) if groups == 8 else (pick(1, 9), pick(1, 9))
    v = {"n": pick(1, 4), "groups": groups, "c": groups * cg, "m": groups * mg}
    for axis in "hw":
        kernel, size = (3, pick(2, 13)) if plain else (pick(1, 6), pick(1, 11))
        stride = 1 if plain else pick(1, 3)
        dilation = 1 if plain else pick(1, 3)
        extent = dilation * (kernel - 1) + 1
        before = pick(0, 1) if plain else pick(0, 4)
        after = pick(0, 1) if plain else pick(0, 4)
        after += max(0, extent - size - before - after)  # the kernel must fit
        name = {"h": "top", "w": "left"}[axis]
        v |= {axis: size, f"k{axis}": kernel, f"stride_{axis}": stride}
        v |= {f"dilation_{axis}": dilation, f"pad_{name}": before}
        v[f"o{axis}"] = (size + before + after - extent) // stride + 1
    return v


def conv_arrays(v, seed):
    rng = np.random.default_rng(seed)
    cg = v["c"] // v["groups"]
    x = rng.standard_normal(v["n"] * v["c"] * v["h"] * v["w"], np.float32)
    w = rng.standard_normal(v["m"] * cg * v["kh"] * v["kw"], np.float32)
    dy = rng.standard_normal(v["n"] * v["m"] * v["oh"] * v["ow"], np.float32)
    b = rng.standard_normal(v["m"], np.float32) if seed % 2 else None
    return x, w, b, dy


def conv_calls(x, w, b, dy):
    return [
        ("conv2d_fwd", (x, w, b), dy.size),
        ("conv2d_bwd_x", (dy, w), x.size),
        ("conv2d_bwd_w", (x, dy), w.size),
    ]


def both(lib, name, shape, inputs, size):
    """Outputs of the fast and the plain kernel, each inside poison that must stay."""
    outputs = []
    for prefix in ("poet", "plain"):
        out = kb.guarded(size)
        kb.call(lib, f"{prefix}_{name}_f32", shape, *inputs, out[16:])
        assert np.isnan(out[:16]).all()
        assert np.isnan(out[16 + size :]).all()
        outputs.append(out[16 : 16 + size].copy())
    return outputs


def check(lib, name, shape, inputs, size):
    fast, plain = both(lib, name, shape, inputs, size)
    assert not np.isnan(plain).any()
    assert kb.same_bits(fast, plain), name


@pytest.mark.parametrize("fused", MODES)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(v=conv_shapes(), seed=st.integers(0, 1000))
def test_convolution(fused, v, seed):
    lib = kb.library(kb.Build(fused))
    arrays = conv_arrays(v, seed)
    for name, inputs, size in conv_calls(*arrays):
        check(lib, name, kb.shape_of(kb.CONV, v), inputs, size)


def same(n, c, size, m, k, stride=1, groups=1):
    pad = k // 2
    out = (size + 2 * pad - k) // stride + 1
    values = (n, c, size, size, m, out, out, k, k, stride, stride, pad, pad, 1, 1, groups)
    return dict(zip(kb.CONV.split(), values, strict=True))


REAL_LAYERS = {
    "digits first layer": same(16, 1, 8, 8, 3),
    "digits second layer": same(16, 8, 4, 16, 3),
    "16 to 32 channels": same(1, 16, 16, 32, 3),
    "image input": same(2, 3, 15, 10, 3),
    "depthwise": same(2, 12, 9, 12, 3, groups=12),
    "depthwise stride 2": same(1, 12, 9, 12, 3, 2, 12),
    "pointwise": same(2, 7, 5, 13, 1),
    "5x5": same(1, 3, 12, 6, 5),
    "stride 2": same(2, 5, 11, 9, 3, 2),
}


@pytest.mark.parametrize("layer", REAL_LAYERS)
@pytest.mark.parametrize("fused", MODES)
def test_convolution_of_real_layers(fused, layer):
    v = REAL_LAYERS[layer]
    for name, inputs, size in conv_calls(*conv_arrays(v, 1)):
        check(kb.library(kb.Build(fused)), name, kb.shape_of(kb.CONV, v), inputs, size)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_depthwise_3x3_of_every_size(stride, before, after):
    """These have kernels of their own: every end of a row, every lack of taps."""
    for size in range(1, 14):
        if size + before + after < 3:
            continue
        out = (size + before + after - 3) // stride + 1
        values = (2, 3, size, size, 3, out, out, 3, 3, stride, stride, before, before, 1, 1, 3)
        v = dict(zip(kb.CONV.split(), values, strict=True))
        for name, inputs, count in conv_calls(*conv_arrays(v, size)):
            check(kb.library(kb.Build(1)), name, kb.shape_of(kb.CONV, v), inputs, count)


@pytest.mark.parametrize("fused", MODES)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(n=st.integers(1, 18), k=st.integers(1, 40), m=st.integers(1, 20), seed=st.integers(0, 999))
def test_dense(fused, n, k, m, seed):
    lib = kb.library(kb.Build(fused))
    rng = np.random.default_rng(seed)
    x, w, dy = (rng.standard_normal(size, np.float32) for size in (n * k, k * m, n * m))
    b = rng.standard_normal(m, np.float32) if seed % 2 else None
    for by_output in (0, 1):
        shape = (ctypes.c_int32 * 4)(n, k, m, by_output)
        check(lib, "dense_fwd", shape, (x, w, b), n * m)
        check(lib, "dense_bwd_x", shape, (dy, w), n * k)
        check(lib, "dense_bwd_w", shape, (x, dy), k * m)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(n=st.integers(1, 5), m=st.integers(1, 9), plane=st.integers(1, 30))
def test_channel_sum(n, m, plane):
    dy = np.random.default_rng(n * m * plane).standard_normal(n * m * plane, np.float32)
    shape = (ctypes.c_int32 * 3)(n, m, plane)
    check(kb.library(kb.Build()), "channel_sum", shape, (dy,), m)


@st.composite
def pool_shapes(draw):
    v = {"planes": draw(st.integers(1, 5))}
    for axis in "hw":
        kernel, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 2))
        extent = dilation * (kernel - 1) + 1
        before, after = draw(st.integers(0, kernel // 2)), draw(st.integers(0, kernel // 2))
        size = max(draw(st.integers(1, 10)), extent - before - after)
        stride = draw(st.integers(1, 3))
        name = {"h": "top", "w": "left"}[axis]
        v |= {axis: size, f"k{axis}": kernel, f"stride_{axis}": stride, f"pad_{name}": before}
        v |= {f"dilation_{axis}": dilation}
        v[f"o{axis}"] = (size + before + after - extent) // stride + 1
    return v


@settings(max_examples=150, deadline=None, derandomize=True)
@given(v=pool_shapes(), seed=st.integers(0, 999), dirt=st.sampled_from(["none", "ties", "nan"]))
def test_max_pooling(v, seed, dirt):
    lib = kb.library(kb.Build())
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(v["planes"] * v["h"] * v["w"], np.float32)
    if dirt == "ties":
        x = np.sign(x.round()) * np.float32(0.5)  # also zeros of both signs
    elif dirt == "nan":
        x[rng.random(x.size) < 0.2] = np.nan
    shape = kb.shape_of(kb.POOL, v)
    outs = v["planes"] * v["oh"] * v["ow"]
    results = []
    for prefix in ("poet", "plain"):
        y, where = np.full(outs, 7, np.float32), np.full(outs, 99, np.uint8)
        alone, dx = np.full(outs, 8, np.float32), np.full(x.size, 9, np.float32)
        kb.call(lib, f"{prefix}_maxpool2d_fwd_f32", shape, x, y, where)
        kb.call(lib, f"{prefix}_maxpool2d_fwd_f32", shape, x, alone, None)
        assert kb.same_bits(y, alone)
        dy = np.random.default_rng(seed + 1).standard_normal(outs, np.float32)
        kb.call(lib, f"{prefix}_maxpool2d_bwd_f32", shape, dy, where, dx)
        results.append((y, where, dx))
    for fast, plain in zip(*results, strict=True):
        assert kb.same_bits(fast, plain)


SPECIAL = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1e-38, np.inf, -np.inf, np.nan, -np.nan, 3.4e38, -2.5], np.float32
)


@pytest.mark.parametrize("count", [*range(1, 10), 64, 67])
@pytest.mark.parametrize("fused", MODES)
def test_element_wise(fused, count):
    lib = kb.library(kb.Build(fused))
    rng = np.random.default_rng(count)
    shape = (ctypes.c_int32 * 1)(count)
    a, b = (rng.choice(np.append(SPECIAL, rng.standard_normal(9)), count) for _ in range(2))
    a, b = a.astype(np.float32), b.astype(np.float32)
    for name, inputs in (("relu_fwd", (a,)), ("relu_bwd", (a, b)), ("add_fwd", (a, b))):
        fast, plain = both(lib, name, shape, inputs, count)
        assert kb.same_bits(fast, plain), name
        for i in range(len(inputs)):  # in place over each input
            copies = [array.copy() for array in inputs]
            kb.call(lib, f"poet_{name}_f32", shape, *copies, copies[i])
            assert kb.same_bits(copies[i], plain), name
    fast, plain = b.copy(), b.copy()
    kb.call(lib, "poet_sgd_f32", shape, a, 0.01, fast)
    kb.call(lib, "plain_sgd_f32", shape, a, 0.01, plain)
    assert kb.same_bits(fast, plain)


@pytest.mark.parametrize("fused", MODES)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 10), (16, 10), (3, 7), (5, 2)])
def test_losses(fused, n, k):
    lib = kb.library(kb.Build(fused))
    rng = np.random.default_rng(n * k)
    z = (rng.standard_normal(n * k) * 8).astype(np.float32)
    labels = rng.integers(0, k, n).astype(np.int32)
    labels[0] = k if k == 7 else labels[0]
    target = rng.standard_normal(n * k, dtype=np.float32)
    for name, shape, other in (
        ("softmax_xent", (ctypes.c_int32 * 2)(n, k), labels),
        ("mse", (ctypes.c_int32 * 1)(n * k), target),
    ):
        results = []
        for prefix, in_place in (("poet", False), ("poet", True), ("plain", False)):
            source = z.copy()
            dz = source if in_place else np.full(n * k, 5, np.float32)
            loss = np.full(1, 5, np.float32)
            kb.call(lib, f"{prefix}_{name}_f32", shape, source, other, loss, dz)
            results.append(np.concatenate([loss, dz]))
        assert kb.same_bits(results[0], results[2])
        assert kb.same_bits(results[1], results[2])


BUILDS = [
    kb.Build(fused, level, compiler, hardware)
    for fused in MODES
    for level in ("-O0", "-O2", "-O3")
    for compiler in ("gcc", "clang")
    for hardware in (False, True)
    if (fused or not hardware) and (kb.HAS_FMA or not hardware)
]


def fingerprint(lib):
    """The outputs of every kernel over a few layers, one after the other."""
    parts = []
    for v in REAL_LAYERS.values():
        for name, inputs, size in conv_calls(*conv_arrays(v, 1)):
            out = np.zeros(size, np.float32)
            kb.call(lib, f"poet_{name}_f32", kb.shape_of(kb.CONV, v), *inputs, out)
            parts.append(out)
    rng = np.random.default_rng(5)
    z, labels = rng.standard_normal(160, np.float32), rng.integers(0, 10, 16).astype(np.int32)
    loss, dz = np.zeros(1, np.float32), np.zeros(160, np.float32)
    kb.call(lib, "poet_softmax_xent_f32", (ctypes.c_int32 * 2)(16, 10), z, labels, loss, dz)
    x, w, out = *(rng.standard_normal(640, np.float32) for _ in "xw"), np.zeros(100, np.float32)
    kb.call(lib, "poet_dense_fwd_f32", (ctypes.c_int32 * 4)(10, 64, 10, 1), x, w, None, out)
    return np.concatenate([*parts, loss, dz, out])


@pytest.mark.parametrize("fused", MODES)
@pytest.mark.parametrize(
    "levels",
    [("-O0", "-O3"), pytest.param(("-O0", "-O2", "-O3"), marks=pytest.mark.slow)],
    ids=["extremes", "all"],
)
def test_compilers_levels_and_libm_agree(fused, levels):
    builds = [build for build in BUILDS if build.fused == fused and build.level in levels]
    assert len(builds) >= 2 * len(levels)
    builds.append(kb.Build(fused))  # what the other tests use
    prints = [fingerprint(kb.library(build)) for build in builds]
    for build, bits in zip(builds, prints, strict=True):
        assert kb.same_bits(bits, prints[0]), build
    assert not np.isnan(prints[0]).any()


def test_the_modes_differ():
    """Else the test above would not notice that a mode was ignored."""
    modes = [fingerprint(kb.library(kb.Build(fused))) for fused in MODES]
    assert not kb.same_bits(*modes)


@pytest.mark.parametrize("count", [1, 3, 4, 11, 29])
def test_rectifier_in_place(count):
    """These have loops of their own, which write the zeros alone."""
    lib = kb.library(kb.Build())
    x, dy = np.resize(SPECIAL, count), np.resize(SPECIAL[::-1], count).copy()
    shape = (ctypes.c_int32 * 1)(count)
    for name, inputs, over in (("relu_fwd", (x,), 0), ("relu_bwd", (x, dy), 1)):
        apart, *_ = both(lib, name, shape, inputs, count)
        raw = kb.guarded(count)
        raw[16 : 16 + count] = inputs[over]
        given = [raw[16:] if i == over else a for i, a in enumerate(inputs)]
        kb.call(lib, f"poet_{name}_f32", shape, *given, raw[16:])
        assert kb.same_bits(raw[16 : 16 + count], apart)
        assert np.isnan(raw[:16]).all()
        assert np.isnan(raw[16 + count :]).all()
