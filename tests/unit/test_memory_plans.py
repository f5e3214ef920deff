"""Plans for the tests of verifiers and packing: one small good plan, and random valid ones."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from poet_mcu.ir.graph import HOME_RAM, HOST_WRITTEN, DType, Graph, Node, Phase, Role, Value
from poet_mcu.ir.graph import TensorType as T
from poet_mcu.ir.schedule import Action, ActionKind, Schedule
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.ir.verify_schedule import verify_schedule
from poet_mcu.units import round_up

X, LABEL, W, C, M, A, R, V, P, LOSS, GP, GW = range(12)


def padded(graph: Graph, alignment: int = 32) -> dict[int, int]:
    return {v.id: round_up(v.type.nbytes, alignment) for v in graph.values if v.base is None}


def compute(node: int, *in_place: tuple[int, int], again: bool = False) -> Action:
    return Action(ActionKind.COMPUTE, node, tuple(in_place), again)


def page_out(value: int) -> Action:
    return Action(ActionKind.PAGE_OUT, value)


def page_in(value: int) -> Action:
    return Action(ActionKind.PAGE_IN, value)


def wait(value: int) -> Action:
    return Action(ActionKind.WAIT, value)


def free(value: int) -> Action:
    return Action(ActionKind.FREE, value)


def tiny_graph() -> Graph:
    """Input, frozen bias, relu, a view, dense, loss, its gradient, dW, momentum update."""
    values = (
        Value(X, "x", T((4, 4)), Role.INPUT),
        Value(LABEL, "t", T((1,), DType.I32), Role.LABEL),
        Value(W, "w", T((4, 4)), Role.PARAMETER, origin="fc.weight"),
        Value(C, "c", T((4,)), Role.CONSTANT),
        Value(M, "m", T((4, 4)), Role.STATE),
        Value(A, "a", T((16,)), Role.ACTIVATION),
        Value(R, "r", T((16,)), Role.ACTIVATION),
        Value(V, "v", T((4, 4)), Role.ACTIVATION, base=R),
        Value(P, "p", T((4, 4)), Role.ACTIVATION),
        Value(LOSS, "loss", T(()), Role.LOSS),
        Value(GP, "gp", T((4, 4)), Role.GRADIENT),
        Value(GW, "gw", T((4, 4)), Role.GRADIENT),
    )
    nodes = (
        Node(0, "bias", (X, C), (A,), {}, Phase.FORWARD),
        Node(1, "relu", (A,), (R,), {}, Phase.FORWARD),
        Node(2, "dense", (V, W), (P,), {"units": 4}, Phase.FORWARD, origin="fc"),
        Node(3, "xent", (P, LABEL), (LOSS,), {}, Phase.LOSS),
        Node(4, "xent_bwd", (P, LABEL), (GP,), {}, Phase.BACKWARD),
        Node(5, "dense_bwd_w", (V, GP), (GW,), {}, Phase.BACKWARD),
        Node(6, "momentum", (W, GW, M), (), {}, Phase.UPDATE, mutates=(W, M)),
    )
    initial = {W: np.zeros((4, 4), np.float32), C: np.ones(4, np.float32)}
    return Graph("tiny", values, nodes, (LOSS,), initial)


def tiny_schedule() -> Schedule:
    """Pages r, writes gp over p, recomputes a; every kind of action occurs."""
    return Schedule(
        (
            compute(0),  # 0
            compute(1),  # 1
            page_out(R),  # 2
            compute(2),  # 3: reads r while it is written
            wait(R),  # 4
            free(R),  # 5
            free(A),  # 6
            compute(3),  # 7
            compute(4, (GP, P)),  # 8
            free(LABEL),  # 9
            page_in(R),  # 10
            wait(R),  # 11
            compute(5),  # 12
            free(R),  # 13
            free(GP),  # 14
            compute(6),  # 15
            free(GW),  # 16
            compute(0, again=True),  # 17
            free(A),  # 18
            free(X),  # 19
        )
    )


TINY_WORKSPACE = {2: 40, 5: 33}


def random_graph(seed: int) -> Graph:
    """A training graph of 4 to 12 forward nodes with views, shared parameters and two outputs."""
    return _GraphMaker(random.Random(seed)).make(seed)


class _GraphMaker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.values: list[Value] = []
        self.nodes: list[Node] = []

    def value(self, role: Role, base: int | None = None) -> int:
        value_id = len(self.values)
        shape = (self.rng.choice((1, 2, 3, 7, 8, 9, 31, 33, 64, 100)),)
        dtype = DType.F32 if role is not Role.ACTIVATION else self.rng.choice((DType.F32, DType.U8))
        tensor = T(shape, dtype)
        if base is not None:
            tensor = T((1, *self.values[base].shape), self.values[base].type.dtype)
        if role is Role.LOSS:
            tensor = T(())
        self.values.append(Value(value_id, f"n{value_id}", tensor, role, base=base))
        return value_id

    def node(
        self, inputs: list[int], outputs: list[int], phase: Phase, mutates: tuple[int, ...] = ()
    ) -> None:
        node = Node(
            len(self.nodes), "op", tuple(inputs), tuple(outputs), {}, phase, mutates=mutates
        )
        self.nodes.append(node)

    def make(self, seed: int) -> Graph:
        rng = self.rng
        live = [self.value(Role.INPUT)]
        label = self.value(Role.LABEL)
        params = [self.value(Role.PARAMETER) for _ in range(rng.randint(1, 3))]
        states = {p: self.value(Role.STATE) for p in params if rng.random() < 0.5}
        frozen = [self.value(Role.CONSTANT)]
        for _ in range(rng.randint(4, 12)):
            inputs = rng.sample(live, min(len(live), rng.randint(1, 2)))
            inputs += rng.sample(params + frozen, rng.randint(0, 1))
            outputs = [self.value(Role.ACTIVATION) for _ in range(rng.choice((1, 1, 1, 2)))]
            self.node(inputs, outputs, Phase.FORWARD)
            live += outputs
            if rng.random() < 0.2:
                live.append(self.value(Role.ACTIVATION, base=outputs[0]))
        loss = self.value(Role.LOSS)
        self.node([live[-1], label], [loss], Phase.LOSS)
        left = list(params)
        grad = live[-1]
        for turn in range(rng.randint(len(params), len(params) + 6)):
            new = self.value(Role.GRADIENT)
            self.node([grad, rng.choice(live), *left[:1]], [new], Phase.BACKWARD)
            grad = new
            if left and (turn >= len(params) - 1 or rng.random() < 0.5):
                param = left.pop()
                touched = [param] + ([states[param]] if param in states else [])
                self.node([*touched, grad], [], Phase.UPDATE, tuple(touched))
        for param in left:
            touched = [param] + ([states[param]] if param in states else [])
            self.node([*touched, grad], [], Phase.UPDATE, tuple(touched))
        initial = {
            i: np.zeros(self.values[i].shape, self.values[i].type.dtype.numpy)
            for i in params + frozen
        }
        return Graph(f"random{seed}", tuple(self.values), tuple(self.nodes), (loss,), initial)


@dataclass
class _Planner:
    """Runs the nodes in order and drops, pages and recomputes at random on the way."""

    graph: Graph
    rng: random.Random
    sizes: dict[int, int]
    actions: list[Action] = field(default_factory=list)
    resident: set[int] = field(default_factory=set)
    on_card: set[int] = field(default_factory=set)
    transfer: tuple[int, bool] | None = None  # value, is page-out

    def __post_init__(self) -> None:
        graph = self.graph
        self.home = {v.id for v in graph.values if v.role in HOME_RAM or v.role is Role.CONSTANT}
        self.resident = {v.id for v in graph.with_role(*HOST_WRITTEN)}
        self.maker = {out: node for node in graph.nodes for out in node.outputs}
        self.readers = {v.id: self._reads(v.id) for v in graph.values}
        self.updated = {m: node.id for node in graph.nodes for m in node.mutates}

    def _reads(self, value: int) -> list[int]:
        return [n.id for n in self.graph.nodes if value in {self.graph.root(i) for i in n.inputs}]

    def plan(self) -> Schedule:
        for node in self.graph.nodes:
            inputs = {self.graph.root(i) for i in node.inputs} - self.home
            for value in sorted(inputs):
                self._obtain(value)
            for value in sorted(inputs):  # a recompute may have dropped and remade siblings
                assert value in self.resident
                self._settle(value)
            self._run(node)
            self._drop(node.id)
        self._settle(None)
        return Schedule(tuple(self.actions))

    def _run(self, node: Node) -> None:
        pairs: tuple[tuple[int, int], ...] = ()
        options = [
            (out, value)
            for out in node.outputs
            for value in sorted({self.graph.root(i) for i in node.inputs} - self.home)
            if self.sizes[out] <= self.sizes[value] and self._may_go(value, node.id)
        ]
        if options and self.rng.random() < 0.5:
            pairs = (self.rng.choice(options),)
            self._settle(pairs[0][1])
            self.resident.discard(pairs[0][1])
        self.actions.append(compute(node.id, *pairs))
        self.resident.update(node.outputs)

    def _last(self, value: int) -> int:
        return max(self.readers[value], default=-1)

    def _may_go(self, value: int, now: int) -> bool:
        """Whether the value is dead after node ``now`` or can be had again when it is needed."""
        if value in self.graph.outputs:
            return False
        if self._last(value) <= now or value in self.on_card:
            return True
        return self._remakeable(value, self._last(value))

    def _remakeable(self, value: int, until: int) -> bool:
        if value in self.on_card:
            return True
        node = self.maker.get(value)
        if node is None or node.mutates:
            return False
        for operand in {self.graph.root(i) for i in node.inputs}:
            if operand in self.home:
                if self.updated.get(operand, until) < until:
                    return False
            elif not self._remakeable(operand, until):
                return False
        return True

    def _settle(self, value: int | None) -> None:
        """Wait for the transfer of ``value`` (None: of any value) if there is one."""
        if self.transfer is None or (value is not None and self.transfer[0] != value):
            return
        done, out = self.transfer
        self.actions.append(wait(done))
        if out:
            self.on_card.add(done)
        self.transfer = None

    def _start(self, value: int, out: bool) -> None:
        self._settle(None)
        self.actions.append(page_out(value) if out else page_in(value))
        self.transfer = (value, out)
        self.resident.add(value)

    def _obtain(self, value: int) -> None:
        if value in self.resident:
            self._settle_in(value)
            return
        if value in self.on_card:
            self._start(value, out=False)
            self._settle_in(value)
            return
        node = self.maker[value]
        inputs = sorted({self.graph.root(i) for i in node.inputs} - self.home)
        for operand in inputs:
            self._obtain(operand)
        for output in node.outputs:
            if output in self.resident:
                self._free(output)
        self.actions.append(compute(node.id, again=True))
        self.resident.update(node.outputs)

    def _settle_in(self, value: int) -> None:
        if self.transfer == (value, False):
            self._settle(value)

    def _free(self, value: int) -> None:
        self._settle(value)
        self.actions.append(free(value))
        self.resident.discard(value)

    def _drop(self, now: int) -> None:
        for value in sorted(self.resident - set(self.graph.outputs)):
            if self._last(value) <= now:
                self._free(value)
                continue
            if self.rng.random() < 0.3 and value not in self.on_card:
                self._settle(value)
                if value not in self.on_card:
                    self._start(value, out=True)
            if self.rng.random() < 0.5:
                self._settle(value)
                if self._may_go(value, now):
                    self._free(value)
        waiting = sorted(self.on_card - self.resident)
        wanted = [v for v in waiting if self._last(v) > now]
        if wanted and self.rng.random() < 0.4:
            self._start(self.rng.choice(wanted), out=False)


def random_schedule(graph: Graph, seed: int, sizes: dict[int, int]) -> Schedule:
    return _Planner(graph, random.Random(seed), sizes).plan()


def test_tiny_plan_is_good():
    verify_graph(tiny_graph(), training=True)
    verify_schedule(tiny_graph(), tiny_schedule(), padded(tiny_graph()))


@pytest.mark.parametrize("seed", range(150))
def test_random_plans_are_good(seed):
    graph = random_graph(seed)
    verify_graph(graph, training=True)
    sizes = padded(graph)
    verify_schedule(graph, random_schedule(graph, seed, sizes), sizes)


def test_random_plans_use_everything():
    seen = {"recompute": 0, "in_place": 0, "page_in": 0, "beside": 0}
    for seed in range(100):
        graph = random_graph(seed)
        actions = random_schedule(graph, seed, padded(graph)).actions
        seen["recompute"] += sum(a.recompute for a in actions)
        seen["in_place"] += sum(bool(a.in_place) for a in actions)
        seen["page_in"] += sum(a.kind is ActionKind.PAGE_IN for a in actions)
        pairs = itertools.pairwise(actions)
        seen["beside"] += sum(
            a.kind in (ActionKind.PAGE_IN, ActionKind.PAGE_OUT) and b.kind is ActionKind.COMPUTE
            for a, b in pairs
        )
    assert min(seen.values()) > 50, seen
