"""Builds the tiny model with the whole runtime for this computer, and says what it must compute."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt

from poet_mcu.toolchain.flags import LANGUAGE, WARNINGS

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
BUILD_ID = bytes(range(16))
CARD_BYTES = 32 * 512  # the region needs blocks 8 and 9
W = "fc/é.weight"
MOMENTUM = W + ":momentum"
N, K, M = 2, 512, 3
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")

Array = npt.NDArray[np.float32]


def build(folder: Path, *, port: str = "host", defines: tuple[str, ...] = ()) -> Path:
    """The firmware of the tiny model; ``port`` is ``host`` or ``replay`` (console on stdio)."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None, "a C compiler for this computer: sudo apt-get install gcc"
    firmware = ROOT / "firmware"
    sources = [HERE / "model.c"]
    sources += [firmware / "link/link.c", *sorted((firmware / "train").glob("*.c"))]
    sources += [
        firmware / f"storage/{name}.c" for name in ("checkpoint", "crc", "status", "page_store")
    ]
    if port == "host":
        sources += sorted((firmware / "port/host").glob("*.c"))
    else:
        sources += [HERE / f"{port}_port.c"]
    out = folder / "firmware"
    command = [compiler, *LANGUAGE, *WARNINGS, "-O1", "-g", *SANITIZERS]
    command += [f"-I{firmware / 'include'}", "-DPOET_FMA_FUSED=0", *(f"-D{d}" for d in defines)]
    subprocess.run([*command, *map(str, sources), "-o", str(out)], check=True)
    return out


def blank_card(folder: Path, size_bytes: int = CARD_BYTES) -> Path:
    card = folder / "card.img"
    card.write_bytes(b"\xff" * size_bytes)
    return card


def initial_w() -> Array:
    w = np.zeros(M * K, np.float32)
    w[:6] = [0.5, -0.25, 0.125, 1e-3, -0.0, 3.0]
    return w.reshape(M, K)


def batches(count: int) -> list[dict[str, npt.NDArray[np.generic]]]:
    rng = np.random.default_rng(7)
    return [
        {
            "x": rng.normal(0.0, 0.05, (N, K)).astype(np.float32),
            "labels": rng.integers(0, M, N).astype(np.int32),
        }
        for _ in range(count)
    ]


class Reference:
    """The model in numpy, in the C code's order of operations: equal to the bit."""

    def __init__(self) -> None:
        self.w = initial_w()
        self.momentum = np.zeros((M, K), np.float32)
        self.scale = np.array([1.0, 0.5, 0.25], np.float32)

    def forward(self, x: Array) -> Array:
        total = np.zeros((len(x), M), np.float32)
        for k in range(K):
            total = total + x[:, k, None] * self.w[None, :, k]
        return total * self.scale

    def train(self, x: Array, labels: npt.NDArray[np.int32], lr: float) -> float:
        difference = self.forward(x) - np.eye(M, dtype=np.float32)[labels]
        loss = np.float32(0)
        for value in difference.reshape(-1):
            loss = loss + value * value
        dz = difference * self.scale
        gradient = np.zeros((M, K), np.float32)
        for n in range(N):
            gradient = gradient + dz[n, :, None] * x[n, None, :]
        self.momentum = self.momentum * np.float32(0.5) + gradient
        self.w = self.w - np.float32(lr) * self.momentum
        return float(loss)
