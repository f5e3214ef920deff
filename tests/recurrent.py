"""LSTM, GRU and RNN as the ONNX standard words them, in PyTorch, which has their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

Tensors = Mapping[str, torch.Tensor]
#: gates and default activations
KINDS = {
    "LSTM": (4, ("Sigmoid", "Tanh", "Tanh")),
    "GRU": (3, ("Sigmoid", "Tanh")),
    "RNN": (1, ("Tanh",)),
}
FUNCTIONS = {"Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Relu": torch.relu}


def _lstm(pre, h, c, r, rb, p, acts, _before):
    f, g, shown = acts
    i, o, forget, fresh = (pre + h @ r.T + rb).chunk(4, 1)
    p_i, p_o, p_f = p.chunk(3)
    i, forget = f(i + p_i * c), f(forget + p_f * c)
    c = forget * c + i * g(fresh)
    return f(o + p_o * c) * shown(c), c


def _gru(pre, h, c, r, rb, _p, acts, before):
    f, g = acts
    (z, n), (r_z, r_n), (b_z, b_n) = (
        a.split([2 * h.shape[1], h.shape[1]], -1 if a.ndim == 1 or a is pre else 0)
        for a in (pre, r, rb)
    )
    z, reset = f(z + h @ r_z.T + b_z).chunk(2, 1)
    state = reset * (h @ r_n.T + b_n) if before else (reset * h) @ r_n.T + b_n
    n = g(n + state)
    return (1 - z) * n + z * h, c


def _rnn(pre, h, c, r, rb, _p, acts, _before):
    return acts[0](pre + h @ r.T + rb), c


def run(
    kind: str,
    x: torch.Tensor,
    given: Tensors,
    *,
    direction: str = "forward",
    activations: Sequence[str] = (),
    linear_before_reset: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Y, Y_h and Y_c of x [steps, batch, size]; ``given`` has w, r and some of b, h0, c0, p."""
    gates, defaults = KINDS[kind]
    acts = [FUNCTIONS[name] for name in activations or defaults]
    directions, _, hidden = given["r"].shape
    cell = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}[kind]
    shapes = {
        "b": (directions, 2 * gates * hidden),
        "p": (directions, 3 * hidden),
        "h0": (directions, x.shape[1], hidden),
        "c0": (directions, x.shape[1], hidden),
    }
    full = {n: given.get(n, torch.zeros(s, dtype=x.dtype)) for n, s in shapes.items()}
    ys, hs, cs = [], [], []
    for d in range(directions):
        h, c = full["h0"][d], full["c0"][d]
        wb, rb = full["b"][d].chunk(2)
        back = d == 1 or direction == "reverse"
        rows = {}
        for t in range(x.shape[0])[:: -1 if back else 1]:
            pre = x[t] @ given["w"][d].T + wb
            h, c = cell(pre, h, c, given["r"][d], rb, full["p"][d], acts, linear_before_reset)
            rows[t] = h
        ys.append(torch.stack([rows[t] for t in range(x.shape[0])]))
        hs.append(h)
        cs.append(c)
    return torch.stack(ys, 1), torch.stack(hs), torch.stack(cs)
