"""Attributes drawn at random: loss and gradients, in numpy and by the C kernels, equal PyTorch's.

Shapes and attributes come from hypothesis; PyTorch computes in double precision. The tolerance is
node_run's: 1e-5 of the largest magnitude, what sums of some hundred float32 products may lose.
"""

from __future__ import annotations

import io
import warnings

import models
import node_run
import numpy as np
import onnx
import onnx.reference
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from models import node, weights
from torch.nn import functional

from poet_mcu.frontend.onnx_import import load_model

QUICK = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)


def normal(shape, seed=0):
    rng = np.random.default_rng([seed, *shape])
    return rng.standard_normal(shape).astype(np.float32)


def numbers(axes, least, most):
    return st.lists(st.integers(least, most), min_size=axes, max_size=axes)


def torch_pads(pads):
    """ONNX's begins and ends as the pairs of torch.nn.functional.pad, last axis first."""
    axes = len(pads) // 2
    return [p for i in reversed(range(axes)) for p in (pads[i], pads[axes + i])]


def same_pads(mode, sizes, kernel, strides, dilations):
    """ONNX's definition of SAME: as many outputs as strides begin."""
    begins, ends = [], []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max(0, (-(-size // s) - 1) * s + d * (k - 1) + 1 - size)
        small, large = total // 2, total - total // 2
        begins.append(small if mode == "SAME_UPPER" else large)
        ends.append(large if mode == "SAME_UPPER" else small)
    return [*begins, *ends]


@pytest.mark.parametrize("axes", [1, 2])
@given(data=st.data())
@QUICK
def test_convolution(axes, data, tmp_path):
    draw = data.draw
    group = draw(st.integers(1, 3), "group")
    per_group, multiplier = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    kernel = draw(numbers(axes, 1, 4), "kernel")
    strides, dilations = draw(numbers(axes, 1, 3)), draw(numbers(axes, 1, 2))
    sizes = draw(numbers(axes, 3, 7), "sizes")
    mode = draw(st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]), "mode")
    pads = draw(numbers(2 * axes, 0, 3), "pads") if mode == "NOTSET" else [0] * (2 * axes)
    attrs = {"strides": strides, "dilations": dilations, "group": group}
    attrs |= {"pads": pads} if mode == "NOTSET" else {"auto_pad": mode}
    if mode.startswith("SAME"):
        pads = same_pads(mode, sizes, kernel, strides, dilations)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    assume(all(s + pads[i] + pads[axes + i] >= reach[i] for i, s in enumerate(sizes)))
    convolve = functional.conv1d if axes == 1 else functional.conv2d
    node_run.compare(
        [node("Conv", "h w b", "y", **attrs)],
        lambda h, w, b: convolve(
            functional.pad(h, torch_pads(pads)), w, b, strides, 0, dilations, group
        ),
        normal((draw(st.integers(1, 2)), group * per_group, *sizes)),
        {
            "w": weights(group * multiplier, per_group, *kernel),
            "b": weights(group * multiplier),
        },
        tmp_path,
    )


def sizes_of_transposed(draw, mode, sizes, reach, strides):
    """Attributes and (positions cut before, positions left) for each axis."""
    axes = len(sizes)
    if mode.startswith("SAME"):  # size * stride outputs, the rest cut off (ConvTranspose-11)
        # Runtimes differ over the size where kernels leave gaps.
        assume(all(r - s * (n - 1) >= s for n, r, s in zip(sizes, reach, strides, strict=True)))
        wanted = [n * s for n, s in zip(sizes, strides, strict=True)]
        cut = [r - w for r, w in zip(reach, wanted, strict=True)]
        begins = [c // 2 if mode == "SAME_UPPER" else c - c // 2 for c in cut]
        return {"auto_pad": mode}, begins, wanted, [0] * axes
    extra = [draw(st.integers(0, s - 1)) for s in strides]
    full = [r + e for r, e in zip(reach, extra, strict=True)]
    if mode == "VALID":
        return {"auto_pad": mode, "output_padding": extra}, [0] * axes, full, extra
    begins, ends = draw(numbers(axes, 0, 2), "begins"), draw(numbers(axes, 0, 2), "ends")
    wanted = [f - b - e for f, b, e in zip(full, begins, ends, strict=True)]
    assume(min(wanted) >= 1)
    return {"pads": [*begins, *ends], "output_padding": extra}, begins, wanted, extra


@pytest.mark.parametrize("axes", [1, 2])
@given(data=st.data())
@QUICK
def test_transposed_convolution(axes, data, tmp_path):
    draw = data.draw
    group = draw(st.integers(1, 3), "group")
    inputs, outputs = draw(st.integers(1, 2)) * group, draw(st.integers(1, 2))
    kernel, strides = draw(numbers(axes, 1, 4), "kernel"), draw(numbers(axes, 1, 3))
    dilations, sizes = draw(numbers(axes, 1, 2)), draw(numbers(axes, 1, 4), "sizes")
    lines = zip(sizes, kernel, strides, dilations, strict=True)
    reach = [s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in lines]
    mode = draw(st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]), "mode")
    attrs, begins, wanted, extra = sizes_of_transposed(draw, mode, sizes, reach, strides)
    convolve = functional.conv_transpose1d if axes == 1 else functional.conv_transpose2d

    def up(h, w, b):
        whole = convolve(h, w, None, strides, 0, 0, group, dilations)
        whole = functional.pad(whole, torch_pads([0] * axes + extra))
        for axis in range(axes):
            whole = whole.narrow(2 + axis, begins[axis], wanted[axis])
        return whole + b.reshape(-1, *[1] * axes)

    attrs |= {"strides": strides, "dilations": dilations, "group": group}
    node_run.compare(
        [node("ConvTranspose", "h w b", "y", **attrs)],
        up,
        normal((1, inputs, *sizes)),
        {"w": weights(inputs, outputs, *kernel), "b": weights(outputs * group)},
        tmp_path,
    )


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("axes", [1, 2])
@given(data=st.data())
@QUICK
def test_pooling(op, axes, data, tmp_path):
    draw = data.draw
    kernel, strides = draw(numbers(axes, 1, 3), "kernel"), draw(numbers(axes, 1, 3), "strides")
    sizes, ceil = draw(numbers(axes, 3, 8), "sizes"), draw(st.booleans(), "ceil")
    pads = [draw(st.integers(0, k // 2)) for k in kernel]
    attrs = {"kernel_shape": kernel, "strides": strides, "pads": pads * 2, "ceil_mode": int(ceil)}
    dilations = [1] * axes
    if op == "MaxPool":
        dilations = draw(numbers(axes, 1, 2), "dilations")
        attrs["dilations"] = dilations
        pool = functional.max_pool1d if axes == 1 else functional.max_pool2d
        options = {"dilation": dilations, "ceil_mode": ceil}
    else:
        count = draw(st.booleans(), "count")
        attrs["count_include_pad"] = int(count)
        pool = functional.avg_pool1d if axes == 1 else functional.avg_pool2d
        options = {"ceil_mode": ceil, "count_include_pad": count}
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    assume(all(n + 2 * p >= r for n, p, r in zip(sizes, pads, reach, strict=True)))
    node_run.compare(
        [node(op, "h", "y", **attrs)],
        lambda h: pool(h, kernel, strides, pads, **options),
        normal((1, 2, *sizes)),
        {},
        tmp_path,
        opset=22,
    )


@given(data=st.data())
@QUICK
def test_product_of_stacks_that_broadcast(data, tmp_path):
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(signature="(n,k),(k,m)->(n,m)", max_dims=3, max_side=3)
    )
    first, second = shapes.input_shapes
    assume(len(first) + len(second) > 4)
    node_run.compare(
        [node("MatMul", "h w", "y")], torch.matmul, normal(first), {"w": weights(*second)}, tmp_path
    )


VARIADIC = {
    "Min": lambda values: torch.stack(torch.broadcast_tensors(*values)).amin(0),
    "Max": lambda values: torch.stack(torch.broadcast_tensors(*values)).amax(0),
    "Sum": lambda values: sum(values[1:], values[0]),
    "Mean": lambda values: sum(values[1:], values[0]) / len(values),
}


@pytest.mark.parametrize("op", VARIADIC)
@given(data=st.data())
@QUICK
def test_any_number_of_operands_that_broadcast(op, data, tmp_path):
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(
            num_shapes=data.draw(st.integers(1, 5)), min_dims=1, max_dims=3, max_side=3
        )
    ).input_shapes
    tensors = {f"w{i}": normal(shape, i + 1) for i, shape in enumerate(shapes[1:])}
    node_run.compare(
        [node(op, " ".join(["h", *tensors]), "m"), node("Neg", "m", "y")],
        lambda *values: -VARIADIC[op](values),
        normal(shapes[0]),
        tensors,
        tmp_path,
    )


@given(data=st.data())
@QUICK
def test_power_of_two_operands_that_broadcast(data, tmp_path):
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=3, max_side=3)
    ).input_shapes
    assume(np.prod(shapes[1]) > 1)  # one exponent is a number
    x = np.abs(normal(shapes[0])) + np.float32(0.3)
    node_run.compare(
        [node("Pow", "h e", "y")], torch.pow, x, {"e": normal(shapes[1], 1)}, tmp_path,
        tolerance=1e-4,  # exp and log on the way
    )  # fmt: skip


