"""What the tensors of a program are called on the board, and what they are called in the model."""

from __future__ import annotations

from poet_mcu.cnames import board_names
from poet_mcu.ir.graph import Graph, Role, Value

#: roles that the board offers, in this order of tensors: that of the training graph's values
OFFERED = (
    Role.INPUT,
    Role.LABEL,
    Role.PARAMETER,
    Role.STATE,
    Role.STATISTIC,
    Role.CONSTANT,
    Role.LOSS,
)


def tensor_name(value: Value) -> str:
    """The ONNX name of a value where it has one."""
    return value.origin or value.name


def full_names(graph: Graph) -> dict[str, str]:
    """The ``tensor_name`` of each tensor of a training graph, by the name that the board tells.

    They differ where a name is longer than the board tells, or taken.
    """
    names = [tensor_name(value) for value in graph.with_role(*OFFERED)]
    return dict(zip(board_names(names), names, strict=True))
