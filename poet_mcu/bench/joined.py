"""Rows of the benchmark for two nodes in one: updates in gradients, activations at ends."""

from __future__ import annotations

from dataclasses import replace

from poet_mcu.bench.case import Case, floats
from poet_mcu.bench.cases import common_cases, conv, dense, forms
from poet_mcu.ir.graph import Attr
from poet_mcu.ops.fused_update import fused_name

#: the cases that stand for kernels with an activation at their end
ENDED = ("c16x32x16_fwd", "fc256x64_n16_fwd", "v1024_add", "s2_16x32x16_fwd_packed_wide")


def ended() -> list[Case]:
    """Kernels with a rectifier at their end."""
    return [
        replace(case, name=f"{case.name}_relu", attrs={**case.attrs, "ending": "relu"})
        for case in common_cases()
        if case.name in ENDED
    ]


def joined() -> list[Case]:
    """Gradients that end in their update, with one band and with many."""
    decay: dict[str, Attr] = {"weight_decay": 0.01}
    rules: dict[str, tuple[int, dict[str, Attr]]] = {
        "sgd": (0, {}),
        "sgd_decay": (0, decay),
        "momentum": (1, {**decay, "momentum": 0.9, "nesterov": 1}),
        "adam": (2, {**decay, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decoupled": 1}),
        "rmsprop": (1, {**decay, "alpha": 0.99, "eps": 1e-8}),
    }
    cases: list[Case] = []
    gradients = conv("c16x32x8", 1, 16, 8, 32, 3)[2:]
    gradients += [dense(f"fc256x64_n{n}", n, 256, 64)[2] for n in (1, 16)]
    gradients.append(Case("bias32", "channel_sum", floats((1, 32, 8, 8))))
    for gradient in gradients:
        for rule, (states, attrs) in rules.items():
            case = Case(
                f"{gradient.name}_{rule}",
                fused_name(gradient.op, rule),
                (*gradient.inputs, *gradient.outputs * (1 + states)),
                {**gradient.attrs, **attrs},
                low=0.01,
            )
            cases += [case, *forms(case)[-1:]]
    return cases