POSITIONS = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("position", POSITIONS)
@given(sizes=numbers(2, 1, 5), wanted=numbers(2, 1, 9))
@settings(QUICK, max_examples=3)
def test_nearest_neighbours(position, rounding, sizes, wanted, tmp_path):
    """The places are those of onnx's reference; the gradient adds up by place."""
    attrs = {"nearest_mode": rounding, "coordinate_transformation_mode": position}
    tensors = {"sizes": np.asarray([1, 2, *wanted], np.int64)}
    proto = models.model(
        [node("Resize", "x - - sizes", "y", **attrs)], (1, 2, *sizes), tensors, opset=19
    )
    index = np.arange(np.prod(sizes), dtype=np.float32).reshape(1, 1, *sizes).repeat(2, 1)
    shown = onnx.reference.ReferenceEvaluator(proto).run(None, {"x": index})[0]
    places = torch.tensor(shown[0, 0].astype(np.int64).ravel())
    node_run.compare(
        [node("Resize", "h - - sizes", "r", **attrs), node("Neg", "r", "y")],
        lambda h: -h.flatten(2)[..., places].reshape(1, 2, *wanted),
        normal((1, 2, *sizes)),
        tensors,
        tmp_path,
        opset=19,
    )


SHAPES = {
    "Squeeze": ((2, 1, 3, 1), lambda h: h.squeeze(3).squeeze(1), (1, -1)),
    "Unsqueeze": ((2, 3), lambda h: h.unsqueeze(1).unsqueeze(0), (0, 2)),
    "ReduceSum": ((2, 3, 4), lambda h: h.sum((1, 2), keepdim=True), (1, -1)),
    "ReduceMean": ((2, 3, 4), lambda h: h.mean((1, 2), keepdim=True), (1, -1)),
    "ReduceMax": ((2, 3, 4), lambda h: h.amax((1, 2), keepdim=True), (1, -1)),
    "ReduceL2": ((2, 3, 4), lambda h: h.square().sum((1, 2), keepdim=True).sqrt(), (1, -1)),
}


