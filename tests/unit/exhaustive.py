"""The truth for the planner: random training steps that use every feature, and their optimum.

``python tests/unit/exhaustive.py FIRST LAST FILE`` compares the planner on the cases of these
numbers, goes on where FILE ends, and prints what docs/proofs.md has.

The optimum comes from ``exhaustive_search.c``, which knows values, versions and a clock but none
of the planner's rules. All seconds and joules here are multiples of 1/64, so that it counts in
integers.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from poet_mcu.schedule import (
    Solution,
    SolveOptions,
    SolveStatus,
    check_budget,
    free_early,
    simulate,
    solve,
)
from poet_mcu.schedule.problem import Op, Problem, Tensor

HERE = Path(__file__).resolve().parent
UNIT = 64  # ticks a second, energies of the generator a joule
FLAGS = ("pageable", "at_start", "at_end", "at_start_paged", "at_end_paged")
#: states after which the search gives up, half a GB
MOST_STATES = 3_000_000
#: seconds of a solve in ``main``
LIMIT_S = 20.0
WARNINGS = "-Wall -Wextra -Wpedantic -Werror -Wconversion -Wsign-conversion -Wshadow"


class TooLarge(Exception):
    """The search has seen ``MOST_STATES`` states."""


@cache
def program() -> tuple[Path, tempfile.TemporaryDirectory[str]]:
    """The compiled search, and its folder, which lives as long as the process."""
    folder = tempfile.TemporaryDirectory(prefix="poet_exhaustive_")
    path = Path(folder.name) / "search"
    source = HERE / "exhaustive_search.c"
    command = ["gcc", "-std=c11", "-O2", *WARNINGS.split(), str(source), "-o", str(path)]
    subprocess.run(command, check=True)
    return path, folder


def whole(value: float, unit: int) -> int:
    """``value`` in 1/``unit``; it has to be a multiple."""
    found = round(value * unit)
    assert found == value * unit, value
    return found


def optimum(problem: Problem, *, paging: bool = True, remat: bool = True) -> float | None:
    """Joules of the best run there is, None when there is none. Raises TooLarge.

    A run whose transfers end at once needs the same bytes as one where they go on beside compute,
    so a budget is first shown to be enough in the smaller space without a clock.
    """
    if problem.overlap:
        patient = replace(problem, overlap=False, deadline_s=None)
        if optimum(patient, paging=paging, remat=remat) is None:
            return None
    text = described(problem, paging=paging, remat=remat)
    ran = subprocess.run([program()[0]], input=text, capture_output=True, text=True, check=True)
    word, *rest = ran.stdout.split()
    if word == "limit":
        raise TooLarge(problem.name)
    return int(rest[0]) / UNIT**2 if word == "optimum" else None


def described(problem: Problem, *, paging: bool, remat: bool) -> str:
    """The problem as the search reads it: ticks of 1/64 s, energies of 1/4096 J."""
    at = {tensor.id: k for k, tensor in enumerate(problem.tensors)}
    deadline, most = problem.deadline_s, problem.max_write_bytes
    rows: list[Iterable[int]] = [
        (len(problem.tensors), len(problem.ops), problem.overlap, paging, remat),
        (
            problem.memory_bytes,
            -1 if deadline is None else whole(deadline, UNIT),
            -1 if most is None else most,
            whole(problem.wait_w, UNIT),
            MOST_STATES,
        ),
    ]
    for t in problem.tensors:
        seconds = (whole(t.page_in_s, UNIT), whole(t.page_out_s, UNIT))
        joules = (whole(t.page_in_j, UNIT**2), whole(t.page_out_j, UNIT**2))
        flags = sum(1 << k for k, flag in enumerate(FLAGS) if getattr(t, flag))
        rows.append((t.nbytes, *seconds, *joules, flags))
    for op in problem.ops:
        costs = (whole(op.compute_s, UNIT), whole(op.compute_j, UNIT**2), op.workspace_bytes)
        sets = [[at[i] for i in some] for some in (op.inputs, op.outputs, op.mutates)]
        pairs = [at[i] for pair in op.in_place for i in pair]
        counted = [n for some in sets for n in (len(some), *some)]
        rows.append((*costs, op.recomputable, *counted, len(op.in_place), *pairs))
    return "\n".join(" ".join(str(int(n)) for n in row) for row in rows)


@dataclass
class Case:
    """A problem, the switches it is planned with, and the features it has."""

    problem: Problem
    paging: bool = True
    remat: bool = True

    @property
    def features(self) -> list[str]:
        p = self.problem
        has = {
            "overlap": p.overlap,
            "deadline": p.deadline_s is not None,
            "wear limit": p.max_write_bytes is not None,
            "parameters on the card": any(t.at_start_paged for t in p.tensors),
            "updated on the card": any(op.mutates for op in p.ops),
            "parameter and state in one update": any(len(op.mutates) > 1 for op in p.ops),
            "in place": any(op.in_place for op in p.ops),
            "stateful forward operator": any(not (o.recomputable or o.backward) for o in p.ops),
            "workspace": any(op.workspace_bytes for op in p.ops),
            "mask": any(t.name.startswith("mask") for t in p.tensors),
            "paging off": not self.paging,
            "recompute off": not self.remat,
        }
        return [name for name, there in has.items() if there]


@dataclass
class _Step:
    """A training step as it is drawn: a chain with skips, its backward pass, its updates."""

    rng: random.Random
    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)

    def quantum(self, low: float, high: float) -> float:
        return self.rng.randint(round(low * UNIT), round(high * UNIT)) / UNIT

    def tensor(self, name: str, blocks: int | None = None, **flags: bool) -> int:
        blocks = blocks or self.rng.choice((1, 2, 3, 4, 6, 8))
        slow = self.rng.choice((0.25, 1.0, 3.0))
        seconds = (1 + blocks / 2) * slow
        base = {"pageable": self.rng.random() < 0.85, **flags}
        prices = [round(seconds * f * UNIT) / UNIT for f in (1.0, 1.25, 1.125, 1.75)]
        i = len(self.tensors)
        self.tensors.append(Tensor(i, f"{name}{i}", 32 * blocks, base.pop("pageable"), *prices))
        self.tensors[i] = replace(self.tensors[i], **base)
        return i

    def op(self, reads: Iterable[int], writes: Sequence[int], **more: object) -> None:
        # running costs at least what waiting does, so no run is a way to pass the time
        seconds = self.rng.choice((0.0, self.quantum(0, 4)))
        joules = seconds + self.rng.choice((0.0, 0.25, self.quantum(0, 4)))
        scratch = self.rng.choice((0, 0, 0, 32, 96))
        backward = bool(more.pop("backward", True))
        given = {"recomputable": False, **more}
        k = len(self.ops)
        reads = tuple(dict.fromkeys(reads))
        made = Op(k, f"op{k}", reads, tuple(writes), seconds, joules, scratch,
                  backward=backward, **given)  # fmt: skip
        self.ops.append(made)

    def pairs(self, out: int, over: int) -> tuple[tuple[int, int], ...]:
        """Sometimes ``out`` may be made over ``over``; then they have one size."""
        if self.rng.random() < 0.5:
            return ()
        self.tensors[out] = replace(self.tensors[out], nbytes=self.tensors[over].nbytes)
        return ((out, over),)


@dataclass
class _Layer:
    reads: list[int]
    writes: list[int]  # y, and a mask if there is one
    homes: list[int]  # parameter and state on the card
    frozen: bool


def _forward(step: _Step, layers: int, homes: int) -> list[_Layer]:
    rng, made = step.rng, []
    ys = [step.tensor("x", at_start=True)]
    for k in range(layers):
        home: list[int] = []
        if k < homes:
            names = ("w", "m")[: rng.choice((1, 1, 2))]
            flags = dict.fromkeys(("pageable", "at_start_paged", "at_end_paged"), True)
            home = [step.tensor(name, rng.choice((1, 2, 3)), **flags) for name in names]
        reads = [ys[-1], *(rng.sample(ys, 1) if rng.random() < 0.3 else ()), *home[:1]]
        y = step.tensor("y")
        pairs = step.pairs(y, ys[-1])
        masks = [step.tensor("mask", 1, pageable=False)] if rng.random() < 0.35 else []
        pure = rng.random() < 0.85
        step.op(reads, [y, *masks], recomputable=pure, backward=False, in_place=pairs)
        made.append(_Layer(list(dict.fromkeys(reads)), [y, *masks], home, rng.random() < 0.25))
        ys.append(y)
    return made


def _backward(step: _Step, layers: list[_Layer], ops: int) -> None:
    """Gradients from the last layer down; an update stands alone where there are ops left."""
    rng = step.rng
    loss = step.tensor("loss", 1, pageable=False, at_end=True)
    grads = [step.tensor("g")]
    step.op([layers[-1].writes[0]], [loss, *grads])
    for left, layer in zip(range(ops - 1, 0, -1), reversed(layers), strict=False):
        spare = ops - len([o for o in step.ops if o.backward]) > left
        kept = [i for i in (*layer.reads, *layer.writes) if rng.random() < 0.6]
        grad = step.tensor("g", at_end=left == 1 and rng.random() < 0.3)
        trained = [] if layer.frozen else layer.homes
        alone = bool(trained) and spare and rng.random() < 0.6
        changed = [] if alone else trained
        pairs = step.pairs(grad, grads[-1])
        reads = [grads[-1], *kept, *layer.homes[:1], *changed]
        reads = [i for i in reads if i not in layer.homes or i in changed or i in layer.homes[:1]]
        step.op(reads, [grad], mutates=tuple(changed), in_place=pairs)
        if alone:
            step.op([grads[-1], *layer.reads[:1], *trained], [], mutates=tuple(trained))
        grads.append(grad)
    ys = [layer.writes[0] for layer in layers]
    while sum(op.backward for op in step.ops) < ops:
        grads.append(step.tensor("g"))
        step.op([*grads[-2:-1], rng.choice(ys)], grads[-1:], in_place=step.pairs(*grads[:-3:-1]))


def training_case(seed: int, most_ops: int = 7) -> Case:
    """A step of 3 to ``most_ops`` operators, a budget it just fits or just does not, limits."""
    rng = random.Random(seed)
    ops = rng.randint(min(4, most_ops), most_ops)
    layers = rng.randint(1, max(1, (ops - 1) // 2))
    step = _Step(rng)
    made = _forward(step, layers, rng.choice((0, 0, 1, 1, 2)))
    _backward(step, made, ops - layers)
    problem = Problem(f"case{seed}", tuple(step.tensors), tuple(step.ops[:most_ops]), 0)
    return Case(_limited(problem, rng), rng.random() > 0.08, rng.random() > 0.08)


def _limited(problem: Problem, rng: random.Random) -> Problem:
    size = {t.id: t.nbytes for t in problem.tensors}
    low = max(
        sum(size[i] for i in (*op.inputs, *op.outputs)) + op.workspace_bytes for op in problem.ops
    )
    high = max(low, simulate(problem, free_early(problem)).peak_bytes)
    spread = (high - low) // 32 + 3
    blocks = low // 32 - 1 + min(rng.randint(0, spread), rng.randint(0, spread))
    problem = replace(problem, memory_bytes=32 * blocks + rng.choice((0, 0, 7)))
    if rng.random() < 0.5:
        problem = replace(problem, overlap=True, wait_w=rng.choice((0.125, 0.5, 1.0)))
    if rng.random() < 0.4:
        spare_s = rng.randint(0, 20 * UNIT) / UNIT
        problem = replace(problem, deadline_s=problem.floor_s + spare_s)
    if rng.random() < 0.2:
        forced = sum(t.nbytes for t in problem.forced_writes)
        problem = replace(problem, max_write_bytes=max(0, forced + 32 * rng.randint(-1, 12)))
    return problem


def compare(case: Case, time_limit_s: float = 60.0) -> tuple[Solution, str]:
    """The planner's answer and how it stands: ``optimal``, ``infeasible`` or ``not proven``.

    Every one is right: no plan that does not exist, none better than the best, no bound above it,
    and equality where the planner says optimal or infeasible. Raises TooLarge.
    """
    problem = case.problem
    best = optimum(problem, paging=case.paging, remat=case.remat)
    options = SolveOptions(case.paging, case.remat, time_limit_s=time_limit_s)
    found = solve(problem, options)
    told = (problem.name, found.status, found.objective_j, found.lower_bound_j, best)
    slack = 1e-7 * max(1.0, best or 0.0)
    assert best is None or found.lower_bound_j <= best + slack, told
    if found.schedule is None:
        assert found.status in (SolveStatus.INFEASIBLE, SolveStatus.TIMEOUT), told
        assert found.status is SolveStatus.TIMEOUT or best is None, told
        return found, "infeasible" if found.status is SolveStatus.INFEASIBLE else "not proven"
    assert best is not None, told
    check_budget(problem, simulate(problem, found.schedule))
    assert found.objective_j is not None
    assert found.objective_j >= best - slack, told
    if found.status is not SolveStatus.OPTIMAL:
        return found, "not proven"
    assert found.objective_j <= best + slack, told
    return found, "optimal"


def row(seed: int, time_limit_s: float) -> dict[str, object]:
    """What docs/proofs.md counts of one case."""
    case = training_case(seed)
    began_s = time.monotonic()
    facts = {"seed": seed, "ops": len(case.problem.ops), "features": case.features}
    try:
        _, ended = compare(case, time_limit_s)
    except TooLarge:
        ended = "too large"
    except AssertionError as error:
        ended = f"wrong: {error}"
    return facts | {"ended": ended, "seconds": round(time.monotonic() - began_s, 2)}


def table(rows: Sequence[dict[str, object]]) -> str:
    """Cases by feature and how they ended, as Markdown."""
    ends = ("optimal", "infeasible", "not proven", "too large", "wrong")
    counts: Counter[tuple[str, str]] = Counter()
    names: dict[str, None] = {"all": None}
    for each in rows:
        end = next(e for e in ends if str(each["ended"]).startswith(e))
        for name in ("all", f"{each['ops']} operators", *each["features"]):  # type: ignore[misc]
            names[name] = None
            counts[name, end] += 1
    lines = ["| feature | cases | " + " | ".join(ends) + " |", "|---" * (len(ends) + 2) + "|"]
    for name in sorted(names, key=lambda n: (n != "all", "operators" in n, n)):
        cells = [counts[name, end] for end in ends]
        lines.append(f"| {name} | {sum(cells)} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main(first: int, last: int, file: Path) -> None:
    """Compare, append each case to ``file``, print the table of all that it holds."""
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    known = {each["seed"] for each in rows}
    for seed in range(first, last):
        if seed not in known:
            rows.append(row(seed, LIMIT_S))
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
