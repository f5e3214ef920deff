"""Bounds that need no solver."""

from __future__ import annotations

from poet_mcu.schedule.decode import best_pairs
from poet_mcu.schedule.problem import Problem
from poet_mcu.schedule.touch import Step, Steps, expand


def _working_set(expanded: Steps, step: Step) -> int:
    """Bytes that any plan needs while ``step`` runs: operands and workspace, best in place."""
    pairs = best_pairs(expanded, step.in_place, set(step.reads))
    saved = sum(min(expanded.tensors[o].nbytes, expanded.tensors[i].nbytes) for o, i in pairs)
    operands = sum(expanded.tensors[i].nbytes for i in (*step.reads, *step.writes))
    return operands + step.workspace_bytes - saved


def _pinned(expanded: Steps, *, paging: bool, remat: bool) -> list[int]:
    """For each step the bytes of tensors it does not touch but that no plan can drop over it."""
    pinned = [0] * len(expanded.steps)
    reads = expanded.base_reads()
    for i, producer in expanded.producers().items():
        tensor = expanded.tensors[i]
        back_from_card = (paging and tensor.pageable) or tensor.at_start_paged
        droppable = back_from_card or (remat and expanded.steps[producer].recomputable)
        if droppable or not reads[i]:
            continue
        for k in range(producer + 1, reads[i][-1]):
            if k not in reads[i]:
                pinned[k] += expanded.tensors[i].nbytes
    return pinned


def largest_working_set(
    problem: Problem, *, paging: bool = True, remat: bool = True
) -> tuple[int, str]:
    """The largest number of bytes that one op alone forces on every plan, and the op's name.

    Its inputs, outputs and workspace (with the best in-place use), and the tensors alive across it
    that can neither be paged nor recomputed. A smaller budget is infeasible.
    """
    expanded = expand(problem)
    pinned = _pinned(expanded, paging=paging, remat=remat)
    needs = [_working_set(expanded, step) + pinned[k] for k, step in enumerate(expanded.steps)]
    largest = max(range(len(needs)), key=lambda k: (needs[k], -k))
    return needs[largest], expanded.steps[largest].name
