"""The graph run operator by operator in numpy with everything kept: what every plan must equal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from poet_mcu.ir.graph import Graph, Phase, Role
from poet_mcu.ops.operator import Array
from poet_mcu.ops.table import OPERATORS
from poet_mcu.sim.moment import FIRST, Moment


def run_plain(
    graph: Graph,
    state: Mapping[int, Array],
    feeds: Mapping[int, Array],
    lr: float,
    moment: Moment = FIRST,
) -> dict[int, Array]:
    """All values by root id after one step.

    ``state`` holds parameters, constants and optimizer state (zeros where absent); it is not
    changed, the updated arrays stand in the result. ``lr`` is the rate of this step, after its
    schedule. In a step without update no value that only updates make is in the result.
    """
    values: dict[int, Array] = {
        value.id: np.zeros(value.shape, value.type.dtype.numpy)
        for value in graph.with_role(Role.STATE)
    }
    values.update(state)
    values.update(feeds)
    for node in graph.nodes:
        if node.phase is Phase.UPDATE and not moment.update:
            continue
        inputs = [
            np.ascontiguousarray(values[graph.root(v)]).reshape(graph.values[v].shape)
            for v in node.inputs
        ]
        attrs = moment.attrs(node, lr)
        results = OPERATORS[node.op].reference(inputs, attrs)
        values.update(zip((*node.outputs, *node.mutates), results, strict=True))
    return values
