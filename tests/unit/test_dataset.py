"""The user's npz: what fits is taken, everything else is refused with the reason."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from poet_mcu.errors import InputError
from poet_mcu.ir.graph import DType, TensorType
from poet_mcu.pipeline.dataset import Dataset, load_dataset
from poet_mcu.pipeline.position import Batches

X = TensorType((4, 1, 2, 2))
LABELS = TensorType((4,), DType.I32)
TARGETS = TensorType((4, 3))


def save(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


def good(samples: int = 10) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "x": rng.random((samples, 1, 2, 2)).astype(np.float32),
        "y": np.arange(samples) % 3,
    }


def test_consecutive_batches_begin_again_at_the_end(tmp_path: Path) -> None:
    data = load_dataset(save(tmp_path / "d.npz", **good()), X, LABELS)
    batches = list(data.consecutive(3))
    labels = np.concatenate([y for _, y in batches])
    assert labels.tolist() == [i % 10 % 3 for i in range(12)]
    assert batches[0][0].dtype == np.float32
    assert batches[0][1].dtype == np.int32


def test_an_epoch_has_each_sample_once_and_whole_batches(tmp_path: Path) -> None:
    arrays = good()
    arrays["y"] = np.arange(10)
    data = load_dataset(save(tmp_path / "d.npz", **arrays), X, LABELS)
    batches = Batches(data, 1)
    steps = range(2 * data.steps_per_epoch)
    seen = [batches.at(step)[1].tolist() for step in steps]
    half = data.steps_per_epoch
    first, second = np.concatenate(seen[:half]).tolist(), np.concatenate(seen[half:]).tolist()
    assert len(first) == 8 == data.steps_per_epoch * data.batch
    assert len(set(first)) == len(set(second)) == 8
    assert first != second
    for step in reversed(steps):
        assert batches.at(step)[1].tolist() == seen[step]
        assert Batches(data, 1).at(step)[1].tolist() == seen[step]
    assert Batches(data, 2).at(0)[1].tolist() != seen[0]


def test_float_targets(tmp_path: Path) -> None:
    y = np.ones((10, 3), np.float64)
    data = load_dataset(save(tmp_path / "d.npz", x=good()["x"], y=y), X, TARGETS)
    assert data.y.dtype == np.float32


BAD = {
    "no y": ({"x": good()["x"]}, "expected arrays x and y, got x"),
    "wrong sample shape": (
        {"x": np.zeros((10, 2, 2)), "y": good()["y"]},
        r"x: expected samples of shape \(1, 2, 2\), got \(2, 2\)",
    ),
    "lengths": ({"x": good()["x"], "y": np.zeros(9, int)}, "as many labels as samples"),
    "less than a batch": (good(3), "at least one batch of 4 samples, got 3"),
    "float labels": (
        {"x": good()["x"], "y": np.zeros(10)},
        "y: expected integer class labels, got float64",
    ),
    "negative labels": (
        {"x": good()["x"], "y": np.full(10, -1)},
        "y: expected labels from 0 on, got -1",
    ),
    "text": ({"x": np.full((10, 1, 2, 2), "a"), "y": good()["y"]}, "x: expected numbers"),
    "nan": (
        {"x": np.full((10, 1, 2, 2), np.nan), "y": good()["y"]},
        "x: expected finite numbers",
    ),
    "pickle": (
        {"x": np.array([{}], dtype=object), "y": good()["y"]},
        "expected a .npz file with plain arrays",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused(case: str, tmp_path: Path) -> None:
    arrays, message = BAD[case]
    with pytest.raises(InputError, match=message):
        load_dataset(save(tmp_path / "d.npz", **arrays), X, LABELS)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04broken", None])
def test_a_damaged_file_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    if content is None:
        whole = save(path, **good()).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"d\.npz: expected a \.npz file"):
        load_dataset(path, X, LABELS)


def test_a_pickle_is_never_run(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    marker = tmp_path / "ran"
    path.write_bytes(pickle.dumps(Trap(str(marker))))
    with pytest.raises(InputError):
        load_dataset(path, X, LABELS)
    assert not marker.exists()


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (open, (self.path, "w"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got no such file"):
        load_dataset(tmp_path / "none.npz", X, LABELS)


def test_the_batch_is_the_models() -> None:
    data = Dataset(np.zeros((9, 1), np.float32), np.zeros(9, np.int32), 4)
    assert (data.samples, data.steps_per_epoch) == (9, 2)
