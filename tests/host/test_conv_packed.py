"""The packed form of a convolution gives the bits of the plain kernel, whatever its workspace."""

from __future__ import annotations

import ctypes

import kernel_build as kb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_kernels_bits import conv_arrays, conv_shapes, same


def check(v, work_floats, seed, fused):
    lib = kb.library(kb.Build(fused))
    x, w, b, dy = conv_arrays(v, seed)
    plain_shape = kb.shape_of(kb.CONV, v)
    shape = (ctypes.c_int32 * 17)(*plain_shape, work_floats)
    for name, inputs, size in (
        ("conv2d_fwd", (x, w, b), dy.size),
        ("conv2d_bwd_x", (dy, w), x.size),
    ):
        work, out, plain = kb.guarded(work_floats), kb.guarded(size), kb.guarded(size)
        kb.call(lib, f"plain_{name}_f32", plain_shape, *inputs, plain[16:])
        kb.call(lib, f"poet_{name}_packed_f32", shape, *inputs, work[16:], out[16:])
        assert np.isnan(work[:16]).all()
        assert np.isnan(work[16 + work_floats :]).all()
        assert np.isnan(out[:16]).all()
        assert np.isnan(out[16 + size :]).all()
        assert kb.same_bits(out[16 : 16 + size], plain[16 : 16 + size]), name


@pytest.mark.parametrize("fused", [0, 1])
@settings(max_examples=120, deadline=None, derandomize=True)
@given(v=conv_shapes(), work=st.integers(0, 4000), seed=st.integers(0, 99))
def test_any_convolution(fused, v, work, seed):
    check(v, work, seed, fused)


LAYERS = {
    "stride 2": same(1, 16, 16, 32, 3, 2),
    "stride 2, batch": same(3, 5, 11, 10, 3, 2),
    "5x5": same(1, 6, 12, 16, 5),
    "image input": same(2, 3, 15, 10, 3),
    "1x1 stride 2": same(1, 16, 9, 8, 1, 2),
    "groups": same(1, 12, 9, 18, 3, 2, 3),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("work", [0, 700, 1500, 2048, 20000])
def test_layers(layer, work):
    check(LAYERS[layer], work, 1, 1)
