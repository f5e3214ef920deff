"""The soak: many steps on an emulated board whose card, line and power are bad, to the same bits.

Two kinds of card faults. Silent ones are harmed blocks between QEMU and the image (``bad_card``):
the firmware is not told. Told ones come from a port with faults built in (``soak/bad_port.c``):
transfers that are refused, fail or time out.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from bad_card import BadCard
from onnx import TensorProto, helper, numpy_helper
from trainer.proxy import bad_line

from poet_mcu import resources
from poet_mcu.link.client import Board
from poet_mcu.link.emulator import run_qemu
from poet_mcu.link.transport import BoardFault, Link
from poet_mcu.pipeline.build import build, runtime_sources
from poet_mcu.pipeline.dataset import Dataset
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.position import Batches, Position
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import BuildFolder, connect_twin, open_folder
from poet_mcu.pipeline.training_run import Restarted, TrainingRun
from poet_mcu.toolchain import compile_program

HERE = Path(__file__).resolve().parent / "soak"
SIZES = (17, 9, 3)  # the first layer is just longer than a block: it may live on the card
EVERY = 10  # steps between checkpoints
GIVE_UP = 1000  # runs, and restores in a row
MOVED = "blocks moved"  # the one count that is none of faults
_SHORT = 0xFFFF


@dataclass(frozen=True, slots=True)
class Rates:
    """Share of frames harmed, of blocks harmed in silence, of transfers failed, of restarts."""

    frames: float = 0.01
    blocks: float = 0.01
    transfers: float = 0.01
    restarts: float = 0.0005
    seed: int = 0  # which faults they are


@dataclass(slots=True)
class Outcome:
    """What happened, and what is there at the end."""

    steps: int
    injected: Counter[str] = field(default_factory=Counter)
    recoveries: int = 0
    runs: int = 0
    seconds: float = 0.0
    losses: dict[int, float] = field(default_factory=dict)
    kept: dict[str, bytes] = field(default_factory=dict)

    @property
    def untold(self) -> int:
        """Steps that the board has done and saved while the host's run ended in an error: the next
        run goes on behind them, and their loss is never told."""
        return self.steps - len(self.losses)

    def same_as(self, good: Outcome) -> bool:
        """Whether weights and states, and every loss that was told, have the same bits."""
        told = {step: good.losses[step] for step in self.losses}
        return self.kept == good.kept and self.losses == told


def prepare(folder: Path, rates: Rates) -> BuildFolder:
    """A build of the smallest model that pages, with momentum; its ELF has the bad port."""
    path = folder / "mlp.onnx"
    path.write_bytes(_model().SerializeToString())
    recipe = {"optimizer": "momentum", "home_parameters": "card"}
    options = Options(path, "qemu-m7-sd", batch=2, time_limit_s=5.0, **recipe)
    build(options, folder / "build")
    made = open_folder(folder / "build")
    _compile_bad(made, rates)
    return made


def _model() -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    k, h, m = SIZES
    stored = {"w1": (h, k), "b1": (h,), "w2": (m, h), "b2": (m,)}
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], "fc1", transB=1),
            helper.make_node("Relu", ["a"], ["r"], "relu"),
            helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], "fc2", transB=1),
        ],
        "soak",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", m])],
        [
            numpy_helper.from_array(rng.normal(0, 0.5, shape).astype(np.float32), name)
            for name, shape in stored.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _compile_bad(made: BuildFolder, rates: Rates) -> None:
    """The firmware once more, with the bad port in place of the board's."""
    firmware = resources.root() / "firmware"
    family = made.board.port_family
    replaced = {f"firmware/port/{family}/primecell.c", "firmware/port/common/startup.c"}
    names = [name for name in runtime_sources(made.board) if name not in replaced]
    sources = [made.path / name for name in names] + sorted((made.path / "src").glob("*.c"))
    sources += [HERE / "bad_port.c", HERE / "bad_startup.c"]
    ports = [firmware / "port" / name for name in (family, "common")]
    compile_program(
        made.board,
        sources,
        [made.path / "src", firmware / "include", *ports],
        made.path / "bad.elf",
        linker_script=made.path / "linker.ld",
        defines={
            "FAULTS_PER_MILLE": f"{round(1000 * rates.transfers)}u",
            "FAULT_SEED": f"{0x2545F491 + rates.seed}u",
        },
    )


