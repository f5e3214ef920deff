"""Checks a Schedule by walking it as a state machine; the rules are those of ``ir/schedule.py``.

It shares no code with the planner that makes schedules, and runs on every build.
"""

from __future__ import annotations

from collections.abc import Mapping

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import HOME_FLASH, HOST_WRITTEN, Graph
from poet_mcu.ir.schedule import Action, ActionKind, Schedule


def verify_schedule(
    graph: Graph,
    schedule: Schedule,
    sizes: Mapping[int, int] | None = None,
    not_recomputable: frozenset[int] = frozenset(),
    transfers_at_once: int = 1,
) -> None:
    """Return if the schedule computes the graph once, from valid operands, and leaks nothing.

    Args:
        graph: a graph that ``verify_graph`` accepts.
        schedule: the actions to check.
        sizes: padded bytes by root value id, for the in-place rule; dense bytes when None.
        not_recomputable: node ids that must run exactly once, beside those that mutate.
        transfers_at_once: how many transfers may be under way; the page store of the firmware
            carries one.

    Raises:
        InternalError: names the first action that breaks a rule and the rule.
    """
    if sizes is None:
        sizes = {value.id: value.type.nbytes for value in graph.values}
    walk = _Walk(graph, sizes, not_recomputable, transfers_at_once)
    for index, action in enumerate(schedule.actions):
        walk.step(index, action)
    walk.finish(len(schedule.actions))


