"""What is wrong with a model, node by node, and the words for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from poet_mcu.errors import ModelError


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why the model cannot be built.

    ``node`` says where: ``node 3 'conv2'``, ``input 'x'`` or ``model``; ``op`` is the ONNX
    operator ('' when the problem is not a node's); ``message`` says what is wrong and what to do.
    """

    node: str
    op: str
    message: str

    def __str__(self) -> str:
        where = f"{self.node} ({self.op})" if self.op else self.node
        return f"{where}: {self.message}"


class SkipNode(Exception):
    """An operand is unknown because its producer was refused already: say nothing more."""


def node_label(index: int, node: onnx.NodeProto) -> str:
    """``node 3 'name'``, or by its output when the node has no name."""
    if node.name:
        return f"node {index} '{node.name}'"
    first = next((name for name in node.output if name), "")
    return f"node {index} -> '{first}'"


def node_op(node: onnx.NodeProto) -> str:
    """The operator with its domain when that is not ONNX's own."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


class UnsupportedModel(ModelError):
    """All ``problems`` of a model at once, one or more."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        if len(problems) == 1:
            super().__init__(f"{path}: {problems[0]}")
            return
        count = len(problems)
        head = f"{path}: expected a supported model, got {count} problems; change these first:"
        super().__init__("\n  ".join([head, *map(str, problems)]))


def raise_problems(path: Path, problems: Sequence[Problem]) -> None:
    """Raise one UnsupportedModel that lists all ``problems``; return when there are none."""
    if problems:
        raise UnsupportedModel(path, problems)
