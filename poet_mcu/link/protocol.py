"""Messages of the serial link, as types; their bytes stand in SPEC.md.

Every ``unpack`` raises :class:`DeviceError` when the payload has another length than it must.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import DeviceError

ABI_VERSION = 3
BUILD_ID_BYTES = 16
TRACE_FLAG = 1
STATE_FAILED = 1
STATE_WRONG_ABI = 2
STATE_BEGUN = 4
NONE = 0xFFFF_FFFF  # "no action" and "no block" in a fault
CHECKPOINT_ACTION = 0xFFFF_FFFE  # the action of a fault while a checkpoint was written or read
POSITION_BYTES = 16
READ_BYTES = 512
WRITE_BYTES = 504
ANSWER = 0x80


class Message(enum.IntEnum):
    """Frame types."""

    IDENTIFY = 0x01
    TENSOR_INFO = 0x02
    READ = 0x03
    WRITE = 0x04
    TENSOR_CRC = 0x05
    TRAIN_STEP = 0x06
    EVALUATE = 0x07
    COUNTERS = 0x08
    RESET_MODEL = 0x09
    FORMAT_CARD = 0x0A
    REBOOT = 0x0B
    CHECKPOINT_PLAN = 0x0C
    CHECKPOINT = 0x0D
    RESTORE = 0x0E
    TEST_MEMORY = 0x40
    TEST_CASE = 0x41
    TEST_CARD_OPEN = 0x42
    TEST_CARD = 0x43
    PROGRESS = 0xFD
    TRACE = 0xFE
    ERROR = 0xFF


class TensorRole(enum.IntEnum):
    """``poet_role`` of firmware/include/poet/model.h."""

    INPUT = 0
    LABEL = 1
    PARAMETER = 2
    STATE = 3
    CONSTANT = 4
    LOSS = 5
    EVAL_INPUT = 6
    EVAL_OUTPUT = 7


_NUMPY: dict[int, npt.DTypeLike] = {0: "<f4", 1: "<i4", 2: "u1"}


def _fields(layout: struct.Struct, payload: bytes, what: str) -> tuple[Any, ...]:
    if len(payload) != layout.size:
        raise _wrong_length(what, layout.size, len(payload))
    return layout.unpack(payload)


def _wrong_length(what: str, expected: int, got: int) -> DeviceError:
    return DeviceError(
        f"board: {what}: expected {expected} bytes, got {got}; "
        "build and flash the firmware with this version of poet-mcu"
    )


def _text(payload: bytes) -> str:
    return payload.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answers. ``page_count`` 0: the plan needs no card and ``card_status`` says nothing."""

    protocol: int
    abi: int
    build_id: bytes
    model_hash: bytes
    arena_bytes: int
    tensor_count: int
    steps_done: int
    card_status: int
    default_lr: float
    train_action_count: int
    eval_action_count: int
    page_count: int
    cycle_hz: int
    state: int
    model: str
    board: str

    _LAYOUT = struct.Struct("<II16s32sIIIifIIIII")

    @property
    def failed(self) -> bool:
        """A step failed: the model must be reset."""
        return bool(self.state & STATE_FAILED)

    @property
    def begun(self) -> bool:
        """The model was reset or restored since the board started."""
        return bool(self.state & STATE_BEGUN)

    @classmethod
    def unpack(cls, payload: bytes) -> Identity:
        """From the answer to IDENTIFY."""
        layout = cls._LAYOUT
        fields = _fields(layout, payload[: layout.size], "identity")
        model, rest = _title(payload[layout.size :])
        board, rest = _title(rest)
        if rest:
            raise _wrong_length("identity", len(payload) - len(rest), len(payload))
        values: tuple[Any, ...] = (*fields, model, board)
        return cls(*values)