def _run_of(session: Session, start: int, steps: int) -> TrainingRun:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(64, SIZES[0])).astype(np.float32)
    data = Dataset(x, rng.integers(0, SIZES[-1], 64).astype(np.int32), 2)
    position = Position.of(data, 9, None)
    return TrainingRun(session, Batches(data, 9), position, steps, EVERY, start)


def _kept(board: Board) -> dict[str, bytes]:
    names = [t.name for t in board.tensors() if t.role.name in ("PARAMETER", "STATE")]
    return {name: board.read_tensor(name).tobytes() for name in names}


def undisturbed(made: BuildFolder, steps: int) -> Outcome:
    """The same steps on this computer, where nothing fails."""
    with connect_twin(made) as board:
        board.reset_model()
        run = _run_of(Session(board), 0, steps)
        run.run(lambda _step, _loss: None)
        return Outcome(steps, losses=run.losses, kept=_kept(board))


class _Abused:
    def __init__(
        self, board: Board, steps: int, rates: Rates, watch: Callable[[int], None]
    ) -> None:
        self.board = board
        self.outcome = Outcome(steps)
        self._rates = rates
        self._random = random.Random(6 + rates.seed)
        self._watch = watch

    def count_told(self) -> None:
        """The told faults since the board's start: see soak/bad_port.c."""
        counters = self.board.counters()
        failed, others = counters.stack_bytes, counters.stack_free_bytes
        self.outcome.injected += Counter(
            {
                "told: read failed": failed & _SHORT,
                "told: write failed": failed >> 16,
                "told: refused": others & _SHORT,
                "told: timed out": others >> 16,
            }
        )

    def restart(self, step: int, _loss: float) -> None:
        self._watch(step)
        if self._random.random() < self._rates.restarts:
            self.count_told()
            self.outcome.injected["restart"] += 1
            self.board.reboot()

    def train(self) -> None:
        """As a user who gives --resume again and again."""
        start, outcome = 0, self.outcome
        while outcome.runs < GIVE_UP:
            outcome.runs += 1
            run = _run_of(Session(self.board), start, outcome.steps)
            try:
                run.run(self.restart)
            except (BoardFault, Restarted):
                start = self.restored()
            else:
                return
            finally:
                outcome.recoveries += run.recoveries
                outcome.losses |= run.losses
        raise AssertionError(f"not done after {GIVE_UP} runs")

    def restored(self) -> int:
        told = None
        for _ in range(GIVE_UP):
            try:
                return self.board.restore().step
            except BoardFault as error:
                told = error
        raise AssertionError("the checkpoint does not come back") from told


@contextmanager
def _bad_board(
    made: BuildFolder, folder: Path, rates: Rates
) -> Iterator[tuple[Board, BadCard, Counter[str]]]:
    emulator = made.board.emulator
    assert emulator is not None
    elf = made.path / "bad.elf"
    with (
        BadCard(made.path / "card.img", folder, 1 + rates.seed, 0.0) as card,
        run_qemu(
            elf, emulator.machine, emulator.cpu, None, "socket", extra=["-drive", card.drive]
        ) as url,
        bad_line(url, seed=2 + rates.seed, rate=rates.frames) as line,
        Board(Link(line.url, 0.1, 100, 8), 60.0) as board,
    ):
        board.require(made.build_id)
        yield board, card, line


def soak(
    made: BuildFolder,
    folder: Path,
    steps: int,
    rates: Rates,
    watch: Callable[[int], None] = lambda _step: None,
) -> Outcome:
    """``steps`` on the bad board; ``watch`` sees each step done. The image is in ``folder``."""
    started = time.monotonic()
    with _bad_board(made, folder, rates) as (board, card, line):
        card.rate = rates.blocks
        board.reset_model()
        abused = _Abused(board, steps, rates, watch)
        abused.train()
        card.rate = 0.0
        assert abused.restored() == steps  # what the card holds, not what RAM remembers
        abused.count_told()
        outcome = abused.outcome
        outcome.kept = _kept(board)
        outcome.injected += Counter({f"silent {kind}": n for kind, n in card.kinds.items()})
        for way, damage in (("to board", line.to_board), ("to host", line.to_host)):
            outcome.injected += Counter({f"line {way}: {k}": n for k, n in damage.kinds.items()})
        outcome.injected[MOVED] = card.transfers
    outcome.seconds = time.monotonic() - started
    return outcome
