"""The integer program against an exhaustive search over all valid action sequences."""

import heapq
import itertools
import random
from dataclasses import replace

import pytest

from poet_mcu.schedule import (
    SolveOptions,
    SolveStatus,
    check_budget,
    free_early,
    largest_working_set,
    minimum_memory,
    shortest_deadline,
    simulate,
    solve,
)
from poet_mcu.schedule.problem import Op, Problem, Tensor


class Oracle:
    """Dijkstra over (ops done, resident set, pages); labels also carry time for the deadline.

    Shares nothing with the planner: recomputes in any order and number, at any place, page-outs
    at any time, every choice of in-place pairs.
    """

    def __init__(self, problem, *, paging=True, remat=True):
        self.problem = problem
        self.paging, self.remat = paging, remat
        self.bit = {t.id: 1 << k for k, t in enumerate(problem.tensors)}
        self.sizes = {self.bit[t.id]: t.nbytes for t in problem.tensors}
        self.end = sum(self.bit[t.id] for t in problem.tensors if t.at_end)
        self.start = sum(self.bit[t.id] for t in problem.tensors if t.at_start)
        self.known = {}

    def total(self, mask):
        if mask not in self.known:
            self.known[mask] = sum(n for b, n in self.sizes.items() if b & mask)
        return self.known[mask]

    def runs(self, op, resident):
        """(bytes during, resident after) for every way to run ``op``; nothing if it cannot."""
        ins = sum(self.bit[i] for i in op.inputs)
        outs = sum(self.bit[i] for i in op.outputs)
        if ins & ~resident or outs & resident:
            return
        for n in range(len(op.in_place) + 1):
            for pairs in itertools.combinations(op.in_place, n):
                if len({o for o, _ in pairs}) < n or len({i for _, i in pairs}) < n:
                    continue
                taken = sum(self.bit[i] for _, i in pairs)
                saved = sum(min(self.sizes[self.bit[o]], self.sizes[self.bit[i]]) for o, i in pairs)
                during = self.total(resident | outs) - saved + op.workspace_bytes
                yield during, (resident & ~taken) | outs

    def moves(self, state):
        """(joules, seconds, peak bytes, next state) of every action possible in ``state``."""
        done, resident, pages = state
        ops, tensors = self.problem.ops, self.problem.tensors
        for t in tensors:
            b = self.bit[t.id]
            if resident & b:
                yield 0.0, 0.0, self.total(resident), (done, resident & ~b, pages)
            if not self.paging or not t.pageable:
                continue
            if resident & b and not pages & b:
                after = (done, resident, pages | b)
                yield t.page_out_j, t.page_out_s, self.total(resident), after
            if pages & b and not resident & b:
                after = (done, resident | b, pages)
                yield t.page_in_j, t.page_in_s, self.total(resident | b), after
        for k, op in enumerate(ops[: done + 1]):
            if k < done and not (self.remat and op.recomputable):
                continue
            for during, after in self.runs(op, resident):
                yield op.compute_j, op.compute_s, during, (done + (k == done), after, pages)

    def goal(self, state):
        return state[0] == len(self.problem.ops) and state[1] == self.end

    def least_energy(self):
        """Joules of the best plan, or None."""
        budget, deadline_s = self.problem.memory_bytes, self.problem.deadline_s
        if self.total(self.start) > budget:
            return None
        queue = [(0.0, 0.0, (0, self.start, 0))]
        fastest = {}
        while queue:
            joules, seconds, state = heapq.heappop(queue)
            if fastest.get(state, float("inf")) <= seconds:
                continue
            fastest[state] = seconds if deadline_s is not None else 0.0
            if self.goal(state):
                return joules
            for j, s, peak, after in self.moves(state):
                late = deadline_s is not None and seconds + s > deadline_s * (1 + 1e-9)
                if peak <= budget and not late:
                    clock = seconds + s if deadline_s is not None else 0.0
                    if fastest.get(after, float("inf")) > clock:
                        heapq.heappush(queue, (joules + j, clock, after))
        return None

    def least(self, column):
        """Smallest peak (column 2) or time (column 1, within the budget), or None."""
        budget = self.problem.memory_bytes
        first = self.total(self.start)
        if column == 1 and first > budget:
            return None
        queue = [(first if column == 2 else 0.0, (0, self.start, 0))]
        seen = set()
        while queue:
            value, state = heapq.heappop(queue)
            if state in seen:
                continue
            seen.add(state)
            if self.goal(state):
                return value
            for move in self.moves(state):
                if column == 1 and move[2] > budget:
                    continue
                new = max(value, move[2]) if column == 2 else value + move[1]
                if move[3] not in seen:
                    heapq.heappush(queue, (new, move[3]))
        return None


