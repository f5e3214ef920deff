"""Where a training is in its data: what a checkpoint must hold so that it goes on the same way."""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from poet_mcu.errors import InputError
from poet_mcu.pipeline.dataset import Array, Dataset

_LAYOUT = struct.Struct("<QIf")


@dataclass(frozen=True, slots=True)
class Position:
    """The 16 bytes of the host in a checkpoint (SPEC.md, 3.2); the step is the board's.

    ``seed`` is that of the shuffling, modulo 2^64, ``data_crc`` tells other data, ``lr`` is the
    rate that was asked for, None for the build's.
    """

    seed: int
    data_crc: int
    lr: float | None

    @classmethod
    def of(cls, data: Dataset, seed: int, lr: float | None) -> Self:
        """The position of a training on ``data``."""
        crc = 0
        for array in (data.x, data.y):
            head = f"{array.dtype.str} {array.shape} {data.batch} ".encode()
            crc = zlib.crc32(np.ascontiguousarray(array).tobytes(), zlib.crc32(head, crc))
        return cls(seed % 2**64, crc, lr)

    def pack(self) -> bytes:
        """Its bytes."""
        return _LAYOUT.pack(self.seed, self.data_crc, math.nan if self.lr is None else self.lr)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """From a checkpoint."""
        seed, crc, lr = _LAYOUT.unpack(data)
        return cls(seed, crc, None if math.isnan(lr) else lr)

    def require(self, data: Dataset, seed: int) -> None:
        """Raise InputError unless it was made with this data and this seed."""
        ours = Position.of(data, seed, None)
        if self.data_crc != ours.data_crc:
            raise InputError(
                f"--resume: --data: expected the data and batch of the checkpoint (CRC "
                f"{self.data_crc:08x}), got other (CRC {ours.data_crc:08x}); give the same file, "
                "or train from the start, without --resume"
            )
        if self.seed != ours.seed:
            raise InputError(
                f"--resume: --seed: expected {self.seed}, that of the checkpoint, got {seed}; "
                f"give --seed {self.seed}"
            )


class Batches:
    """The batches of every epoch by the number of their step, in any order; shuffled by a seed."""

    def __init__(self, data: Dataset, seed: int) -> None:
        self._data = data
        self._seed = seed
        self._restart()

    def _restart(self) -> None:
        self._rng = np.random.default_rng(self._seed)
        self._next_epoch = 0
        self._order: Array = np.arange(0)

    def at(self, step: int) -> tuple[Array, Array]:
        """Samples and labels of training step ``step``, counted from 0."""
        epoch, place = divmod(step, self._data.steps_per_epoch)
        if epoch < self._next_epoch - 1:
            self._restart()
        while self._next_epoch <= epoch:
            self._order = self._rng.permutation(self._data.samples)
            self._next_epoch += 1
        rows = self._order[place * self._data.batch : (place + 1) * self._data.batch]
        return self._data.x[rows], self._data.y[rows]
