"""The table of operators: the only place that lists them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poet_mcu.ops import (
    add,
    avgpool2d,
    batchnorm,
    channel_add,
    channel_sum,
    concat,
    conv2d,
    conv_transpose2d,
    dense,
    expand,
    matmul,
    maxpool2d,
    mse,
    relu,
    resize,
    rownorm,
    sgd,
    slice,  # noqa: A004 - the operator's name
    softmax_xent,
    transpose,
)
from poet_mcu.ops.operator import Operator

_MODULES = (
    add,
    channel_sum,
    conv2d,
    dense,
    maxpool2d,
    mse,
    relu,
    sgd,
    softmax_xent,
    avgpool2d,
    batchnorm,
    channel_add,
    concat,
    conv_transpose2d,
    expand,
    matmul,
    resize,
    rownorm,
    slice,
    transpose,
)

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {operator.name: operator for module in _MODULES for operator in module.OPERATORS}
)
