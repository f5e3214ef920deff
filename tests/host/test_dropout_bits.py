"""Dropout by the C kernel: numpy's bits at any step, PyTorch's gradients under the same mask."""

from __future__ import annotations

import kernel_build as kb
import node_run
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import node
from test_ops_torch import normal

from poet_mcu.ir.graph import TensorType
from poet_mcu.ops.dropout import kept
from poet_mcu.ops.table import OPERATORS

WORD = st.integers(0, 2**31 - 1)


@given(
    count=st.integers(1, 40),
    seed=WORD,
    stream=st.integers(0, 9),
    step=st.integers(0, 2**32 - 1),
    ratio=st.sampled_from([0.001, 0.1, 0.25, 0.5, 0.9, 0.999]),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_the_kernel_has_numpys_bits(count, seed, stream, step, ratio):
    attrs = {"ratio": ratio, "seed": seed, "stream": stream}
    x = normal((count,))
    (expected,) = OPERATORS["dropout"].reference([x], {**attrs, "step": step})
    kind = [TensorType(x.shape)]
    kernel = OPERATORS["dropout"].kernel(kind, kind, attrs)
    library, shape = kb.library(kb.Build()), kb.descriptor(kernel)
    out = kb.guarded(count)
    kb.call(library, kernel.function, shape, x, step, out)
    assert kb.same_bits(out[:count], expected)
    assert np.isnan(out[count:]).all()
    kb.call(library, kernel.function, shape, x, step, x)  # in place
    assert kb.same_bits(x, expected)


@pytest.mark.parametrize("ratio", [0.2, 0.5])
def test_gradients(ratio, tmp_path):
    """Forward and backward by the same mask, that of step 0 and the first Dropout."""
    x = normal((6, 5))
    mask = kept(x.size, 0, 0, 0, float(np.float32(ratio))).reshape(x.shape)
    assert 0 < mask.sum() < mask.size
    tensors = {
        "w": normal((5, 3), 1),
        "ratio": np.asarray(ratio, np.float32),
        "mode": np.asarray(True),
    }
    nodes = [node("Dropout", "h ratio mode", "d"), node("MatMul", "d w", "y")]
    graph = node_run.compare(
        nodes, lambda h, w, *_: (h * torch.tensor(mask) / (1 - ratio)) @ w, x, tensors, tmp_path
    )
    assert [n.op for n in graph.nodes].count("dropout") == 2
