"""The table of operators: the only place that lists them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poet_mcu.ops import (
    accumulate,
    activations,
    adam,
    add,
    avgpool2d,
    batchnorm,
    bce,
    channel_add,
    channel_sum,
    clip_norm,
    compare,
    concat,
    conv2d,
    conv_transpose2d,
    dense,
    elementwise,
    expand,
    fused_update,
    gather,
    huber,
    l1,
    matmul,
    maxpool2d,
    momentum,
    mse,
    reduce,
    relu,
    resize,
    rmsprop,
    rownorm,
    scalar_loss,
    sgd,
    slice,  # noqa: A004 - the operator's name
    softmax,
    softmax_xent,
    transpose,
    weighted_xent,
    where,
)
from poet_mcu.ops.operator import Operator

_MODULES = (
    accumulate,
    activations,
    adam,
    add,
    avgpool2d,
    batchnorm,
    bce,
    channel_add,
    channel_sum,
    clip_norm,
    compare,
    concat,
    conv2d,
    conv_transpose2d,
    dense,
    elementwise,
    expand,
    fused_update,
    gather,
    huber,
    l1,
    matmul,
    maxpool2d,
    momentum,
    mse,
    reduce,
    relu,
    resize,
    rmsprop,
    rownorm,
    scalar_loss,
    sgd,
    slice,
    softmax,
    softmax_xent,
    transpose,
    weighted_xent,
    where,
)

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {operator.name: operator for module in _MODULES for operator in module.OPERATORS}
)