def random_tensor(rng, k, **flags):
    n = rng.choice([1, 2, 3, 4, 6, 8]) * 32
    scale = rng.choice([0.2, 1.0, 3.0])
    cost = (1 + n / 64) * scale
    pageable = rng.random() < 0.8
    return Tensor(k, f"t{k}", n, pageable, cost, cost * 1.3, cost * 1.1, cost * 1.7, **flags)


def random_problem(seed, ops=6):
    """A small training-like graph: forward with branches, backward that reads forward tensors."""
    rng = random.Random(seed)
    n_forward = rng.randint(2, max(2, ops - 2))
    tensors = [random_tensor(rng, 0, at_start=True, at_end=rng.random() < 0.1)]
    if rng.random() < 0.3:
        tensors.append(random_tensor(rng, 1, at_start=True))
    made, last, graph = [t.id for t in tensors], 0, []
    for k in range(ops):
        backward = k >= n_forward
        width = rng.choice([1, 1, 2, 2, 3]) if backward else rng.choice([1, 1, 1, 2])
        reads = {last, *rng.sample(made, min(len(made), width - 1))}
        writes = [len(tensors) + n for n in range(2 if rng.random() < 0.15 else 1)]
        tensors.extend([random_tensor(rng, i, at_end=rng.random() < 0.08) for i in writes])
        pairs = [(o, i) for o in writes for i in sorted(reads) if rng.random() < 0.3]
        joules = rng.choice([0.0, 0.3, 1.0, 4.0])
        graph.append(
            Op(
                100 + k,
                f"op{k}",
                tuple(sorted(reads)),
                tuple(writes),
                joules * rng.choice([0.5, 1.0]),
                joules,
                rng.choice([0, 0, 0, 32, 96]),
                recomputable=not backward and rng.random() < 0.85,
                backward=backward,
                in_place=tuple(pairs),
            )
        )
        if not backward or rng.random() < 0.5:
            made += writes
        last = writes[0]
    problem = Problem(f"random{seed}", tuple(tensors), tuple(graph), 0)
    low, _ = largest_working_set(problem)
    high = simulate(problem, free_early(problem)).peak_bytes
    budget = rng.randint(low // 32 - 1, max(low, high) // 32) * 32 + rng.choice([0, 0, 7])
    deadline_s = problem.base_s + rng.uniform(0, 12) if rng.random() < 0.4 else None
    return replace(problem, memory_bytes=budget, deadline_s=deadline_s)


def assert_optimal(problem, **switches):
    """The planner's answer equals the oracle's; returns the energy."""
    expected = Oracle(problem, **switches).least_energy()
    solution = solve(problem, SolveOptions(**switches))
    if expected is None:
        assert solution.status is SolveStatus.INFEASIBLE, (problem, solution)
        return None
    assert solution.status is SolveStatus.OPTIMAL, (problem, solution)
    check_budget(problem, simulate(problem, solution.schedule))
    assert solution.objective_j == pytest.approx(expected, rel=1e-7, abs=1e-7), problem.name
    assert solution.lower_bound_j == pytest.approx(expected, rel=1e-6, abs=1e-6)
    return expected


@pytest.mark.parametrize("block", range(10))
def test_optimum_equals_exhaustive_search(block):
    energies = [
        assert_optimal(random_problem(seed, ops=5)) for seed in range(40 * block, 40 * block + 40)
    ]
    assert any(e is not None for e in energies)


def test_optimum_equals_exhaustive_search_on_seven_ops():
    for seed in (1, 4, 13, 21, 24, 33, 38, 40):
        assert_optimal(random_problem(seed, ops=7))


@pytest.mark.parametrize("switches", [{"paging": False}, {"remat": False}])
def test_switched_off_optimum_equals_exhaustive_search(switches):
    energies = [
        assert_optimal(random_problem(seed, ops=5), **switches) for seed in range(1000, 1060)
    ]
    assert any(e is not None for e in energies)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_optimum_equals_exhaustive_search_at_length(block):
    for seed in range(5000 + 100 * block, 5100 + 100 * block):
        assert_optimal(random_problem(seed, ops=5 + (seed % 4 == 0)))


@pytest.mark.parametrize("switches", [{}, {"paging": False}, {"remat": False}])
def test_minimum_memory_equals_exhaustive_search(switches):
    above_working_set = 0
    for seed in range(25):
        problem = replace(random_problem(seed, ops=5), deadline_s=None)
        options = SolveOptions(**switches)
        found = minimum_memory(problem, options)
        expected = Oracle(problem, **switches).least(2)
        assert (found.bytes, found.proven_bytes) == (expected, expected), problem.name
        above_working_set += found.bytes > largest_working_set(problem, **switches)[0]
        at = solve(replace(problem, memory_bytes=found.bytes), options)
        assert at.status is SolveStatus.OPTIMAL
        below = solve(replace(problem, memory_bytes=found.bytes - 1), options)
        assert below.status is SolveStatus.INFEASIBLE
    assert above_working_set or switches.get("paging", True)


def test_shortest_deadline_equals_exhaustive_search():
    found = 0
    for seed in range(40):
        problem = replace(random_problem(seed, ops=5), deadline_s=None)
        expected, fastest_s = Oracle(problem).least(1), shortest_deadline(problem)
        if expected is None:
            assert fastest_s is None
            continue
        found += 1
        assert fastest_s == pytest.approx(expected, rel=1e-9)
        at = solve(replace(problem, deadline_s=fastest_s))
        assert at.status is SolveStatus.OPTIMAL
        if fastest_s > problem.base_s:
            sooner = solve(replace(problem, deadline_s=fastest_s * (1 - 1e-6)))
            assert sooner.status is SolveStatus.INFEASIBLE
    assert found > 10


def descent_problem():
    """Two chains a -> b and c -> d; the order of the ops is a, c, b, d.

    Beside ``big`` only one of a and c fits, so making b and d again after it means a, b, c, d:
    against the order of the ops. The workspace of op4 leaves no room to keep b and d.
    """
    sizes = {"x": 32, "a": 256, "c": 256, "b": 32, "d": 32, "big": 448, "out": 32}
    names = list(sizes)
    tensors = tuple(
        Tensor(k, n, sizes[n], False, 1.0, 1.0, 1.0, 1.0, at_start=n == "x")
        for k, n in enumerate(names)
    )

    def op(k, reads, writes, workspace=0):
        ids = tuple(names.index(n) for n in reads.split())
        back = k >= 4
        return Op(k, f"op{k}", ids, (names.index(writes),), 1.0, 1.0, workspace, not back, back)

    ops = (
        op(0, "x", "a"),
        op(1, "x", "c"),
        op(2, "a", "b"),
        op(3, "c", "d"),
        op(4, "x", "big", workspace=320),
        op(5, "b d big", "out"),
    )
    return Problem("descent", tensors, ops, 800)


def test_recomputes_against_the_order_of_the_ops_on_small_graphs():
    problem = descent_problem()
    assert assert_optimal(problem) == pytest.approx(problem.base_j + 4)
    again = [a.subject for a in solve(problem).schedule.actions if a.recompute]
    assert again in ([0, 2, 1, 3], [1, 3, 0, 2])
    assert minimum_memory(problem).bytes == Oracle(problem).least(2)