@pytest.mark.parametrize("way", ["attribute", "initializer", "constant"])
@pytest.mark.parametrize("op", SHAPES)
def test_axes_as_attribute_and_as_input(op, way, tmp_path):
    shape, function, axes = SHAPES[op]
    nodes = [node(op, "h" if way == "attribute" else "h axes", "r"), node("Neg", "r", "y")]
    tensors = {}
    if way == "attribute":
        nodes[0] = node(op, "h", "r", axes=axes)
    elif way == "initializer":
        tensors = {"axes": np.asarray(axes, np.int64)}
    else:
        nodes.insert(0, node("Constant", "", "axes", value_ints=axes))
    node_run.compare(
        nodes, lambda h: -function(h), normal(shape), tensors, tmp_path,
        opset=11 if way == "attribute" else 18,
    )  # fmt: skip


class Masked(torch.nn.Module):
    """Causal attention as people write it: a buffer of -inf, which exporters store."""

    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(6, 18)
        self.register_buffer("mask", torch.full((5, 5), float("-inf")).triu(1))

    def forward(self, x):
        q, k, v = self.qkv(x).split(6, dim=-1)
        return ((q @ k.transpose(1, 2)) / 6**0.5 + self.mask).softmax(-1) @ v


def test_a_mask_of_infinities_is_no_weight(tmp_path):
    """With everything trained, the mask is not; the outputs are PyTorch's."""
    torch.manual_seed(0)
    module, x = Masked(), torch.randn(2, 5, 6)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), stream, opset_version=17, dynamo=False)
    path = tmp_path / "masked.onnx"
    path.write_bytes(stream.getvalue())
    found = load_model(path, None, lambda _: True)
    trained = {v.origin for v in found.graph.with_role(node_run.Role.PARAMETER)}
    assert {name for name in trained if "mask" in name} == set()
    assert len(trained) == 2
    assert any("became the lowest float" in note for note in found.report.notes)
    ours = models.run_graph(found.graph, x.numpy())[0]
    # 1e-5: sums of a few float32 products; exp is within 1 ulp.
    np.testing.assert_allclose(ours, module(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_an_infinite_weight_is_still_refused(tmp_path):
    bad = weights(4, 3)
    bad[1, 1] = -np.inf
    proto = models.model([node("MatMul", "x w", "y")], (2, 4), {"w": bad})
    assert models.refusal(proto, tmp_path) == (
        "node 0 'matmul_y' (MatMul): expected finite numbers in tensor 'w', got 1 NaN or infinite "
        "elements; repair or retrain the model"
    )
    for op in ("Add", "Where"):
        bad = np.asarray([[np.nan, 0, 1]], np.float32)
        names = "x w" if op == "Add" else "c w x"
        tensors = {"w": bad, "c": np.asarray([[True, False, True]])}
        proto = models.model([node(op, names, "y")], (2, 3), tensors, y=[2, 3])
        assert "expected finite numbers in tensor 'w', got 1 NaN" in models.refusal(proto, tmp_path)