def _title(payload: bytes) -> tuple[str, bytes]:
    """A length byte and so many bytes of text; the rest."""
    if not payload or len(payload) < 1 + payload[0]:
        raise _wrong_length("identity", 1 + (payload[0] if payload else 0), len(payload))
    return _text(payload[1 : 1 + payload[0]]), payload[1 + payload[0] :]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of the firmware; ``index`` is its number in all messages."""

    index: int
    name: str
    nbytes: int
    role: TensorRole
    dtype: np.dtype[np.generic]

    _LAYOUT = struct.Struct("<IBBH")

    @classmethod
    def unpack(cls, index: int, payload: bytes) -> TensorInfo:
        """From the answer to TENSOR_INFO(index)."""
        layout = cls._LAYOUT
        head = _fields(layout, payload[: layout.size], "tensor information")
        nbytes, role, dtype, length = head
        if len(payload) != layout.size + length:
            raise _wrong_length("tensor information", layout.size + length, len(payload))
        if role not in TensorRole.__members__.values() or dtype not in _NUMPY:
            raise DeviceError(
                f"board: tensor {index}: expected a known role and type, got {role} and {dtype}; "
                "build and flash the firmware with this version of poet-mcu"
            )
        name = _text(payload[layout.size :])
        return cls(index, name, nbytes, TensorRole(role), np.dtype(_NUMPY[dtype]))


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """``loss`` may be NaN or infinite: that is the model's business, not the link's."""

    loss: float
    cycles: int

    _LAYOUT = struct.Struct("<fQ")

    @classmethod
    def unpack(cls, payload: bytes) -> StepAnswer:
        """From the answer to TRAIN_STEP."""
        return cls(*_fields(cls._LAYOUT, payload, "answer to a step"))


@dataclass(frozen=True, slots=True)
class Trace:
    """An action has ended ``cycles`` after the start of its step (time of sending left out)."""

    action: int
    cycles: int

    _LAYOUT = struct.Struct("<IQ")

    @classmethod
    def unpack(cls, payload: bytes) -> Trace:
        """From a TRACE frame."""
        return cls(*_fields(cls._LAYOUT, payload, "trace"))


@dataclass(frozen=True, slots=True)
class Counters:
    """Counted by the board since its start, except ``steps`` (since the model's reset).

    ``sd_*_bytes`` are the bytes of pages, not rounded to blocks. ``stack_bytes`` 0: not measured.
    ``step_cycles`` is the last training step's.
    """

    sd_read_bytes: int
    sd_write_bytes: int
    sd_reads: int
    sd_writes: int
    steps: int
    frames: int
    damaged_frames: int
    stack_bytes: int
    stack_free_bytes: int
    step_cycles: int
    cycle_hz: int

    _LAYOUT = struct.Struct("<QQIIIIIIIQI")

    @classmethod
    def unpack(cls, payload: bytes) -> Counters:
        """From the answer to COUNTERS."""
        return cls(*_fields(cls._LAYOUT, payload, "counters"))


@dataclass(frozen=True, slots=True)
class Restored:
    """The checkpoint that the board has gone back to; ``position`` is what the host had given.

    ``damaged``: a newer checkpoint was on the card, and could not be read or was not whole.
    """

    sequence: int
    step: int
    damaged: bool
    position: bytes

    _LAYOUT = struct.Struct(f"<III{POSITION_BYTES}s")

    @classmethod
    def unpack(cls, payload: bytes) -> Restored:
        """From the answer to RESTORE."""
        sequence, step, damaged, position = _fields(cls._LAYOUT, payload, "answer to a restore")
        return cls(sequence, step, bool(damaged), position)


@dataclass(frozen=True, slots=True)
class Fault:
    """``poet_fault``: where a step stopped. ``action`` and ``block`` are None outside of one."""

    step: int
    action: int | None
    block: int | None
    status: int


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """A refused or failed request; ``fault`` is the first failure when a step had failed before."""

    status: int
    fault: Fault

    _LAYOUT = struct.Struct("<iIIIi")

    @classmethod
    def unpack(cls, payload: bytes) -> ErrorAnswer:
        """From an ERROR frame."""
        fields = _fields(cls._LAYOUT, payload, "error")
        status, step, action, block, cause = fields
        fault = Fault(
            step, None if action == NONE else action, None if block == NONE else block, cause
        )
        return cls(status, fault)


def unpack_u32(payload: bytes, what: str) -> int:
    """A payload that is one unsigned 32-bit number."""
    return int(_fields(struct.Struct("<I"), payload, what)[0])


def unpack_u64(payload: bytes, what: str) -> int:
    """A payload that is one unsigned 64-bit number."""
    return int(_fields(struct.Struct("<Q"), payload, what)[0])


def pack_u32(*values: int) -> bytes:
    """Unsigned 32-bit numbers in a row."""
    return struct.pack(f"<{len(values)}I", *values)


def pack_train_step(step: int, lr: float, *, trace: bool) -> bytes:
    """Payload of TRAIN_STEP."""
    return struct.pack("<IfI", step, lr, TRACE_FLAG if trace else 0)
