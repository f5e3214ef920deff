"""``validate``: does the board compute what it should? To the bit, and in every counted byte."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import InputError
from poet_mcu.ir.graph import HOME_FLASH, HOME_RAM, Graph, Role
from poet_mcu.ops.operator import Array
from poet_mcu.pipeline.dataset import Dataset, load_dataset
from poet_mcu.pipeline.instructions import instructions_of_step, macs_of_step, traced_step
from poet_mcu.pipeline.plan import Progress
from poet_mcu.pipeline.prepare import Prepared
from poet_mcu.pipeline.selfcheck import sample_feeds
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import (
    BuildFolder,
    connect,
    connect_twin,
    label_of,
    open_folder,
    value_of,
)
from poet_mcu.sim.moment import Moment
from poet_mcu.sim.plain import run_plain
from poet_mcu.training.rates import lr_factor

#: largest difference over largest magnitude, per tensor, against the numpy reference. numpy sums
#: in another order than the kernels; each step adds a rounding difference of its own.
REFERENCE_TOLERANCE = 1e-4
#: a gradient below this share of the network's largest is taken for rounding: that of a sum is a
#: few 1e-7 of its terms, which are those of other gradients, and sums have up to some hundred terms
NOISE_SHARE = 1e-5
_SQUARE = ":square"


@dataclass(frozen=True, slots=True)
class Run:
    """What one machine computed: a loss a step, the weights after the last, its counters."""

    losses: npt.NDArray[np.float32]
    weights: dict[str, npt.NDArray[np.generic]]
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Validation:
    """The outcome; ``faults`` is empty when everything agrees. ``facts`` is the JSON form."""

    board: Run
    faults: tuple[str, ...]
    facts: dict[str, Any]


def _quiet(_: str) -> None:
    """No progress."""


def batches(prepared: Prepared, data: Path | None, steps: int) -> list[tuple[Array, Array]]:
    """``steps`` batches: consecutive ones of the data from its start, else random ones."""
    x, y = value_of(prepared, Role.INPUT), label_of(prepared)
    if data is not None:
        return list(load_dataset(data, x.type, y.type if y else None).consecutive(steps))
    feeds = [sample_feeds(prepared.train, seed) for seed in range(steps)]
    none = np.zeros((x.shape[0], 0), np.float32)
    return [(feed[x.id], feed[y.id] if y else none) for feed in feeds]


def validate(
    folder: Path,
    *,
    port: str | None = None,
    steps: int = 3,
    data: Path | None = None,
    dump: Path | None = None,
    serial: Literal["pty", "socket"] = "pty",
    checkpoint_every: int = 0,
    progress: Progress = _quiet,
) -> Validation:
    """Train ``steps`` updates on the board (``port``) or its emulator and compare.

    An update is one step, or as many as the build accumulates. Compared: losses and weights with
    the same program on this machine (to the bit, where it was built) and with the numpy reference
    (REFERENCE_TOLERANCE); bytes and transfers of the card with the plan. ``dump`` gets the board's
    losses and weights as npz. On an emulated board one more step counts its instructions.
    With ``checkpoint_every`` the board writes checkpoints meanwhile; afterwards it goes back to the
    last of them, and from there must come to the same weights again.
    """
    build = open_folder(folder)
    prepared = build.prepared()
    steps = _steps(steps * prepared.options.accumulate, checkpoint_every)
    work = batches(prepared, data, steps)
    with connect(build, port, serial=serial) as board:
        progress("training on the board" if port else f"training on {build.board.name}, emulated")
        ours, resumed = _run_resumed(Session.of(board, prepared), work, checkpoint_every)
    facts, faults = judge(build, prepared, ours, work, progress)
    faults = [*resumed, *faults]
    if dump is not None:
        _dump(dump, prepared, ours)
    facts |= {"faults": faults, "ok": not faults}
    facts |= _step_facts(build, prepared, work[0], port, progress)
    return Validation(ours, tuple(faults), facts)


def judge(
    build: BuildFolder,
    prepared: Prepared,
    ours: Run,
    work: list[tuple[Array, Array]],
    progress: Progress = _quiet,
) -> tuple[dict[str, Any], list[str]]:
    """The facts of a run over ``work``, and what is wrong with it.

    Compared: the plan's card bytes, the twin's bits (where there is one), the numpy reference.
    """
    faults = _counter_faults(build, ours, len(work))
    different = _twin_faults(build, prepared, ours, work, progress)
    faults += different or []
    progress("comparing with the reference")
    worst = _reference_difference(prepared, ours, work)
    faults += _reference_faults(worst)
    equal = None if different is None else not different
    return _facts(build, ours, len(work), worst, equal, faults), faults


def _reference_faults(worst: float) -> list[str]:
    if worst <= REFERENCE_TOLERANCE:
        return []
    text = f"reference: expected a relative difference of at most {REFERENCE_TOLERANCE:g}"
    return [f"{text}, got {worst:.3g}"]


def _step_facts(
    build: BuildFolder,
    prepared: Prepared,
    batch: tuple[Array, Array],
    port: str | None,
    progress: Progress,
) -> dict[str, Any]:
    """Multiply-adds of one step; its instructions on an emulator; time by operator, predicted too.

    The twin of a board has no time worth a comparison.
    """
    facts: dict[str, Any] = {"macs_per_step": macs_of_step(prepared.train)}
    if port is None and build.board.kind == "emulated":
        progress("counting the instructions of one step")
        facts["instructions_per_step"] = instructions_of_step(build, batch)
    if port is not None or build.board.kind == "emulated":
        progress("timing one step by operator")
        timed = traced_step(build, batch, port)
        facts["measured_step_s"] = timed.seconds
        facts["predicted_step_s"] = sum(row["predicted_s"] for row in timed.operators)
        facts["operators"] = timed.operators
    return facts


def _twin_faults(
    build: BuildFolder,
    prepared: Prepared,
    ours: Run,
    work: list[tuple[Array, Array]],
    progress: Progress,
) -> list[str] | None:
    """Differences from the same program on this machine; None where it was not built."""
    if not build.has_twin:
        return None
    progress("training on this machine")
    with connect_twin(build) as board:
        return _bit_faults(ours, run_steps(Session.of(board, prepared), work))


def _steps(steps: int, checkpoint_every: int) -> int:
    if checkpoint_every > steps:
        raise InputError(
            f"--checkpoint-every: expected at most the {steps} steps, got {checkpoint_every}; "
            "raise --steps"
        )
    return steps


def _run_resumed(
    session: Session, work: list[tuple[Array, Array]], checkpoint_every: int
) -> tuple[Run, list[str]]:
    """``run_steps``, and whether its last steps, done again from the newest checkpoint, agree."""
    ours = run_steps(session, work, checkpoint_every)
    if not checkpoint_every:
        return ours, []
    step = session.board.restore().step
    for x, y in work[step:]:
        session.train_step(x, y)
    return ours, [
        f"weight '{name}': expected the same bits from the checkpoint of step {step} on, got others"
        for name, array in session.weights().items()
        if array.tobytes() != ours.weights[name].tobytes()
    ]


def run_steps(session: Session, work: list[tuple[Array, Array]], checkpoint_every: int = 0) -> Run:
    """Train from the start values on ``work``; losses, weights, counters per run."""
    session.board.reset_model()
    session.board.plan_checkpoints(checkpoint_every)
    before = session.board.counters()
    losses, cycles = [], 0
    for x, y in work:
        result = session.train_step(x, y)
        losses.append(result.loss)
        cycles += result.cycles
    after = session.board.counters()
    facts = {
        "sd_read_bytes": after.sd_read_bytes - before.sd_read_bytes,
        "sd_write_bytes": after.sd_write_bytes - before.sd_write_bytes,
        "page_ins": after.sd_reads - before.sd_reads,
        "page_outs": after.sd_writes - before.sd_writes,
        "stack_bytes": after.stack_bytes,
        "stack_used_bytes": after.stack_bytes - after.stack_free_bytes,
        "cycles_per_step": cycles // max(1, len(work)),
        "cycle_hz": after.cycle_hz,
    }
    return Run(np.asarray(losses, np.float32), session.weights(), facts)


def _counter_faults(build: BuildFolder, run: Run, steps: int) -> list[str]:
    faults = []
    for key in ("sd_read_bytes", "sd_write_bytes", "page_ins", "page_outs"):
        expected = build.plan[key] * steps
        if run.facts[key] != expected:
            faults.append(f"{key}: planned {expected} in {steps} steps, counted {run.facts[key]}")
    if run.facts["stack_bytes"] and run.facts["stack_used_bytes"] >= run.facts["stack_bytes"]:
        faults.append(
            f"stack: all {run.facts['stack_bytes']} bytes were used; it may have overflowed"
        )
    return faults


def _bit_faults(ours: Run, twin: Run) -> list[str]:
    faults = []
    for step, (a, b) in enumerate(zip(ours.losses, twin.losses, strict=True)):
        if a.tobytes() != b.tobytes():
            faults.append(f"loss of step {step}: board {a!r}, host {b!r}")
    for name, array in ours.weights.items():
        if array.tobytes() != twin.weights[name].tobytes():
            count = int((array.view(np.uint8) != twin.weights[name].view(np.uint8)).sum())
            faults.append(f"weight '{name}': {count} bytes differ between board and host")
    return faults


def _reference_difference(prepared: Prepared, ours: Run, work: list[tuple[Array, Array]]) -> float:
    graph, options = prepared.train, prepared.options
    x, y = value_of(prepared, Role.INPUT), label_of(prepared)
    state: Mapping[int, Array] = graph.initial
    worst = 0.0
    for step, (bx, by) in enumerate(work):
        feeds = {x.id: bx.reshape(x.shape)}
        if y is not None:
            feeds[y.id] = by.reshape(y.shape)
        moment = Moment.of(step, options.accumulate)
        lr = options.lr * lr_factor(options, moment.updates)
        with np.errstate(all="ignore"):
            values = run_plain(graph, state, feeds, lr, moment)
        state = {i: values[i] for i in _kept(graph)}
        worst = max(worst, _relative(ours.losses[step], values[graph.outputs[0]]))
    chance = _left_to_chance(graph, state)
    for value in graph.with_role(Role.PARAMETER, Role.STATISTIC):
        got, expected = ours.weights[value.origin or value.name].ravel(), state[value.id].ravel()
        if value.id in chance:
            got = np.where(chance[value.id], expected, got)
        worst = max(worst, _relative(got, expected))
    return worst


def _left_to_chance(graph: Graph, state: Mapping[int, Array]) -> dict[int, npt.NDArray[np.bool_]]:
    """Elements of each parameter whose gradient was rounding and nothing else, where it matters.

    Optimizers that keep a mean square divide by its root, so such an element moves by the whole
    rate to a side that any other order of summing may change.
    """
    squares = {
        v.name.removesuffix(_SQUARE): np.sqrt(np.asarray(state[v.id], np.float64).ravel())
        for v in graph.with_role(Role.STATE)
        if v.name.endswith(_SQUARE)
    }
    largest = max((float(root.max()) for root in squares.values()), default=0.0)
    return {
        v.id: squares[v.name] <= NOISE_SHARE * largest
        for v in graph.with_role(Role.PARAMETER)
        if v.name in squares
    }


def _kept(graph: Graph) -> list[int]:
    return [v.id for v in graph.with_role(*HOME_RAM, *HOME_FLASH)]


def _relative(got: Array | np.float32, expected: Array) -> float:
    """Largest difference over largest magnitude; NaN must meet NaN."""
    a, b = np.asarray(got, np.float64).ravel(), np.asarray(expected, np.float64).ravel()
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    finite = np.isfinite(b)
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(b[finite]).max()), 1e-30)
    return float(np.abs(a[finite] - b[finite]).max()) / scale


def _dump(path: Path, prepared: Prepared, run: Run) -> None:
    shapes = {v.origin or v.name: v.shape for v in prepared.train.values if v.base is None}
    arrays = {name: array.reshape(shapes[name]) for name, array in run.weights.items()}
    if "loss" in arrays:  # a weight that is called as the losses are
        free = next(name for n in count(2) if (name := f"loss~{n}") not in arrays)
        arrays[free] = arrays.pop("loss")
    partial = path.with_name(f".{path.name}.partial")
    try:
        with zipfile.ZipFile(partial, "w") as archive:
            for name, array in {"loss": run.losses, **arrays}.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _facts(
    build: BuildFolder,
    run: Run,
    steps: int,
    worst: float,
    twin_equal: bool | None,
    faults: list[str],
) -> dict[str, Any]:
    plan = build.plan
    return {
        "ok": not faults,
        "faults": faults,
        "board": build.board.name,
        "steps": steps,
        "loss": [float(loss) for loss in run.losses],
        "bit_identical_to_host": twin_equal,
        "reference_difference": worst,
        "reference_tolerance": REFERENCE_TOLERANCE,
        "planned": {key: plan[key] for key in ("sd_read_bytes", "sd_write_bytes", "peak_bytes")},
        "ram_bytes": plan["ram_bytes"],
        "elf_ram_bytes": plan["elf_ram_bytes"],
        **run.facts,
    }


def train_data(prepared: Prepared, path: Path) -> Dataset:
    """The data in ``path`` for the model's batches."""
    x, y = value_of(prepared, Role.INPUT), label_of(prepared)
    return load_dataset(path, x.type, y.type if y else None)
