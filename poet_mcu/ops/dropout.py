"""Dropout in training: the mask is a function of seed, stream, step and element alone.

So a recomputed or paged activation has the mask it had, whatever the plan, and a training that is
resumed needs no random state beside the number of steps. The backward pass draws the mask again: a
mask in memory would cost a byte an element from the forward to the backward pass, and memory is
what is short; drawing costs about 20 cycles an element.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import ModelError
from poet_mcu.ir.graph import Node, TensorType, Value
from poet_mcu.ops.operator import Array, Attrs, Cost, Emitter, Kernel, Operator, Types, ints, number

_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_DRAWS = 1 << 16
U32 = npt.NDArray[np.uint32]


def threefry(key: tuple[int, int], c0: U32, c1: U32) -> tuple[U32, U32]:
    """Threefry-2x32 with 20 rounds of each counter (c0, c1).

    Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    keys = [np.uint32(k) for k in (*key, _PARITY ^ key[0] ^ key[1])]
    with np.errstate(over="ignore"):
        x0, x1 = c0 + keys[0], c1 + keys[1]
        for group in range(5):
            for turn in _TURNS[group % 2]:
                x0 = x0 + x1
                x1 = ((x1 << np.uint32(turn)) | (x1 >> np.uint32(32 - turn))) ^ x0
            x0 = x0 + keys[(group + 1) % 3]
            x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def kept(count: int, seed: int, stream: int, step: int, ratio: float) -> npt.NDArray[np.bool_]:
    """Which of ``count`` elements stay at a step."""
    blocks = np.arange(-(-count // 4), dtype=np.uint32)
    words = threefry((seed, stream), blocks, np.full_like(blocks, step))
    halves = [half for word in words for half in (word & np.uint32(0xFFFF), word >> np.uint32(16))]
    return np.stack(halves, 1).reshape(-1)[:count] >= threshold(ratio)


def threshold(ratio: float) -> int:
    """How many of the 65536 equally likely draws drop an element."""
    return round(ratio * _DRAWS)


def _scale(attrs: Attrs) -> float:
    return float(np.float32(1 / (1 - number(attrs, "ratio"))))


class Dropout(Operator):
    """y = x / (1 - ratio), or 0 with probability ``ratio``; ``seed`` and ``stream`` choose where.

    Its gradient is the same of dy. May run in place.
    """

    name = "dropout"
    in_place = ((0, 0),)
    by_step = True
    only_in_training = True

    def infer(self, inputs: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        ratio = number(attrs, "ratio")
        if not 0 <= ratio < 1:
            raise ModelError(f"expected a ratio in [0, 1), got {ratio:g}")
        return (inputs[0],)

    def reference(self, inputs: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
        x = np.asarray(inputs[0], np.float32)
        seed, stream, step = (ints({"step": 0, **attrs}, k)[0] for k in ("seed", "stream", "step"))
        stays = kept(x.size, seed, stream, step, number(attrs, "ratio")).reshape(x.shape)
        return (np.where(stays, x * np.float32(_scale(attrs)), np.float32(0)),)

    def cost(self, inputs: Types, outputs: Types, attrs: Attrs) -> Cost:
        return Cost("elementwise", elements=7 * outputs[0].elements)

    def kernel(self, inputs: Types, outputs: Types, attrs: Attrs) -> Kernel:
        fields = (
            ("count", inputs[0].elements),
            ("seed", ints(attrs, "seed")[0]),
            ("stream", ints(attrs, "stream")[0]),
            ("threshold", threshold(number(attrs, "ratio"))),
            ("scale", _scale(attrs)),
        )
        args = ("in0", "step", "out0")
        return Kernel("poet_dropout_f32", "dropout.c", args, "poet_dropout_shape", fields)

    def gradient(
        self,
        node: Node,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        grads: Sequence[Value],
        needs: Sequence[bool],
        build: Emitter,
    ) -> tuple[Value | None, ...]:
        return build.emit("dropout", (grads[0],), node.attrs, f"d_{inputs[0].name}")


OPERATORS = (Dropout(),)
