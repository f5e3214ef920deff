"""The main job from end to end: the digits network, trained on an emulated Cortex-M7 with SD card.

Run by ``make demo``. Needs nothing but the package with its ``demo`` extra and the tools that
tools/setup.sh installs. Everything it makes goes to out/demo.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from make_digits import write_data
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from poet_mcu.errors import PoetError
from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import PlanInfeasible, plan
from poet_mcu.pipeline.report import plan_table, why
from poet_mcu.pipeline.train import TrainOptions, TrainProgress, train
from poet_mcu.pipeline.validate import validate
from poet_mcu.units import format_bytes

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "demo"
MODEL = ROOT / "examples" / "digits" / "digits_cnn.onnx"
BOARD = "qemu-m7-sd"
BATCH = 16
RAM_BYTES = 54 * 1024
EPOCHS = 12
LR = 0.1
WANTED_ACCURACY = 0.95

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def options(strategy: str = "optimal") -> Options:
    """The demo's model, board and budget."""
    return Options(MODEL, BOARD, ram_bytes=RAM_BYTES, batch=BATCH, lr=LR, strategy=strategy)


def show_refusal() -> None:
    """The keep-all plan at this budget."""
    try:
        plan(options("keep-all"))
    except PlanInfeasible:
        console.print(f"keeping every activation: refused at {format_bytes(RAM_BYTES)}")
        return
    raise SystemExit("error: the keep-all plan was expected not to fit")


def run_training(folder: Path, train_data: Path, test_data: Path) -> dict[str, Any]:
    """Train on the emulated board with a live loss; the facts of the run."""
    choices = TrainOptions(train_data, test_data, EPOCHS, save=OUT / "trained.onnx")
    columns = (
        TextColumn("epoch {task.fields[epoch]:2}"),
        BarColumn(),
        TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("train", total=1, epoch=1, loss=float("nan"))

        def watch(now: TrainProgress) -> None:
            bar.update(
                task, completed=now.step, total=now.steps, epoch=now.epoch + 1, loss=now.loss
            )

        return train(folder, choices, watch=watch)


def accuracy(model: Path, data: Path) -> float:
    """Share of right answers of an ONNX model in onnxruntime."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    with np.load(data) as stored:
        logits = session.run(None, {session.get_inputs()[0].name: stored["x"]})[0]
        return float((logits.argmax(1) == stored["y"]).mean())


def report(
    facts: dict[str, Any], run: dict[str, Any], result: dict[str, Any], exported: float
) -> Iterator[tuple[str, str]]:
    """What came out, row by row: planned beside measured."""
    yield "RAM", f"budget {RAM_BYTES} bytes; planned {facts['peak_bytes']}"
    yield "", f"linked ELF {facts['elf_ram_bytes']}, of which stack {result['stack_bytes']}"
    yield "", f"keeping every activation would need {facts['keep_all_peak_bytes']}"
    yield "stack", f"{result['stack_used_bytes']} bytes used at most (high-water mark)"
    for verb, key in (("read", "sd_read_bytes"), ("written", "sd_write_bytes")):
        counted = run[key] // run["steps"]
        yield f"SD {verb}", f"{facts[key]} bytes a step planned, {counted} counted"
    yield "bits", f"losses and weights equal to the host's: {run['bit_identical_to_host']}"
    yield "loss", f"{result['loss_first']:.4f} first, {result['loss_last_epoch']:.4f} last epoch"
    before, after = result["accuracy_before"], result["accuracy_after"]
    yield "accuracy", f"on the board {before:.2%} before, {after:.2%} after training"
    yield "", f"trained.onnx in onnxruntime {exported:.2%}"


def main() -> None:
    """The whole job."""
    begin = time.monotonic()
    train_data, test_data = write_data(OUT)
    show_refusal()
    folder = OUT / "build"
    made = build(options(), folder, lambda text: console.print(text, style="dim"))
    facts = made.facts
    console.print(plan_table(facts))
    console.print(f"why: {why(facts)}")
    checked = validate(folder, steps=3, data=train_data)
    if checked.faults:
        raise SystemExit("error: " + "; ".join(checked.faults))
    result = run_training(folder, train_data, test_data)
    exported = accuracy(OUT / "trained.onnx", test_data)
    for name, text in report(facts, checked.facts, result, exported):
        console.print(f"{name:>10}  {text}")
    console.print(f"{'time':>10}  {time.monotonic() - begin:.0f} s")
    console.print(f"{'made':>10}  {OUT.relative_to(ROOT)}: build/, trained.onnx")
    after = result["accuracy_after"]
    if after < WANTED_ACCURACY or exported != after:
        raise SystemExit(f"error: expected at least {WANTED_ACCURACY:.0%} and the same in ONNX")


if __name__ == "__main__":
    try:
        main()
    except PoetError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
