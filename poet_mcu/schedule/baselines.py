"""Plans that need no solver: what other tools do, upper bounds, and starts for the solver."""

from __future__ import annotations

import math

from poet_mcu.ir.schedule import Schedule
from poet_mcu.schedule.decode import Visit, emit, prune
from poet_mcu.schedule.problem import Problem
from poet_mcu.schedule.touch import Steps, expand


def _base_visits(expanded: Steps) -> list[Visit]:
    first = expanded.first_reads()
    return [
        Visit(k, frozenset(first.get(k, ())), optional=False) for k in range(len(expanded.steps))
    ]


def keep_all(problem: Problem) -> Schedule:
    """Every activation stays until the backward pass has passed it; nothing runs in place.

    A tensor that a forward op (or the start) writes is held until the last backward op that reads
    it or an output of a forward op that read it. Gradients are freed after their last use.
    """
    expanded = expand(problem)
    reads = expanded.base_reads()
    hold: dict[int, int] = {}
    for i, producer in expanded.producers().items():
        if expanded.tensors[i].at_start_paged:
            hold[i] = max(reads[i], default=producer)
            continue
        if expanded.steps[producer].backward:
            continue
        forward = [k for k in reads[i] if not expanded.steps[k].backward]
        family = {i, *(out for k in forward for out in expanded.steps[k].writes)}
        passed = [
            k
            for member in family
            for k in reads[member]
            if k < expanded.end and (member == i or expanded.steps[k].backward)
        ]
        hold[i] = max(passed, default=producer)
    return emit(expanded, _base_visits(expanded), in_place=False, hold=hold)


def free_early(problem: Problem) -> Schedule:
    """No paging, no recompute: free after the last use, in place wherever the input dies."""
    expanded = expand(problem)
    return emit(expanded, _base_visits(expanded))


def page_all(problem: Problem) -> Schedule:
    """Every pageable tensor used later than by the next op goes to the card and back for each use.

    It stays resident only between two ops that follow each other.
    """
    expanded = expand(problem)
    reads = expanded.base_reads()
    paged: list[set[int]] = [set() for _ in expanded.steps]
    for i, producer in expanded.producers().items():
        if not expanded.tensors[i].pageable:
            continue
        last = producer
        for k in reads[i]:
            if k > last + 1 or (last == 0 and expanded.tensors[i].at_start_paged):
                paged[k].add(i)
            last = k
    visits = [Visit(k, frozenset(some), optional=False) for k, some in enumerate(paged)]
    return emit(expanded, visits)


def recompute_all(problem: Problem) -> Schedule:
    """Every recomputable forward tensor is dropped after the forward pass and made again.

    It is recomputed, with what it needs, right before each backward op that reads it.
    """
    expanded = expand(problem)
    producers = expanded.producers()
    first = expanded.first_reads()
    visits: list[Visit] = []
    for k, step in enumerate(expanded.steps):
        if step.backward and step.op_id is not None:
            again = _needed_again(expanded, producers, k)
            visits += [Visit(j, frozenset(), optional=True) for j in again]
        visits.append(Visit(k, frozenset(first.get(k, ())), optional=False))
    return emit(expanded, visits)


def _needed_again(expanded: Steps, producers: dict[int, int], stage: int) -> list[int]:
    """Recomputable forward steps that ``stage`` depends on, ascending."""
    found: set[int] = set()
    changed = expanded.changed_before(stage)
    stack = [producers[i] for i in expanded.steps[stage].reads]
    while stack:
        k = stack.pop()
        step = expanded.steps[k]
        stale = changed.intersection(step.reads)
        if k in found or not step.recomputable or step.backward or stale:
            continue
        found.add(k)
        stack.extend(producers[i] for i in step.reads)
    return sorted(found)


def sqrt_checkpoints(problem: Problem) -> Schedule:
    """Square-root checkpoints (Chen et al., arXiv 1604.06174) on the order of the forward ops.

    Their n ops are cut into segments of about sqrt(n). What crosses the end of a segment is kept;
    the first backward op that needs more of a segment makes all of it again, once, and it stays
    until its last use.
    """
    expanded = expand(problem)
    producers = expanded.producers()
    forward = [k for k, step in enumerate(expanded.steps) if step.op_id is not None]
    forward = [k for k in forward if not expanded.steps[k].backward]
    length = max(1, math.ceil(math.sqrt(len(forward))))
    segment = {k: n // length for n, k in enumerate(forward)}
    crossing = {
        i
        for k in forward
        for i in expanded.steps[k].reads
        if segment.get(producers[i], segment[k]) != segment[k]
    }
    first = expanded.first_reads()
    visits: list[Visit] = []
    done: set[int] = set()
    for k, step in enumerate(expanded.steps):
        if step.backward and step.op_id is not None:
            reads = [i for i in step.reads if producers[i] in segment and i not in crossing]
            needed = {segment[producers[i]] for i in reads} - done
            changed = expanded.changed_before(k)
            for j in forward:
                stale = changed.intersection(expanded.steps[j].reads)
                if segment[j] in needed and not stale and _dropped(expanded, j, crossing):
                    visits.append(Visit(j, frozenset(), optional=True))
            done |= needed
        visits.append(Visit(k, frozenset(first.get(k, ())), optional=False))
    return emit(expanded, prune(expanded, visits))


def _dropped(expanded: Steps, k: int, crossing: set[int]) -> bool:
    """Whether step ``k`` may be and has to be run again: it is pure and writes no checkpoint."""
    step = expanded.steps[k]
    return step.recomputable and not crossing.intersection(step.writes)
