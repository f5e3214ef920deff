"""The rows of tools/bench_kernels.py: calls of every kernel over a list of shapes.

A case is a node of a graph: an operator of poet_mcu/ops, the types of its inputs, its attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poet_mcu.bench.case import Case, Shape, floats, integers, octets
from poet_mcu.ir.graph import Attr, TensorType
from poet_mcu.ops import activations, elementwise
from poet_mcu.ops.operator import Attrs
from poet_mcu.ops.table import OPERATORS


def overlap(outs: int, size: int, kernel: int, stride: int, pad: int) -> int:
    """Pairs of (output, tap) along one axis whose input is no padding."""
    return sum(0 <= o * stride - pad + k < size for o in range(outs) for k in range(kernel))


def conv(
    label: str, n: int, c: int, size: int, m: int, k: int, stride: int = 1, groups: int = 1
) -> list[Case]:
    """Forward and both gradients of a square convolution with 'same' padding."""
    pad = k // 2
    out = (size + 2 * pad - k) // stride + 1
    x, w, y = (n, c, size, size), (m, c // groups, k, k), (n, m, out, out)
    attrs: dict[str, Attr] = {
        "pads": (pad,) * 4, "strides": (stride,) * 2, "dilations": (1, 1), "group": groups,
    }  # fmt: skip
    back = {**attrs, "x_shape": x, "w_shape": w}
    macs = n * m * (c // groups) * overlap(out, size, k, stride, pad) ** 2
    return [
        Case(f"{label}_fwd", "conv2d", floats(x, w, (m,)), attrs, macs),
        Case(f"{label}_bwd_x", "conv2d_bwd_x", floats(y, w), back, macs),
        Case(f"{label}_bwd_w", "conv2d_bwd_w", floats(x, y), back, macs),
        Case(f"{label}_bias", "channel_sum", floats(y)),
    ]


def forms(case: Case) -> list[Case]:
    """The other forms of a case's kernel, with their workspace."""
    operator = OPERATORS[case.op]
    return [
        replace(case, name=f"{case.name}_{form}", attrs={**case.attrs, "variant": form})
        for form in operator.variants(case.inputs, case.outputs, case.attrs)
    ]


def general() -> list[Case]:
    """Convolutions for which there are no blocks of their own, in every form."""
    cases: list[Case] = []
    for label, *shape in (
        ("s2_16x32x16", 1, 16, 16, 32, 3, 2),
        ("s2_32x64x8", 1, 32, 8, 64, 3, 2),
        ("k5_6x16x12", 1, 6, 12, 16, 5),
        ("pws2_16x32x16", 1, 16, 16, 32, 1, 2),
    ):
        cases += conv(label, *shape)
    return cases + [form for case in cases for form in forms(case)]


def dense(label: str, n: int, k: int, m: int, rows: int = 1) -> list[Case]:
    """Forward and both gradients; ``rows`` 1: the weights of an output lie side by side."""
    attrs: Attrs = {"w_rows_are_outputs": rows}
    w = (m, k) if rows else (k, m)
    return [
        Case(f"{label}_fwd", "dense", floats((n, k), w, (m,)), attrs),
        Case(f"{label}_bwd_x", "dense_bwd_x", floats((n, m), w), attrs),
        Case(f"{label}_bwd_w", "dense_bwd_w", floats((n, k), (n, m)), attrs),
    ]


def products(label: str, batch: int, n: int, k: int, m: int) -> list[Case]:
    """Stacks of matrix products, each operand as it is and turned."""
    return [
        Case(
            f"{label}_{'t' if a else 'n'}{'t' if c else 'n'}",
            "matmul",
            floats((batch, k, n) if a else (batch, n, k), (batch, m, k) if c else (batch, k, m)),
            {"a_is_turned": a, "c_is_turned": c},
        )
        for a in (0, 1)
        for c in (0, 1)
    ]


