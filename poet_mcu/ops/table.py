"""The table of operators: the only place that lists them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poet_mcu.ops import (
    activations,
    add,
    channel_sum,
    compare,
    conv2d,
    dense,
    elementwise,
    expand,
    gather,
    maxpool2d,
    mse,
    reduce,
    relu,
    sgd,
    softmax,
    softmax_xent,
    where,
)
from poet_mcu.ops.operator import Operator

_MODULES = (
    activations,
    add,
    channel_sum,
    compare,
    conv2d,
    dense,
    elementwise,
    expand,
    gather,
    maxpool2d,
    mse,
    reduce,
    relu,
    sgd,
    softmax,
    softmax_xent,
    where,
)

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {operator.name: operator for module in _MODULES for operator in module.OPERATORS}
)