class _Walk:
    """What is resident, valid, in transfer and on the card before the next action."""

    def __init__(
        self,
        graph: Graph,
        sizes: Mapping[int, int],
        not_recomputable: frozenset[int],
        transfers_at_once: int,
    ) -> None:
        self.graph = graph
        self.sizes = sizes
        self.once = not_recomputable | {node.id for node in graph.nodes if node.mutates}
        self.transfers_at_once = transfers_at_once
        self.home = {v.id for v in (*graph.home_ram(), *graph.with_role(*HOME_FLASH))}
        self.resident = {v.id for v in graph.with_role(*HOST_WRITTEN)}
        self.valid = set(self.resident)
        self.transfer: dict[int, ActionKind] = {}
        self.on_card = set(graph.card_homes)
        self.computed: set[int] = set()
        self.mutated: set[int] = set()
        self.where = ""

    def step(self, index: int, action: Action) -> None:
        """Check one action against the state, then apply it."""
        self.where = f"action {index} ({action.kind.value} {action.subject})"
        if action.kind is ActionKind.COMPUTE:
            self._compute(action)
            return
        self._check_subject(action)
        if action.kind is ActionKind.PAGE_OUT:
            self._page_out(action.subject)
        elif action.kind is ActionKind.PAGE_IN:
            self._page_in(action.subject)
        elif action.kind is ActionKind.WAIT:
            self._wait(action.subject)
        else:
            self._free(action.subject)

    def finish(self, actions: int) -> None:
        """Check what must hold when the step ends."""
        self.where = f"end of the step (after {actions} actions)"
        missing = sorted({node.id for node in self.graph.nodes} - self.computed)
        if missing:
            self._fail("every node computed", f"none of nodes {missing}")
        if self.transfer:
            self._fail("no transfer under way", f"values {sorted(self.transfer)}")
        outputs = {self.graph.root(value) for value in self.graph.outputs}
        absent = sorted(outputs - self.home - (self.resident & self.valid))
        if absent:
            self._fail("the graph's outputs resident and valid", f"values {absent} missing")
        stale = sorted(self.graph.card_homes - self.on_card)
        if stale:
            self._fail("every home on the card up to date", f"values {stale} not written back")
        leaked = sorted(self.resident - outputs)
        if leaked:
            self._fail("everything else freed", f"values {leaked} still resident")

    def _fail(self, expected: str, got: str) -> None:
        raise InternalError(
            f"schedule: {self.where}: expected {expected}, got {got}; "
            "this is a bug in the planner or in schedule/decode.py"
        )

    def _name(self, value_id: int) -> str:
        return f"value {value_id} '{self.graph.values[value_id].name}'"

    def _check_subject(self, action: Action) -> None:
        value = action.subject
        if not 0 <= value < len(self.graph.values):
            self._fail("a value of the graph", f"id {value}")
        if self.graph.values[value].base is not None:
            self._fail("a root value", f"the view {self._name(value)}")
        if value in self.home:
            role = self.graph.values[value].role.value
            self._fail("a value without a home", f"{self._name(value)} of role {role}")
        if action.in_place or action.recompute:
            self._fail("in_place and recompute on a compute only", f"{action}")

    def _check_no_transfer(self, value: int) -> None:
        if value in self.transfer:
            self._fail(
                f"no transfer of {self._name(value)} under way",
                f"a {self.transfer[value].value} that was not waited for",
            )

    def _check_readable(self, value: int) -> None:
        if value in self.home:
            return
        if value not in self.resident:
            self._fail(f"{self._name(value)} resident", "a value that is not")
        if value not in self.valid:
            self._fail(f"{self._name(value)} valid", "a page-in that was not waited for")

    def _page_out(self, value: int) -> None:
        self._check_readable(value)
        self._check_no_transfer(value)
        self._start(value, ActionKind.PAGE_OUT)

    def _page_in(self, value: int) -> None:
        self._check_no_transfer(value)
        if value in self.resident:
            self._fail(f"{self._name(value)} not resident", "a value that is")
        if value not in self.on_card:
            self._fail(f"a written page of {self._name(value)}", "none")
        self._start(value, ActionKind.PAGE_IN)
        self.resident.add(value)
        self.valid.discard(value)

    def _start(self, value: int, kind: ActionKind) -> None:
        if len(self.transfer) >= self.transfers_at_once:
            self._fail(
                f"at most {self.transfers_at_once} transfer(s) under way",
                f"another beside those of values {sorted(self.transfer)}",
            )
        self.transfer[value] = kind

    def _wait(self, value: int) -> None:
        if value not in self.transfer:
            self._fail(f"a transfer of {self._name(value)} under way", "none")
        if self.transfer.pop(value) is ActionKind.PAGE_OUT:
            self.on_card.add(value)
        else:
            self.valid.add(value)

    def _free(self, value: int) -> None:
        if value not in self.resident:
            self._fail(f"{self._name(value)} resident", "a value that is not")
        self._check_no_transfer(value)
        self._end(value)

    def _end(self, value: int) -> None:
        self.resident.discard(value)
        self.valid.discard(value)

    def _compute(self, action: Action) -> None:
        if not 0 <= action.subject < len(self.graph.nodes):
            self._fail("a node of the graph", f"id {action.subject}")
        node = self.graph.nodes[action.subject]
        self.where += f" {node.op}"
        inputs = [self.graph.root(value) for value in node.inputs]
        outputs = [self.graph.root(value) for value in node.outputs]
        self._check_turn(action, inputs)
        for value in inputs:
            self._check_readable(value)
        self._check_in_place(action, inputs, outputs)
        for value in outputs:
            self._check_no_transfer(value)
            if value in self.resident:
                self._fail(f"output {self._name(value)} not resident", "a value that is")
        mutated = {self.graph.root(value) for value in node.mutates}
        for value in mutated:
            self._check_no_transfer(value)
        self.on_card -= mutated
        for _, taken in action.in_place:
            self._end(taken)
        self.resident.update(outputs)
        self.valid.update(outputs)
        self.computed.add(node.id)
        self.mutated.update(mutated)

    def _check_turn(self, action: Action, inputs: list[int]) -> None:
        """Order of first computes, the recompute mark, and what may run again."""
        node = action.subject
        again = node in self.computed
        if action.recompute != again:
            self._fail(f"recompute={again}", f"recompute={action.recompute}")
        if again:
            if node in self.once:
                self._fail("this node to run exactly once", "a second run")
            changed = sorted(set(inputs) & self.mutated)
            if changed:
                self._fail(
                    "a recompute to read the parameters of the first run",
                    f"values {changed} that were updated in between",
                )
        elif node != len(self.computed):
            self._fail(f"node {len(self.computed)} first, in the order of the graph", f"{node}")

    def _check_in_place(self, action: Action, inputs: list[int], outputs: list[int]) -> None:
        made = [out for out, _ in action.in_place]
        taken = [value for _, value in action.in_place]
        if len(set(made)) != len(made) or len(set(taken)) != len(taken):
            self._fail("each value in one in-place pair", f"{action.in_place}")
        for out, value in action.in_place:
            if out not in outputs:
                self._fail("an in-place output of this node", f"value {out}")
            if value not in inputs:
                self._fail("an in-place input of this node", f"value {value}")
            if value in self.home or value in self.graph.card_homes:
                self._fail("an in-place input without a home", self._name(value))
            self._check_no_transfer(value)
            if self.sizes[out] > self.sizes[value]:
                self._fail(
                    f"an in-place output of at most {self.sizes[value]} bytes",
                    f"{self.sizes[out]} of {self._name(out)}",
                )
