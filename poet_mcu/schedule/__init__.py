"""The planner: which tensor is kept, paged or recomputed, and when, for the least energy."""

from poet_mcu.schedule.backend import SolveStatus
from poet_mcu.schedule.baselines import (
    free_early,
    keep_all,
    page_all,
    recompute_all,
    sqrt_checkpoints,
)
from poet_mcu.schedule.bounds import largest_working_set
from poet_mcu.schedule.executor import Metrics, check_budget, fits, simulate
from poet_mcu.schedule.limits import MinimumMemory, minimum_memory, shortest_deadline
from poet_mcu.schedule.options import Progress, Solution, SolveOptions
from poet_mcu.schedule.planner import solve
from poet_mcu.schedule.problem import Op, Problem, Tensor
from poet_mcu.schedule.thrift import thrifty

__all__ = [
    "Metrics",
    "MinimumMemory",
    "Op",
    "Problem",
    "Progress",
    "Solution",
    "SolveOptions",
    "SolveStatus",
    "Tensor",
    "check_budget",
    "fits",
    "free_early",
    "keep_all",
    "largest_working_set",
    "minimum_memory",
    "page_all",
    "recompute_all",
    "shortest_deadline",
    "simulate",
    "solve",
    "sqrt_checkpoints",
    "thrifty",
]
