"""LSTM, GRU and RNN, with and without states, peepholes and both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models import node, weights

from golden_cases.case import Array, Case

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_STEPS, _BATCH, _SIZE, _HIDDEN = 3, 2, 3, 2


def _tensors(kind: str, directions: int, wanted: set[str]) -> dict[str, Array]:
    rows = _GATES[kind] * _HIDDEN
    shapes = {
        "w": (rows, _SIZE),
        "r": (rows, _HIDDEN),
        "b": (2 * rows,),
        "h0": (_BATCH, _HIDDEN),
        "c0": (_BATCH, _HIDDEN),
        "p": (3 * _HIDDEN,),
    }
    seeds = {name: seed for seed, name in enumerate(shapes)}
    return {
        n: weights(directions, *shape, seed=seeds[n]) for n, shape in shapes.items() if n in wanted
    }


def _nodes(kind: str, inputs: str, states: bool, attrs: Mapping[str, Any]) -> list[Any]:
    if not states:
        return [node(kind, inputs, "y", **attrs)]
    lstm = kind == "LSTM"
    first = node(kind, inputs, "a last_h last_c" if lstm else "a last_h", **attrs)
    last = node("Add", "b1 last_c", "y") if lstm else node("Neg", "b1", "y")
    return [first, node("Add", "a last_h", "b1"), last]


def _cell(
    kind: str,
    direction: str = "forward",
    given: str = "b",
    states: bool = False,
    **attrs: Any,
) -> Case:
    """``given`` names the optional inputs; with ``states`` the last ones are outputs too."""
    wanted = {"h", "w", "r", *given.split()}
    places = ["h", "w", "r", "b", "-", "h0", *(("c0", "p") if kind == "LSTM" else ())]
    inputs = " ".join(name if name in wanted else "-" for name in places)
    options = {"hidden_size": _HIDDEN, "direction": direction, **attrs}

    def torch(t: Any, f: Any, h: Any, w: Any) -> Any:
        import recurrent  # noqa: PLC0415 - it needs PyTorch, the cases do not

        y, last_h, last_c = recurrent.run(kind, h, w, direction=direction, **attrs)
        if not states:
            return y
        return y + last_h + last_c if kind == "LSTM" else -(y + last_h)

    return Case(
        _nodes(kind, inputs, states, options),
        (_STEPS, _BATCH, _SIZE),
        torch,
        _tensors(kind, 2 if direction == "bidirectional" else 1, wanted),
        exp=True,
    )


CASES = {
    "lstm": _cell("LSTM"),
    "lstm without bias": _cell("LSTM", given=""),
    "lstm reverse": _cell("LSTM", "reverse"),
    "lstm both ways, all inputs": _cell("LSTM", "bidirectional", "b h0 c0 p", states=True),
    "lstm last states": _cell("LSTM", states=True),
    "gru": _cell("GRU"),
    "gru linear before reset": _cell("GRU", linear_before_reset=1),
    "gru both ways, all inputs": _cell("GRU", "bidirectional", "b h0", states=True),
    "gru reverse, linear before reset": _cell("GRU", "reverse", "b h0", linear_before_reset=1),
    "rnn": _cell("RNN"),
    "rnn relu": _cell("RNN", activations=["Relu"]),
    "rnn both ways, all inputs": _cell("RNN", "bidirectional", "b h0", states=True),
}
