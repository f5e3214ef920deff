"""Transfers beside compute and homes on the card, against an exhaustive search."""

import heapq
import random
from dataclasses import replace

import pytest
from test_schedule_oracle import Oracle, random_problem

from poet_mcu.schedule import (
    SolveOptions,
    SolveStatus,
    check_budget,
    largest_working_set,
    shortest_deadline,
    simulate,
    solve,
)


class BusOracle(Oracle):
    """Dijkstra over (ops done, resident, pages, written bytes, transfer under way).

    With overlap a transfer is (bit, reads, seconds left); at most one is under way, and it may be
    waited for at any moment. Without overlap it ends at once. Shares nothing with the planner.
    """

    def __init__(self, problem, **switches):
        super().__init__(problem, **switches)
        self.start_pages = sum(self.bit[t.id] for t in problem.tensors if t.at_start_paged)
        self.end_pages = sum(self.bit[t.id] for t in problem.tensors if t.at_end_paged)
        self.of = {self.bit[t.id]: t for t in problem.tensors}
        self.change = [sum(self.bit[i] for i in op.mutates) for op in problem.ops]

    def bus_moves(self, state):
        done, resident, pages, written, flight = state
        if flight is not None:
            bit, reads, left = flight
            after = pages if reads else pages | bit
            yield left * self.problem.wait_w, left, 0, (done, resident, after, written, None)
            return
        for bit, t in self.of.items():
            home = t.at_start_paged or t.at_end_paged
            if not t.pageable or not (self.paging or home):
                continue
            if resident & bit and not pages & bit:
                more = t.nbytes if self.problem.max_write_bytes is not None else 0
                yield from self.transfer(state, bit, t.page_out_s, t.page_out_j, False, more)
            if pages & bit and not resident & bit:
                yield from self.transfer(state, bit, t.page_in_s, t.page_in_j, True, 0)

    def transfer(self, state, bit, seconds, joules, reads, more):
        done, resident, pages, written, _ = state
        resident |= bit if reads else 0
        peak = self.total(resident)
        if self.problem.overlap:
            flight = (bit, reads, seconds)
            yield joules, 0.0, peak, (done, resident, pages, written + more, flight)
        else:
            pages |= 0 if reads else bit
            yield joules, seconds, peak, (done, resident, pages, written + more, None)

    def moves(self, state):
        done, resident, pages, written, flight = state
        yield from self.bus_moves(state)
        busy = 0 if flight is None else flight[0]
        arriving = busy if flight is not None and flight[1] else 0
        for bit in self.of:
            if resident & bit and not busy & bit:
                after = (done, resident & ~bit, pages, written, flight)
                yield 0.0, 0.0, self.total(resident), after
        changed = sum(set(self.change[:done]))
        for k, op in enumerate(self.problem.ops[: done + 1]):
            ins = sum(self.bit[i] for i in op.inputs)
            if ins & arriving or self.change[k] & busy:
                continue
            if k < done and not (self.remat and op.recomputable and not ins & changed):
                continue
            for during, after in self.runs(op, resident):
                if resident & ~after & busy:
                    continue
                left = flight and (busy, flight[1], round(max(0.0, flight[2] - op.compute_s), 9))
                new = (done + (k == done), after, pages & ~self.change[k], written, left)
                yield op.compute_j, op.compute_s, during, new

    def goal(self, state):
        done, resident, pages, _, flight = state
        ended = done == len(self.problem.ops) and flight is None
        return ended and resident == self.end and not self.end_pages & ~pages

    def least(self, what="joules"):
        """The best plan's joules, or seconds, within budget, deadline and wear; else None."""
        p = self.problem
        if self.total(self.start) > p.memory_bytes:
            return None
        queue, count = [(0.0, 0.0, 0, (0, self.start, self.start_pages, 0, None))], 0
        seen = {}
        while queue:
            cost, seconds, _, state = heapq.heappop(queue)
            if seen.get(state, float("inf")) <= seconds:
                continue
            seen[state] = seconds if p.deadline_s is not None else 0.0
            if self.goal(state):
                return cost
            for j, s, peak, after in self.moves(state):
                worn = p.max_write_bytes is not None and after[3] > p.max_write_bytes
                if peak > p.memory_bytes or worn:
                    continue
                if p.deadline_s is not None and seconds + s > p.deadline_s * (1 + 1e-9):
                    continue
                clock = seconds + s if p.deadline_s is not None else 0.0
                if seen.get(after, float("inf")) > clock:
                    count += 1
                    step = j if what == "joules" else s
                    heapq.heappush(queue, (cost + step, clock, count, after))
        return None


def with_homes(problem, rng):
    """Some ops read a tensor that lives on the card; updates behind their last reads."""
    tensors, ops = list(problem.tensors), list(problem.ops)
    free = 200
    for k in rng.sample(range(len(ops)), 2):
        i, nbytes = free, rng.choice([1, 2, 3]) * 32
        free += 10
        changed = rng.random() < 0.7
        tensors.append(
            replace(
                tensors[0],
                id=i,
                name=f"w{i}",
                nbytes=nbytes,
                pageable=True,
                at_start=False,
                at_end=False,
                at_start_paged=True,
                at_end_paged=changed,
            )
        )
        readers = {k} | {n for n in range(k, len(ops)) if rng.random() < 0.2}
        last = max(readers)
        for n in readers:
            op = ops[n]
            mutates = (*op.mutates, i) if changed and n == last else op.mutates
            pure = op.recomputable and not mutates
            ops[n] = replace(op, inputs=(*op.inputs, i), mutates=mutates, recomputable=pure)
    return replace(problem, tensors=tuple(tensors), ops=tuple(ops))