def _window(kernel: int, stride: int, x: Shape) -> dict[str, Attr]:
    return {
        "kernel": (kernel,) * 2, "strides": (stride,) * 2, "pads": (0,) * 4, "dilations": (1, 1),
        "ceil_mode": 0, "count_pads": 0, "x_shape": x,
    }  # fmt: skip


def pool(label: str, planes: int, size: int, kernel: int = 2, stride: int = 2) -> list[Case]:
    """Max pooling of square planes, without padding."""
    out = (size - kernel) // stride + 1
    x, y = (1, planes, size, size), (1, planes, out, out)
    attrs = _window(kernel, stride, x)
    return [
        Case(f"{label}_fwd", "maxpool2d", floats(x), attrs),
        Case(f"{label}_max", "maxpool2d", floats(x), {**attrs, "with_argmax": 0}),
        Case(
            f"{label}_bwd", "maxpool2d_bwd", (TensorType(y), octets(*y)), attrs, below=kernel**2
        ),
    ]  # fmt: skip


def average(label: str, planes: int, size: int, kernel: int) -> list[Case]:
    """Average pooling of square planes, windows side by side."""
    out = size // kernel
    x, y = (1, planes, size, size), (1, planes, out, out)
    attrs = _window(kernel, kernel, x)
    return [
        Case(f"{label}_fwd", "avgpool2d", floats(x), attrs),
        Case(f"{label}_bwd", "avgpool2d_bwd", floats(y), attrs),
    ]


def vectors(label: str, count: int) -> list[Case]:
    """What every network runs over all of its elements."""
    one, two = floats((count,)), floats((count,), (count,))
    return [
        Case(f"{label}_relu_fwd", "relu", one),
        Case(f"{label}_relu_bwd", "relu_bwd", two),
        Case(f"{label}_add", "add", two),
        Case(f"{label}_mse", "mse", two),
        Case(f"{label}_sgd", "sgd", two),
    ]


