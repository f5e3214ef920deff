"""Builds the kernels with a host compiler and calls them with numpy arrays through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from poet_mcu.ops.operator import Kernel

ROOT = Path(__file__).resolve().parents[2]
KERNELS = sorted((ROOT / "firmware" / "kernels").glob("*.c"))
REFERENCE = ROOT / "tests" / "host" / "reference_kernels.c"
_WARNINGS = """-Wall -Wextra -Wpedantic -Werror -Wconversion -Wsign-conversion
    -Wdouble-promotion -Wfloat-conversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wcast-qual -Wcast-align -Wundef -Wvla -Wswitch-enum -Wwrite-strings"""
WARNINGS = _WARNINGS.split()
BASE = ["-std=c11", "-ffp-contract=off", "-ffreestanding", f"-I{ROOT / 'firmware' / 'include'}"]
HAS_FMA = " fma " in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")

_OUT = tempfile.TemporaryDirectory(prefix="poet_kernels_")


#: struct -> member -> (offset, format)
Layouts = dict[str, dict[str, tuple[int, str]]]


@dataclass(frozen=True)
class Build:
    """How the host library is compiled. ``hardware`` uses the FMA instruction, else libm's."""

    fused: int = 0
    level: str = "-O2"
    compiler: str = "gcc"
    hardware: bool = HAS_FMA

    def flags(self) -> list[str]:
        fma = ["-mfma"] if self.fused and self.hardware else []
        return [*BASE, self.level, *fma, f"-DPOET_FMA_FUSED={self.fused}"]


@cache
def library(build: Build) -> ctypes.CDLL:
    name = hashlib.sha256(repr(build).encode()).hexdigest()[:16]
    path = Path(_OUT.name) / f"{name}.so"
    command = [build.compiler, *build.flags(), *WARNINGS, "-fPIC", "-shared", "-o", str(path)]
    subprocess.run([*command, *map(str, [*KERNELS, REFERENCE]), "-lm"], check=True)
    return ctypes.CDLL(str(path))


CONV = "n c h w m oh ow kh kw stride_h stride_w pad_top pad_left dilation_h dilation_w groups"
POOL = "planes h w oh ow kh kw stride_h stride_w pad_top pad_left dilation_h dilation_w"


def shape_of(fields: str, values: dict[str, int]) -> ctypes.Array[ctypes.c_int32]:
    """A shape struct of poet/kernels.h: all of them are int32 fields in a row."""
    names = fields.split()
    return (ctypes.c_int32 * len(names))(*(values[name] for name in names))


def call(lib: ctypes.CDLL, name: str, shape: object, *args: object) -> None:
    """Arrays go as pointers, floats as float, ints as uint32, None as NULL."""
    converted: list[object] = []
    for arg in (shape, *args):  # a kernel without descriptor has an array in its place
        if isinstance(arg, np.ndarray):
            assert arg.flags.c_contiguous
            converted.append(ctypes.c_void_p(arg.ctypes.data))
        elif isinstance(arg, float):
            converted.append(ctypes.c_float(arg))
        elif isinstance(arg, int):
            converted.append(ctypes.c_uint32(arg))
        else:
            converted.append(ctypes.c_void_p(None) if arg is None else arg)
    function = getattr(lib, name)
    function.restype = None
    function(*converted)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal bit for bit; any NaN equals any NaN (its payload is not part of the contract)."""
    if left.dtype != np.float32:
        return bool(np.array_equal(left, right))
    both_nan = np.isnan(left) & np.isnan(right)
    return bool(np.all((left.view(np.uint32) == right.view(np.uint32)) | both_nan))


def guarded(size: int, fill: float = np.nan) -> np.ndarray:
    """An output of ``size`` floats inside poison, so that a write outside it is seen."""
    return np.full(size + 32, fill, np.float32)


def relative(got: np.ndarray, want: np.ndarray) -> float:
    """Largest difference over largest magnitude."""
    scale = float(np.max(np.abs(want), initial=0.0))
    worst = float(np.max(np.abs(got.astype(np.float64) - want), initial=0.0))
    return worst / scale if scale > 0 else worst


def _members(kind: str, item: str, sizes: dict[str, int], known: Layouts) -> list[tuple[str, str]]:
    """A member as its numbers, each a name (arrays by element, structs by member) and a format."""
    stem, _, count = item.rstrip("]").partition("[")
    if kind in known:
        return [(f"{stem}.{name}", form) for name, (_, form) in known[kind].items()]
    form = "i" if kind == "int32_t" else "f"
    if not count:
        return [(stem, form)]
    return [(f"{stem}[{i}]", form) for i in range(sizes.get(count) or int(count))]


@cache
def _layouts() -> Layouts:
    """The structs of the public headers."""
    folder = ROOT / "firmware" / "include" / "poet"
    names = ("kernels.h", "fused.h", "recurrent.h")
    text = "".join((folder / name).read_text(encoding="utf-8") for name in names)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    sizes = {k: int(v) for k, v in re.findall(r"#define (POET_\w+) (\d+)", text)}
    found: Layouts = {}
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", text, re.DOTALL):
        members: dict[str, tuple[int, str]] = {}
        for kind, items in re.findall(r"(\w+) ([^;]+);", body):
            for item in items.replace(" ", "").split(","):
                for part, form in _members(kind, item, sizes, found):
                    members[part] = (4 * len(members), form)
        found[name] = members
    return found


def descriptor(kernel: Kernel) -> Any:
    """The C struct of a call; members without an initializer are 0, as in C."""
    layout = _layouts()[kernel.descriptor]
    raw = bytearray(4 * len(layout))
    for name, value in kernel.fields:
        offset, form = layout[name]
        struct.pack_into(f"<{form}", raw, offset, value)
    return (ctypes.c_uint8 * len(raw)).from_buffer(raw)