def random_bus_problem(seed, ops=4, *, homes=True, overlap=True):
    rng = random.Random(seed)
    problem = random_problem(seed, ops)
    if homes and rng.random() < 0.7:
        problem = with_homes(problem, rng)
    problem = replace(problem, overlap=overlap, wait_w=rng.choice([0.1, 0.5, 1.0]))
    ran = [replace(op, compute_j=max(op.compute_j, op.compute_s)) for op in problem.ops]
    problem = replace(problem, ops=tuple(ran), deadline_s=None)
    low, _ = largest_working_set(problem)
    problem = replace(problem, memory_bytes=low + rng.randint(0, 6) * 32)
    if rng.random() < 0.4:
        problem = replace(problem, deadline_s=problem.floor_s + rng.uniform(0, 12))
    if rng.random() < 0.3:
        problem = replace(problem, max_write_bytes=rng.randint(0, 12) * 32)
    return problem


def compare(problem, **switches):
    """Solve and compare; returns (planner's joules, oracle's joules), None where infeasible."""
    expected = BusOracle(problem, **switches).least()
    found = solve(problem, SolveOptions(time_limit_s=30, **switches))
    if found.schedule is None:
        assert expected is None, (problem.name, expected, found)
        return None
    assert expected is not None, problem.name
    check_budget(problem, simulate(problem, found.schedule))
    assert found.lower_bound_j <= expected * (1 + 1e-6) + 1e-6, problem.name
    assert found.objective_j >= expected * (1 - 1e-7) - 1e-7, problem.name
    if found.status is SolveStatus.OPTIMAL:
        assert found.objective_j == pytest.approx(expected, rel=1e-6, abs=1e-6), problem.name
    return found.objective_j, expected


# one operator more makes the exhaustive search several times as long
@pytest.mark.parametrize("ops", [4, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("block", range(4))
def test_homes_on_the_card_equal_exhaustive_search(block, ops):
    pairs = [
        compare(random_bus_problem(seed, ops, overlap=False))
        for seed in range(40 * block, 40 * block + 40)
    ]
    known = [pair for pair in pairs if pair is not None]
    assert len(known) > 20
    assert all(found == pytest.approx(best, rel=1e-6) for found, best in known)


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)), 3]
)
def test_overlap_equals_exhaustive_search(block):
    pairs = [compare(random_bus_problem(seed)) for seed in range(10 * block, 10 * block + 10)]
    known = [pair for pair in pairs if pair is not None]
    assert known
    assert all(found == pytest.approx(best, rel=1e-6) for found, best in known)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_overlap_equals_exhaustive_search_at_length(block):
    for seed in range(1000 + 30 * block, 1030 + 30 * block):
        compare(random_bus_problem(seed))


@pytest.mark.parametrize("switches", [{"paging": False}, {"remat": False}])
def test_switched_off_overlap_equals_exhaustive_search(switches):
    pairs = [compare(random_bus_problem(seed), **switches) for seed in range(500, 515)]
    known = [pair for pair in pairs if pair is not None]
    assert known
    assert all(found == pytest.approx(best, rel=1e-6) for found, best in known)


def test_overlap_is_never_worse_than_waiting_for_each_transfer():
    gained = 0
    for seed in range(600, 620):
        free = replace(random_bus_problem(seed, 5, homes=False), max_write_bytes=None)
        beside = solve(replace(free, deadline_s=None, wait_w=1.0))
        blocking = replace(
            free,
            deadline_s=None,
            overlap=False,
            tensors=tuple(
                replace(
                    t, page_in_j=t.page_in_j + t.page_in_s, page_out_j=t.page_out_j + t.page_out_s
                )
                for t in free.tensors
            ),
        )
        waiting = solve(blocking)
        if waiting.objective_j is None:
            continue
        assert beside.objective_j <= waiting.objective_j * (1 + 1e-9)
        gained += beside.objective_j < waiting.objective_j * (1 - 1e-6)
    assert gained


@pytest.mark.parametrize("ops", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_shortest_deadline_with_overlap_is_reached_by_a_plan(ops):
    """By three operators by default: one problem of four keeps the search for minutes."""
    reached = 0
    for seed in range(700, 718):
        if (seed, ops) == (708, 3):  # two homes, one of them written: as long as all others
            continue
        problem = replace(random_bus_problem(seed, ops), max_write_bytes=None)
        fastest_s = shortest_deadline(problem)
        best = BusOracle(replace(problem, deadline_s=None)).least("seconds")
        if fastest_s is None:
            assert best is None
            continue
        assert fastest_s >= best * (1 - 1e-9) - 1e-9
        assert solve(replace(problem, deadline_s=fastest_s)).schedule is not None
        reached += fastest_s == pytest.approx(best, rel=1e-6)
    assert reached >= 10


def test_wear_limit_changes_the_plan_and_is_held():
    changed = 0
    for seed in range(800, 830):
        free = replace(random_bus_problem(seed, 5, overlap=False), max_write_bytes=None)
        wanted = solve(free)
        if wanted.metrics is None or not wanted.metrics.sd_write_bytes:
            continue
        limit = wanted.metrics.sd_write_bytes - 32
        limited = solve(replace(free, max_write_bytes=limit))
        if limited.metrics is not None:
            changed += 1
            assert limited.metrics.sd_write_bytes <= limit
            assert limited.objective_j >= wanted.objective_j * (1 - 1e-9)
    assert changed
