"""From complete gradients to updates: accumulation, clipping, the optimizer's node.

Without either, an update follows its gradient at once, so that no gradient lives longer than it
must. With accumulation the gradients of several batches are summed in state; everything that only
the last batch of an update does stands in phase UPDATE, which the trainer leaves out before. With
clipping all updates wait for the norm, so all gradients live to the end of the step: the planner
sees that and may page them. (Accumulated ones live in state anyway.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from poet_mcu.ir.graph import Phase, Role, Value
from poet_mcu.ops.builder import GraphBuilder
from poet_mcu.ops.operator import Attrs
from poet_mcu.training.recipe import Recipe

#: operator, names of its state, attributes
Rule = Callable[[Recipe], tuple[str, tuple[str, ...], Attrs]]


def _sgd(recipe: Recipe) -> tuple[str, tuple[str, ...], Attrs]:
    if recipe.decay == 0:
        return "sgd", (), {}
    return "sgd_decay", (), {"weight_decay": recipe.decay}


def _momentum(recipe: Recipe) -> tuple[str, tuple[str, ...], Attrs]:
    attrs = {
        "momentum": recipe.momentum,
        "weight_decay": recipe.decay,
        "nesterov": int(recipe.optimizer == "nesterov"),
    }
    return "momentum", ("velocity",), attrs


def _adam(recipe: Recipe) -> tuple[str, tuple[str, ...], Attrs]:
    attrs = {
        "beta1": recipe.beta1,
        "beta2": recipe.beta2,
        "eps": recipe.eps,
        "weight_decay": recipe.decay,
        "decoupled": int(recipe.optimizer == "adamw"),
    }
    return "adam", ("mean", "square"), attrs


def _rmsprop(recipe: Recipe) -> tuple[str, tuple[str, ...], Attrs]:
    attrs = {"alpha": recipe.alpha, "eps": recipe.eps, "weight_decay": recipe.decay}
    return "rmsprop", ("square",), attrs


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "sgd": _sgd,
        "momentum": _momentum,
        "nesterov": _momentum,
        "adam": _adam,
        "adamw": _adam,
        "rmsprop": _rmsprop,
    }
)


@dataclass(slots=True)
class Updates:
    """Emits the updates of one training graph into ``build``."""

    build: GraphBuilder
    recipe: Recipe
    waiting: list[tuple[Value, Value]] = field(default_factory=list)
    norm: Value | None = None

    def ready(self, parameter: Value, gradient: Value) -> None:
        """The gradient is complete, and nothing reads the old parameter any more."""
        if self.recipe.accumulate > 1:
            gradient = self._accumulated(parameter, gradient)
        self.build.phase = Phase.UPDATE
        if self.recipe.clip_norm is None:
            self._update(parameter, gradient)
        else:
            before = () if self.norm is None else (self.norm,)
            self.norm = self.build.emit("square_sum", (gradient, *before), {}, "squared_norm")[0]
            self.waiting.append((parameter, gradient))
        self.build.phase = Phase.BACKWARD

    def finish(self) -> None:
        """All gradients are complete: emit the updates that wait for their norm."""
        if self.norm is None or self.recipe.clip_norm is None:
            return
        self.build.phase = Phase.UPDATE
        attrs = {"most": self.recipe.clip_norm}
        factor = self.build.emit("clip_factor", (self.norm,), attrs, "clip_factor")[0]
        for parameter, gradient in self.waiting:
            if gradient.role is Role.STATE:
                self.build.emit("scale_state", (gradient, factor), {}, f"clip {gradient.name}")
                self._update(parameter, gradient)
            else:
                name = f"{gradient.name}_clipped"
                clipped = self.build.emit("scale_gradient", (gradient, factor), {}, name)[0]
                self._update(parameter, clipped)

    def _state(self, parameter: Value, what: str) -> Value:
        name = f"{parameter.origin or parameter.name}:{what}"
        return self.build.value(name, parameter.type, Role.STATE)

    def _accumulated(self, parameter: Value, gradient: Value) -> Value:
        total = self._state(parameter, "gradient")
        attrs = {"scale": 1 / self.recipe.accumulate}
        self.build.phase = Phase.BACKWARD
        self.build.emit("accumulate", (total, gradient), attrs, total.name)
        return total

    def _update(self, parameter: Value, gradient: Value) -> None:
        operator, names, attrs = RULES[self.recipe.optimizer](self.recipe)
        state = [self._state(parameter, name) for name in names]
        inputs = (parameter, gradient, *state)
        self.build.emit(operator, inputs, attrs, f"update_{parameter.name}", parameter.origin)
        if gradient.role is Role.STATE:
            self.build.emit("clear", (gradient,), {}, f"clear_{gradient.name}")
