"""The user's data: an npz file with ``x`` and ``y``, checked and cut in batches."""

from __future__ import annotations

import tokenize
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import InputError
from poet_mcu.ir.graph import DType, TensorType

#: what numpy raises for headers and archives that somebody made up
_DAMAGED = (
    ValueError, OSError, EOFError, zipfile.BadZipFile, TypeError, AttributeError, MemoryError,
    OverflowError, RecursionError, SyntaxError, tokenize.TokenError,
)  # fmt: skip
Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Dataset:
    """``x`` and ``y`` [samples, ...], each int32 or float32.

    Where the model's output is the loss there are no labels, and ``y`` is [samples, 0].
    """

    x: Array
    y: Array
    batch: int

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.x)

    def consecutive(self, steps: int) -> Iterator[tuple[Array, Array]]:
        """``steps`` batches from the start on, beginning again at the end."""
        for step in range(steps):
            rows = np.arange(step * self.batch, (step + 1) * self.batch) % self.samples
            yield self.x[rows], self.y[rows]

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one pass."""
        return self.samples // self.batch


def load_dataset(path: Path, input_type: TensorType, label_type: TensorType | None) -> Dataset:
    """Read ``path`` for a model whose batches have these types; None: there are no labels.

    Integer labels must fit int32; float labels are taken as float32. Pickled arrays are refused.
    """
    arrays = _arrays(path, ("x",) if label_type is None else ("x", "y"))
    batch = input_type.shape[0]
    x = _fit(path, "x", arrays["x"], input_type)
    y: Array = np.zeros((len(x), 0), np.float32)
    if label_type is not None:
        y = _fit(path, "y", arrays["y"], label_type)
    if len(x) != len(y):
        raise InputError(
            f"{path}: x, y: expected as many labels as samples, got {len(x)}, {len(y)}"
        )
    if len(x) < batch:
        raise InputError(f"{path}: x: expected at least one batch of {batch} samples, got {len(x)}")
    return Dataset(x, y, batch)


def _arrays(path: Path, wanted: tuple[str, ...]) -> dict[str, Array]:
    if not path.is_file():
        raise InputError(f"{path}: expected a .npz file with x and y, got no such file")
    try:
        with np.load(path, allow_pickle=False) as stored:
            missing = [name for name in wanted if name not in stored]
            if missing:
                names = ", ".join(stored) or "nothing"
                raise InputError(f"{path}: expected arrays {' and '.join(wanted)}, got {names}")
            return {name: stored[name] for name in wanted}
    except _DAMAGED as error:
        raise InputError(
            f"{path}: expected a .npz file with plain arrays x and y, got '{error}'; "
            "write it with numpy.savez(path, x=..., y=...)"
        ) from error


def _fit(path: Path, name: str, array: Array, kind: TensorType) -> Array:
    if array.shape[1:] != kind.shape[1:]:
        raise InputError(
            f"{path}: {name}: expected samples of shape {kind.shape[1:]}, got {array.shape[1:]}"
        )
    if kind.dtype is DType.I32:
        if not np.issubdtype(array.dtype, np.integer):
            raise InputError(f"{path}: {name}: expected integer class labels, got {array.dtype}")
        if array.size and (array.min() < 0 or array.max() >= 2**31):
            raise InputError(f"{path}: {name}: expected labels from 0 on, got {array.min()}")
        return array.astype(np.int32)
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise InputError(f"{path}: {name}: expected numbers, got {array.dtype}")
    converted = array.astype(np.float32)
    if not np.isfinite(converted).all():
        raise InputError(f"{path}: {name}: expected finite numbers, got NaN or infinity")
    return converted