def element_wise(count: int) -> list[Case]:
    """Functions of one tensor and their derivatives, of two tensors, and comparisons.

    All operands are positive: a logarithm or root of less would take the short way to NaN.
    """
    plain, row = (4, count // 16, 4), (4, 1, 4)
    cases = []
    for operator in activations.OPERATORS:
        inputs = floats(*((count,),) * (2 if operator.name.endswith("_bwd") else 1))
        cases.append(Case(f"v{count}_{operator.name}", operator.name, inputs, low=0.01))
    for binary in (*elementwise.OPERATORS, OPERATORS["add"]):
        for tag, shape in (("", plain), ("_repeated", row)):
            name = f"v{count}_{binary.name}{tag}"
            if name != f"v{count}_add":
                cases.append(Case(name, binary.name, floats(plain, shape), low=0.01))
    cases += [
        Case(f"v{count}_{mask}", mask, floats(plain, row))
        for mask in ("greater_mask", "greater_equal_mask", "equal_mask")
    ]
    choose = octets(*plain)
    cases.append(Case(f"v{count}_where", "where", (choose, *floats(plain, row)), below=2))
    cases += [
        Case(f"v{count}_where_bwd_{side}", f"where_bwd_{side}", (choose, *floats(plain)), below=2)
        for side in "ab"
    ]
    cases.append(Case(f"v{count}_expand", "expand", floats(row), {"shape": plain}))
    drop: Attrs = {"ratio": 0.5, "seed": 1, "stream": 2}
    cases.append(Case(f"v{count}_dropout", "dropout", floats((count,)), drop))
    return cases


def reductions(label: str, shape: Shape, axes: Shape) -> list[Case]:
    """Sum, mean, largest, smallest, norm, and the sum of products with a factor."""
    attrs: Attrs = {"axes": axes}
    names = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_l2")
    cases = [Case(f"{label}_{name}", name, floats(shape), attrs) for name in names]
    return [*cases, Case(f"{label}_reduce_product", "reduce_product", floats(shape, shape), attrs)]


def softmaxes(label: str, shape: Shape, axis: int) -> list[Case]:
    """Softmax and its logarithm along one axis, with their gradients."""
    attrs: Attrs = {"axis": axis}
    return [
        Case(f"{label}_{name}{verb}", f"{name}{verb}", floats(*(shape,) * count), attrs)
        for name in ("softmax", "log_softmax")
        for verb, count in (("", 1), ("_bwd", 2))
    ]


def normalizations(label: str, n: int, c: int, size: int) -> list[Case]:
    """Batch normalization of [n, c, size, size] and layer normalization of its n * size^2 rows."""
    x, per = (n, c, size, size), (c,)
    rows = (n * size * size, c)
    eps: Attrs = {"eps": 1e-5}
    row: Attrs = {"features": c, "groups": 1, "inner": 1, "eps": 1e-5}
    running: Attrs = {"momentum": 0.9, "correction": 1.0}
    return [
        Case(f"{label}_batch_stats", "batch_stats", floats(x)),
        Case(f"{label}_running_stats", "running_stats", floats(*(per,) * 4), running),
        Case(f"{label}_batchnorm", "batchnorm", floats(x, *(per,) * 4), eps, low=0.01),
        Case(f"{label}_bn_bwd_w", "batchnorm_bwd_w", floats(x, x, per, per), eps, low=0.01),
        Case(f"{label}_bn_bwd_x", "batchnorm_bwd_x", floats(x, x, *(per,) * 5), eps, low=0.01),
        Case(
            f"{label}_bn_frozen", "batchnorm_frozen_bwd_x", floats(x, per, per), eps, low=0.01
        ),
        Case(f"{label}_channel_add", "channel_add", floats(x, per)),
        Case(f"{label}_rownorm", "rownorm", floats(rows, per, per), row),
        Case(f"{label}_rownorm_bwd_x", "rownorm_bwd_x", floats(rows, rows, per), row),
        Case(f"{label}_rownorm_bwd_w", "rownorm_bwd_w", floats(rows, rows), row),
    ]  # fmt: skip


def layouts() -> list[Case]:
    """Elements moved, repeated and looked up."""
    image, doubled, box = (1, 16, 8, 8), (1, 16, 16, 16), (1, 16, 6, 6)
    size, inner = (integers(16), integers(16)), {"starts": (0, 0, 1, 1), "steps": (1, 1, 1, 1)}
    table, words = (64, 32), (integers(24),)
    return [
        Case("transpose_nchw_nhwc", "transpose", floats(image), {"perm": (0, 2, 3, 1)}),
        Case("slice_border", "slice", floats(image), {**inner, "sizes": box}),
        Case("place_border", "place", floats(box), {**inner, "shape": image, "value": 0.0}),
        Case("concat_channels", "concat", floats(image, image), {"axis": 1}),
        Case("resize_twice", "resize_nearest", (*floats(image), *size), below=8),
        Case(
            "resize_twice_bwd", "resize_nearest_bwd", (*floats(doubled), *size),
            {"x_shape": image}, below=8,
        ),
        Case("gather_rows", "gather", (*floats(table), *words), {"axis": 0}, below=64),
        Case(
            "gather_rows_bwd", "gather_bwd", (*words, *floats((24, 32))),
            {"axis": 0, "table": table}, below=64,
        ),
    ]  # fmt: skip


def losses(n: int, k: int) -> list[Case]:
    """The losses beside cross-entropy and the mean squared error."""
    two = floats((n, k), (n, k))
    labels, weights = integers(n), TensorType((k,))
    return [
        Case("bce", "bce", two, low=0.01),
        Case("l1", "l1", two),
        Case("huber", "huber", two, {"delta": 1.0}),
        Case("scalar_loss", "scalar_loss", floats((1,))),
        Case(
            "weighted_xent", "weighted_xent", (TensorType((n, k)), labels, weights),
            {"smoothing": 0.1}, low=0.01, below=k,
        ),
    ]  # fmt: skip


def updates(count: int) -> list[Case]:
    """Optimizers beside plain SGD, accumulation and clipping."""
    w = (count,)
    decay: dict[str, Attr] = {"weight_decay": 0.01}
    adam: Attrs = {**decay, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decoupled": 1}
    rmsprop: Attrs = {**decay, "alpha": 0.99, "eps": 1e-8}
    momentum: Attrs = {**decay, "momentum": 0.9, "nesterov": 1}
    one = TensorType(())
    return [
        Case("sgd", "sgd", floats(w, w)),
        Case("sgd_decay", "sgd_decay", floats(w, w), decay),
        Case("momentum", "momentum", floats(w, w, w), momentum),
        Case("adam", "adam", floats(w, w, w, w), adam, low=0.01),
        Case("rmsprop", "rmsprop", floats(w, w, w), rmsprop, low=0.01),
        Case("accumulate", "accumulate", floats(w, w), {"scale": 0.25}),
        Case("clear", "clear", floats(w)),
        Case("square_sum", "square_sum", floats(w)),
        Case("clip_factor", "clip_factor", (one,), {"most": 1.0}, low=0.01),
        Case("scale_gradient", "scale_gradient", (*floats(w), one)),
    ]


def convolutional() -> list[Case]:
    """The layers of the digits network, and convolutions and products of common sizes."""
    cases: list[Case] = []
    for n in (1, 16):
        cases += conv(f"digits1_n{n}", n, 1, 8, 8, 3)
        cases += pool(f"digits_pool1_n{n}", n * 8, 8)
        cases += conv(f"digits2_n{n}", n, 8, 4, 16, 3)
        cases += pool(f"digits_pool2_n{n}", n * 16, 4)
        cases += dense(f"digits_fc_n{n}", n, 64, 10)
        logits = (*floats((n, 10)), integers(n))
        cases.append(Case(f"xent10_n{n}", "softmax_xent", logits, below=10))
    cases += conv("c16x32x16", 1, 16, 16, 32, 3)
    cases += conv("c16x32x8", 1, 16, 8, 32, 3)
    cases += conv("c3x16x32", 1, 3, 32, 16, 3)
    cases += conv("c1x8x28", 1, 1, 28, 8, 3)
    cases += general()
    cases += conv("pw32x64x8", 1, 32, 8, 64, 1)
    cases += conv("dw32x16", 1, 32, 16, 32, 3, 1, 32)
    cases += conv("dw32x16s2", 1, 32, 16, 32, 3, 2, 32)
    cases += pool("pool8x28", 8, 28)
    cases += pool("pool8x13_3_2", 8, 13, 3, 2)
    cases += average("avg16x8_2", 16, 8, 2)
    cases += average("avg64x8_8", 64, 8, 8)
    return cases


def common_cases() -> list[Case]:
    """What nearly every network is made of: cost tables are fitted to these above all."""
    cases = convolutional()
    cases += dense("fc256x64_n1", 1, 256, 64)
    cases += dense("fc784x10_n1", 1, 784, 10)
    cases += dense("fc256x64_n16", 16, 256, 64)
    cases += dense("fct256x64_n1", 1, 256, 64, 0)
    cases += dense("mm64", 64, 64, 64)
    cases += dense("mmt64", 64, 64, 64, 0)
    cases += products("matmul64", 1, 64, 64, 64)
    cases += products("matmul4x16", 4, 16, 16, 16)
    cases += vectors("v1024", 1024)
    return cases + vectors("v10", 10)


def all_cases() -> list[Case]:
    """Every row; tests check that every kernel of poet/kernels.h has one."""
    cases = common_cases() + element_wise(1024)
    cases += reductions("r16x8x8", (16, 8, 8), (1, 2))
    cases += reductions("r64x16_rows", (64, 16), (0,))
    cases += softmaxes("attention16", (4, 16, 16), 2)
    cases += softmaxes("channels8", (2, 8, 32), 1)
    cases += normalizations("n2x16x8", 2, 16, 8)
    return cases + layouts() + losses(16, 32) + updates(1024)[1:]


def functions(cases: Sequence[Case]) -> list[str]:
    """The C functions the cases call, each once, in order."""
    return list(dict.fromkeys(case.kernel.function for case in cases))
