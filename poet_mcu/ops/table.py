"""The table of operators: the only place that lists them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poet_mcu.ops import add, channel_sum, conv2d, dense, maxpool2d, mse, relu, sgd, softmax_xent
from poet_mcu.ops.operator import Operator

_MODULES = (add, channel_sum, conv2d, dense, maxpool2d, mse, relu, sgd, softmax_xent)

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {operator.name: operator for module in _MODULES for operator in module.OPERATORS}
)
