"""The table of operators: the only place that lists them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poet_mcu.ops import (
    activations,
    add,
    avgpool2d,
    batchnorm,
    channel_add,
    channel_sum,
    compare,
    concat,
    conv2d,
    conv_transpose2d,
    dense,
    elementwise,
    expand,
    gather,
    matmul,
    maxpool2d,
    mse,
    reduce,
    relu,
    resize,
    rownorm,
    sgd,
    slice,  # noqa: A004 - the operator's name
    softmax,
    softmax_xent,
    transpose,
    where,
)
from poet_mcu.ops.operator import Operator

_MODULES = (
    activations,
    add,
    avgpool2d,
    batchnorm,
    channel_add,
    channel_sum,
    compare,
    concat,
    conv2d,
    conv_transpose2d,
    dense,
    elementwise,
    expand,
    gather,
    matmul,
    maxpool2d,
    mse,
    reduce,
    relu,
    resize,
    rownorm,
    sgd,
    slice,
    softmax,
    softmax_xent,
    transpose,
    where,
)

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {operator.name: operator for module in _MODULES for operator in module.OPERATORS}
)
