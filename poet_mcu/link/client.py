"""A board on the other end of a serial line: its tensors, its training steps, its counters."""

from __future__ import annotations

import math
import secrets
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from poet_mcu.cnames import board_name
from poet_mcu.errors import DeviceError, InputError, nearest
from poet_mcu.link import protocol
from poet_mcu.link.frame import VERSION, Frame
from poet_mcu.link.protocol import (
    BUILD_ID_BYTES,
    Counters,
    Identity,
    Message,
    Restored,
    StepAnswer,
    TensorInfo,
    TensorRole,
    Trace,
)
from poet_mcu.link.transport import Link, Request

Array = npt.NDArray[np.generic]
_TRIES = 8
_FLOAT_MAX = float(np.finfo(np.float32).max)
_REBOOT_PATIENCE_S = 1.0
_RETRY_S = 0.5
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StepResult:
    """One training step; ``trace`` is empty unless asked for, and lacks what the line lost."""

    step: int
    loss: float
    cycles: int
    trace: tuple[Trace, ...] = ()


def once_there(attempt: Callable[[], T], limit_s: float) -> T:
    """What ``attempt`` gives, tried again while it raises DeviceError and ``limit_s`` are not over.

    For a board that is being flashed or has just got its power: first its port is away, then it
    does not answer.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return attempt()
        except DeviceError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)


def open_board(
    url: str,
    timeout_s: float = 1.0,
    *,
    build_id: bytes | None = None,
    step_timeout_s: float = 600.0,
    window: int | None = None,
) -> Board:
    """The board behind ``url``, asked who it is.

    ``url`` is anything pyserial's ``serial_for_url`` takes. ``timeout_s`` is the wait before a
    request is repeated (8 times at most), ``step_timeout_s`` the longest silence of a step: the
    board reports progress once a second where its actions are short enough. ``window`` requests
    are under way at once; the default is 8 for sockets and ptys and 1 for a UART.

    Raises:
        DeviceError: nobody answers, or the firmware is not of build ``build_id`` (16 bytes).
    """
    if build_id is not None and len(build_id) != BUILD_ID_BYTES:
        raise InputError(
            f"{url}: build id: expected {BUILD_ID_BYTES} bytes, got {len(build_id)}; "
            "take it from the manifest of the build"
        )
    board = Board(Link(url, timeout_s, _TRIES, window), step_timeout_s)
    try:
        board.identify()
        board.require(build_id)
    except BaseException:
        board.close()
        raise
    return board


class Board:
    """Made by :func:`open_board`; a context manager that lets go of the port."""

    def __init__(self, link: Link, step_timeout_s: float) -> None:
        self.url = link.url
        self._link = link
        self._step_timeout_s = step_timeout_s
        self._identity: Identity | None = None
        self._tensors: dict[str, TensorInfo] | None = None
        self._steps_done = 0
        self._token = secrets.randbits(32)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the port; the board keeps its state."""
        self._link.close()

    # ---- who is there ----

    @property
    def identity(self) -> Identity:
        """The last answer to :meth:`identify`."""
        return self._identity if self._identity is not None else self.identify()

    @property
    def steps_done(self) -> int:
        """Training steps since the last reset of the model."""
        return self._steps_done

    def identify(self) -> Identity:
        """Who answers, freshly asked."""
        identity = Identity.unpack(self.ask(Message.IDENTIFY))
        self._identity = identity
        self._steps_done = identity.steps_done
        return identity

    def require(self, build_id: bytes | None) -> None:
        """Raise DeviceError unless the board speaks our protocol and runs build ``build_id``."""
        identity = self.identity
        if build_id is not None and identity.build_id != build_id:
            raise DeviceError(
                f"{self.url}: build id: expected {build_id.hex()}, got {identity.build_id.hex()} "
                f"(model '{identity.model}', board '{identity.board}'); "
                "flash the firmware of this build"
            )
        ours = (VERSION, protocol.ABI_VERSION)
        theirs = (identity.protocol, identity.abi)
        if theirs != ours or identity.state & protocol.STATE_WRONG_ABI:
            raise DeviceError(
                f"{self.url}: protocol and ABI version: expected {ours[0]} and {ours[1]}, got "
                f"{theirs[0]} and {theirs[1]}; build and flash again with this poet-mcu"
            )

    def counters(self) -> Counters:
        """Transfers, frames, stack and cycles, counted by the board."""
        return Counters.unpack(self.ask(Message.COUNTERS))

    # ---- tensors ----

    def tensors(self) -> tuple[TensorInfo, ...]:
        """Every tensor the host can see."""
        return tuple(self._by_name().values())

    def tensor(self, name: str) -> TensorInfo:
        """The tensor of this (ONNX) name; one that the board had to cut is found by the whole."""
        known = self._by_name()
        found = known.get(board_name(name))
        if found is None:
            raise InputError(
                f"{self.url}: tensor '{name}': expected one of {len(known)} known names, got none"
                f"{nearest(name, list(known)) or '; list them with tensors()'}"
            )
        return found

    def read_tensor(self, name: str) -> Array:
        """Its elements, flat, as float32, int32 or uint8.

        What lives on the card is read from it unchecked, so for parameters and states the board
        says the checksum of the whole, which is checked against that of the last step.
        """
        info = self.tensor(name)
        step = protocol.READ_BYTES
        requests = [
            Request(Message.READ, protocol.pack_u32(info.index, at, min(step, info.nbytes - at)))
            for at in range(0, info.nbytes, step)
        ]
        data = b"".join(self._link.exchange(requests))
        if len(data) != info.nbytes:
            raise DeviceError(
                f"{self.url}: tensor '{name}': expected {info.nbytes} bytes, got {len(data)}; "
                "build and flash again with this poet-mcu"
            )
        if info.role in (TensorRole.PARAMETER, TensorRole.STATE):
            self._check(info, data)
        return np.frombuffer(data, dtype=info.dtype).copy()

    def _check(self, info: TensorInfo, data: bytes) -> None:
        told, ours = self.tensor_crc(info.name), zlib.crc32(data)
        if told != ours:
            raise DeviceError(
                f"{self.url}: tensor '{info.name}': expected bytes with CRC {told:08x}, got "
                f"{ours:08x}; the card reads differently each time: check it and its wiring"
            )

    def write_tensor(self, name: str, array: npt.ArrayLike) -> None:
        """Send all elements in row-major order; numbers are converted, kinds are not."""
        self._write_all({name: array})

    def tensor_crc(self, name: str) -> int:
        """CRC-32 of the bytes on the board."""
        payload = protocol.pack_u32(self.tensor(name).index)
        # A slow core needs a while for a large tensor.
        answer = self.ask(Message.TENSOR_CRC, payload, slow=True)
        return protocol.unpack_u32(answer, "checksum of a tensor")

    def tensor_equals(self, name: str, array: npt.ArrayLike) -> bool:
        """Whether the board holds exactly these elements, compared by CRC-32 on the board."""
        expected = zlib.crc32(self._bytes_of(self.tensor(name), array))
        return self.tensor_crc(name) == expected

    # ---- work ----

    def train_step(
        self,
        inputs: Mapping[str, npt.ArrayLike] | None = None,
        *,
        lr: float | None = None,
        step: int | None = None,
        trace: bool = False,
    ) -> StepResult:
        """Write ``inputs``, run one training step, return its loss.

        Inputs share memory with activations, so all of them are written before every step.
        ``step`` (default: the next one) is checked by the board: a step is never counted twice.
        """
        number = self._steps_done if step is None else step
        rate = self.identity.default_lr if lr is None else lr
        if not math.isfinite(rate) or abs(rate) > _FLOAT_MAX:
            raise InputError(
                f"{self.url}: learning rate: expected a finite float32, got {rate}; "
                "choose another rate"
            )
        self._write_all(inputs)
        seen: list[Trace] = []

        def on_event(frame: Frame) -> None:
            if frame.type == Message.TRACE:
                seen.append(Trace.unpack(frame.payload))

        payload = protocol.pack_train_step(number, rate, trace=trace)
        request = Request(Message.TRAIN_STEP, payload, self._step_timeout_s, slow=True)
        answer = StepAnswer.unpack(self._link.exchange([request], on_event)[0])
        self._steps_done = number + 1
        return StepResult(number, answer.loss, answer.cycles, tuple(seen))

    def evaluate(self, inputs: Mapping[str, npt.ArrayLike] | None = None) -> int:
        """Write ``inputs``, run the evaluation, return its cycles; then read the outputs.

        It may overwrite its own inputs and those of a training step: write them again each time.
        """
        self._write_all(inputs)
        self._token = (self._token + 1) & 0xFFFF_FFFF
        payload = protocol.pack_u32(self._token)
        answer = self.ask(Message.EVALUATE, payload, slow=True)
        return protocol.unpack_u64(answer, "answer to an evaluation")

    def reset_model(self) -> Identity:
        """Start values into the parameters, state to zero, step 0; the card is opened again."""
        self.ask(Message.RESET_MODEL, slow=True)
        return self.identify()

    def format_card(self) -> Identity:
        """Write the header of the page region: what is on the card there is lost."""
        self.ask(Message.FORMAT_CARD, self.identity.build_id, slow=True)
        return self.identify()

    def plan_checkpoints(self, every: int, position: bytes = b"") -> None:
        """Let the board write a checkpoint after each ``every`` steps; 0: only when asked.

        ``position`` (at most 16 bytes) goes into each of them and comes back from :meth:`restore`.
        """
        payload = protocol.pack_u32(every) + position.ljust(protocol.POSITION_BYTES, b"\0")
        self.ask(Message.CHECKPOINT_PLAN, payload)

    def checkpoint(self, step: int | None = None) -> int:
        """Write a checkpoint now; its sequence number on this card.

        A board that has not done just ``step`` steps since the model was reset or restored refuses
        (None: it is not asked).
        """
        payload = b"" if step is None else protocol.pack_u32(step)
        answer = self.ask(Message.CHECKPOINT, payload, slow=True)
        return protocol.unpack_u32(answer, "answer to a checkpoint")

    def restore(self) -> Restored:
        """Go back to the newest whole checkpoint on the card, which is opened again first."""
        restored = Restored.unpack(self.ask(Message.RESTORE, slow=True))
        self._steps_done = restored.step
        return restored

    def reboot(self) -> None:
        """Restart the board (the host firmware ends). It may do so before its answer is sent."""
        request = Request(Message.REBOOT, patience_s=_REBOOT_PATIENCE_S, slow=True)
        try:
            self._link.exchange([request])
        except DeviceError as error:
            if getattr(error, "answer", None) is not None:
                raise
        self._identity = None

    # ---- inside ----

    def ask(self, message: Message, payload: bytes = b"", *, slow: bool = False) -> bytes:
        """The payload of the answer to one request; ``slow``: it may take minutes."""
        patience_s = self._step_timeout_s if slow else None
        return self._link.exchange([Request(message, payload, patience_s, slow)])[0]

    def _by_name(self) -> dict[str, TensorInfo]:
        if self._tensors is None:
            count = self.identity.tensor_count
            requests = [Request(Message.TENSOR_INFO, protocol.pack_u32(i)) for i in range(count)]
            answers = self._link.exchange(requests)
            infos = [TensorInfo.unpack(index, answer) for index, answer in enumerate(answers)]
            self._tensors = {info.name: info for info in infos}
        return self._tensors

    def _write_all(self, inputs: Mapping[str, npt.ArrayLike] | None) -> None:
        """All of them in one exchange, after all of them were checked."""
        requests: list[Request] = []
        step = protocol.WRITE_BYTES
        for name, array in (inputs or {}).items():
            info = self.tensor(name)
            data = self._bytes_of(info, array)
            requests += [
                Request(Message.WRITE, protocol.pack_u32(info.index, at) + data[at : at + step])
                for at in range(0, len(data), step)
            ]
        self._link.exchange(requests)

    def _bytes_of(self, info: TensorInfo, array: npt.ArrayLike) -> bytes:
        """The elements as the board keeps them; InputError on another count or kind."""
        given = np.asarray(array)
        whole = np.issubdtype(given.dtype, np.integer) or given.dtype == np.bool_
        if info.dtype.kind == "f":
            fits = whole or np.issubdtype(given.dtype, np.floating)
        else:
            limits = np.iinfo(np.uint8 if info.dtype.kind == "u" else np.int32)
            fits = whole and (
                given.size == 0 or (given.min() >= limits.min and given.max() <= limits.max)
            )
        count = info.nbytes // info.dtype.itemsize
        if not fits or given.size != count:
            raise InputError(
                f"{self.url}: tensor '{info.name}': expected {count} elements that fit "
                f"{info.dtype.name}, got {given.size} of {given.dtype.name}; "
                "give the array the tensor's size and type"
            )
        return given.astype(info.dtype, order="C").tobytes()
