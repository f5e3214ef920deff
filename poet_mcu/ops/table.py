"""The table of operators: the only place that lists them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poet_mcu.ops import (
    accumulate,
    adam,
    add,
    bce,
    channel_sum,
    clip_norm,
    conv2d,
    dense,
    huber,
    l1,
    maxpool2d,
    momentum,
    mse,
    relu,
    rmsprop,
    scalar_loss,
    sgd,
    softmax_xent,
    weighted_xent,
)
from poet_mcu.ops.operator import Operator

_MODULES = (
    accumulate,
    adam,
    add,
    bce,
    channel_sum,
    clip_norm,
    conv2d,
    dense,
    huber,
    l1,
    maxpool2d,
    momentum,
    mse,
    relu,
    rmsprop,
    scalar_loss,
    sgd,
    softmax_xent,
    weighted_xent,
)

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {operator.name: operator for module in _MODULES for operator in module.OPERATORS}
)
