"""A board in use: training steps and evaluations in terms of the model, not of tensors' names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from poet_mcu.codegen.tensor_names import full_names
from poet_mcu.errors import DeviceError
from poet_mcu.link.client import Board, StepResult
from poet_mcu.link.protocol import TensorInfo, TensorRole
from poet_mcu.pipeline.dataset import Array, Dataset
from poet_mcu.pipeline.prepare import Prepared


@dataclass(frozen=True, slots=True)
class Session:
    """Work on an open board.

    ``names`` are the model's of those tensors that are called otherwise on the board
    (``codegen.tensor_names``); weights come back under them.
    """

    board: Board
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, board: Board, prepared: Prepared) -> Session:
        """With the names of the model that the board was built for."""
        return cls(board, full_names(prepared.train))

    def _the(self, role: TensorRole) -> TensorInfo:
        found = [t for t in self.board.tensors() if t.role is role]
        if len(found) != 1:
            raise DeviceError(
                f"{self.board.url}: tensors: expected one {role.name.lower()}, got {len(found)}; "
                "build and flash again"
            )
        return found[0]

    def train_step(
        self, x: Array, y: Array, lr: float | None = None, *, trace: bool = False
    ) -> StepResult:
        """One step on one batch; ``y`` goes unused where the model's output is the loss."""
        inputs = {self._the(TensorRole.INPUT).name: x}
        if any(t.role is TensorRole.LABEL for t in self.board.tensors()):
            inputs[self._the(TensorRole.LABEL).name] = y
        return self.board.train_step(inputs, lr=lr, trace=trace)

    def evaluate(self, x: Array) -> int:
        """Cycles of one evaluation of a batch; its outputs stay on the board."""
        return self.board.evaluate({self._the(TensorRole.EVAL_INPUT).name: x})

    def weights(self) -> dict[str, npt.NDArray[np.generic]]:
        """Every parameter and constant the board holds, flat, by ONNX name."""
        return self._read(TensorRole.PARAMETER, TensorRole.CONSTANT)

    def parameters(self) -> dict[str, npt.NDArray[np.generic]]:
        """The trained tensors alone."""
        return self._read(TensorRole.PARAMETER)

    def _read(self, *roles: TensorRole) -> dict[str, npt.NDArray[np.generic]]:
        return {
            self.names.get(t.name, t.name): self.board.read_tensor(t.name)
            for t in self.board.tensors()
            if t.role in roles
        }

    def outputs(self, data: Dataset) -> Iterator[tuple[npt.NDArray[np.generic], Array]]:
        """Outputs [rows, ...] and labels, batch by batch; the last batch is filled up and cut."""
        source, result = self._the(TensorRole.EVAL_INPUT), self._the(TensorRole.EVAL_OUTPUT)
        for start in range(0, data.samples, data.batch):
            rows = np.arange(start, start + data.batch)
            used = int((rows < data.samples).sum())
            batch = data.x[np.minimum(rows, data.samples - 1)]
            self.board.evaluate({source.name: batch})
            flat = self.board.read_tensor(result.name)
            yield flat.reshape(data.batch, -1)[:used], data.y[start : start + used]

    def accuracy(self, data: Dataset) -> float:
        """Share of samples whose largest output is that of their class label."""
        hits = sum(int((out.argmax(1) == y).sum()) for out, y in self.outputs(data))
        return hits / data.samples
