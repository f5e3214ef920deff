"""Requests and answers over any ``serial_for_url`` address, with repetition.

The board's requests may be repeated without harm, so a lost, doubled or damaged frame costs a
time-out and nothing else. Up to ``window`` requests are under way at once.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import serial

from poet_mcu.errors import DeviceError
from poet_mcu.link import status
from poet_mcu.link.frame import Frame, FrameDecoder, encode_frame
from poet_mcu.link.protocol import ANSWER, CHECKPOINT_ACTION, ErrorAnswer, Fault, Message

BAUD = 115_200
_READ_BYTES = 65_536
_POLL_S = 0.02  # for ports that cannot be waited for with select
_SEQUENCES = 0x10000
#: A late or doubled answer belongs to one of the last requests: the board answers in order, so it
#: trails no more than the requests that were under way with its own. The largest window has 8.
_LATE_REQUESTS = 64


class BoardFault(DeviceError):
    """The board refused a request or failed in it; ``answer`` is what it said."""

    def __init__(self, message: str, answer: ErrorAnswer) -> None:
        super().__init__(message)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``patience_s``: silence after which we give up.

    ``slow`` requests may take minutes: they are repeated ever more rarely.
    """

    message: Message
    payload: bytes = b""
    patience_s: float | None = None
    slow: bool = False


@dataclass(slots=True)
class _Waiting:
    request: Request
    index: int
    encoded: bytes
    interval_s: float
    repeat_at: float
    alive_at: float


class Port:
    """A serial port, pty, socket or remote port: bytes in, bytes out, errors as DeviceError."""

    def __init__(self, url: str, write_timeout_s: float) -> None:
        self.url = url
        try:
            # pyserial has no types; the port is one of several unrelated classes.
            self._port: Any = serial.serial_for_url(
                url, baudrate=BAUD, timeout=0, write_timeout=write_timeout_s, exclusive=True
            )
        except (serial.SerialException, OSError, ValueError) as error:
            raise DeviceError(
                f"{url}: expected a serial port or socket that can be opened, got '{error}'; "
                "check the address, the cable, your right to use the port, and that no other "
                "program has it open"
            ) from error
        try:
            self._fileno: int | None = self._port.fileno()
        except OSError:  # io.UnsupportedOperation: rfc2217://, loop://, Windows
            self._fileno = None
            self._port.timeout = _POLL_S
        if self._fileno is not None and url.startswith("socket://"):
            # Else the second small frame waits for the acknowledgement of the first: 40 ms.
            with socket.socket(fileno=os.dup(self._fileno)) as same:
                same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self, timeout_s: float) -> bytes:
        """What has come, after at most ``timeout_s`` of waiting for the first byte."""
        try:
            if self._fileno is None:
                return bytes(self._port.read(max(1, self._port.in_waiting)))
            ready, _, _ = select.select([self._fileno], [], [], max(0.0, timeout_s))
            return bytes(self._port.read(_READ_BYTES)) if ready else b""
        except (serial.SerialException, OSError, TypeError) as error:
            # TypeError: pyserial reads from a descriptor that another thread closed
            raise self._lost(error) from error

    def write(self, data: bytes) -> None:
        """Send all of it."""
        try:
            self._port.write(data)
        except serial.SerialTimeoutException as error:
            raise DeviceError(
                f"{self.url}: expected the board to take {len(data)} bytes, got a full line; "
                "check that the firmware runs and that flow control is off"
            ) from error
        except (serial.SerialException, OSError) as error:
            raise self._lost(error) from error

    def close(self) -> None:
        """Let go of the port."""
        self._port.close()

    def _lost(self, error: Exception) -> DeviceError:
        return DeviceError(
            f"{self.url}: expected an open line, got '{error}'; "
            "the board or its emulator has gone away"
        )


class Link:
    """Exchanges requests for answers on one port."""

    def __init__(self, url: str, timeout_s: float, tries: int, window: int | None = None) -> None:
        self.url = url
        self._timeout_s = timeout_s
        self._tries = tries
        self._window = _default_window(url) if window is None else window
        self._decoder = FrameDecoder()
        # A random start keeps late answers to somebody before us from matching.
        self._sequence = secrets.randbelow(_SEQUENCES)
        self._sent = self._answered = 0
        self._port = Port(url, max(10.0, timeout_s * tries))

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
        """Let go of the port."""
        self._port.close()

    def exchange(
        self, requests: Sequence[Request], on_event: Callable[[Frame], None] | None = None
    ) -> list[bytes]:
        """The payloads of the answers, in the order of ``requests``.

        ``on_event`` sees the unasked frames (TRACE, PROGRESS) that belong to a request.

        Raises:
            BoardFault: the board answered one of them with an error.
            DeviceError: silence, or the line was lost, or somebody else uses it.
        """
        answers: dict[int, bytes] = {}
        waiting: dict[int, _Waiting] = {}
        sent = 0
        while len(answers) < len(requests):
            while sent < len(requests) and len(waiting) < self._window:
                self._start(requests[sent], sent, waiting)
                sent += 1
            now = time.monotonic()
            wake_at = min(entry.repeat_at for entry in waiting.values())
            for frame in self._decoder.feed(self._port.read(wake_at - now)):
                self._refuse_stranger(frame)
                entry = waiting.get(frame.sequence)
                if entry is not None and self._take(frame, entry, on_event):
                    answers[entry.index] = frame.payload
                    del waiting[frame.sequence]
                    self._answered += 1
            if self._decoder.last_words:
                raise self._stopped()
            for entry in waiting.values():
                self._repeat(entry)
        return [answers[index] for index in range(len(requests))]

    def _start(self, request: Request, index: int, waiting: dict[int, _Waiting]) -> None:
        sequence = self._sequence
        self._sequence = (sequence + 1) % _SEQUENCES
        self._sent += 1
        encoded = encode_frame(Frame(request.message, sequence, request.payload))
        now = time.monotonic()
        waiting[sequence] = _Waiting(
            request, index, encoded, self._timeout_s, now + self._timeout_s, now
        )
        self._port.write(encoded)

    def _refuse_stranger(self, frame: Frame) -> None:
        """Raise DeviceError for an answer to somebody else who uses the same line now.

        The board answers in order: what is left for somebody before us comes before the first
        answer of ours. What comes later belongs to a host whose inputs may meet our steps.
        """
        age = (self._sequence - 1 - frame.sequence) % _SEQUENCES
        if self._answered and age >= min(self._sent, _LATE_REQUESTS):
            raise DeviceError(
                f"{self.url}: expected answers to this host's requests, got one to request "
                f"{frame.sequence:#06x}, which it has not sent; another program talks with the "
                "board on the same line: end one of them. Steps that it has done are in the model, "
                "and in the checkpoints since then: where it has trained, start over"
            )

    def _take(
        self, frame: Frame, entry: _Waiting, on_event: Callable[[Frame], None] | None
    ) -> bool:
        """True when the frame is the answer."""
        if frame.type == Message.ERROR:
            raise board_fault(self.url, entry.request.message, ErrorAnswer.unpack(frame.payload))
        if frame.type in (Message.PROGRESS, Message.TRACE):
            entry.alive_at = time.monotonic()
            entry.repeat_at = entry.alive_at + entry.interval_s
            if on_event is not None:
                on_event(frame)
            return False
        return frame.type == entry.request.message | ANSWER

    def _repeat(self, entry: _Waiting) -> None:
        """Ask again when it is time; give up when the board has been silent for too long."""
        now = time.monotonic()
        if now < entry.repeat_at:
            return
        patience_s = entry.request.patience_s or self._timeout_s * self._tries
        if now - entry.alive_at >= patience_s:
            raise self._silence(entry.request.message, patience_s)
        if entry.request.slow:
            entry.interval_s *= 2.0
        entry.repeat_at = min(now + entry.interval_s, entry.alive_at + patience_s)
        self._port.write(entry.encoded)

    def _stopped(self) -> DeviceError:
        said = self._decoder.last_words
        self._decoder.last_words = ""
        return DeviceError(
            f"{self.url}: expected the board to run, got '{said}', and it has stopped; reset it, "
            "and if it stops again, report these words with the build folder"
        )

    def _silence(self, message: Message, patience_s: float) -> DeviceError:
        got = "serial silence"
        if self._decoder.damaged:
            got = f"none, and {self._decoder.damaged} damaged frames in all"
        elif self._decoder.unfinished:
            got = "none, but bytes that are no frame"
        return DeviceError(
            f"{self.url}: {message.name}: expected an answer within {patience_s:g} s, got {got}; "
            "check that the board is powered and flashed with poet-mcu firmware, and that this "
            f"is its port ({BAUD} baud)"
        )


def _default_window(url: str) -> int:
    """Requests under way at once: ptys and sockets hold back, a bare UART would overrun."""
    return 8 if url.startswith(("socket://", "/dev/pts/")) else 1


def board_fault(url: str, message: Message, answer: ErrorAnswer) -> BoardFault:
    """The error for people: what was asked, where it stopped, why, what to do."""
    fault = answer.fault
    if answer.status == status.E_STATE and fault.status != status.E_STATE:
        text = (
            f"{url}: {message.name}: expected a model in a known state, got "
            f"{status.describe(answer.status)}: {_place(fault)} failed before with "
            f"{status.describe(fault.status)}; {status.find(answer.status).advice}, "
            f"and for the cause: {status.find(fault.status).advice}"
        )
    elif fault.action == CHECKPOINT_ACTION:
        text = (
            f"{url}: {_place(fault)}: expected the card to hold it, got "
            f"{status.describe(answer.status)}; {status.find(answer.status).advice}"
        )
    elif fault.action is not None:
        text = (
            f"{url}: {_place(fault)}: expected it to run, got {status.describe(answer.status)}; "
            f"{status.find(answer.status).advice}"
        )
    else:
        text = (
            f"{url}: {message.name}: expected the board to do it, got "
            f"{status.describe(answer.status)}; {status.find(answer.status).advice}"
        )
    return BoardFault(text, answer)


def _place(fault: Fault) -> str:
    place = f"step {fault.step}"
    if fault.action == CHECKPOINT_ACTION:
        place += ", checkpoint"
    elif fault.action is not None:
        place += f", action {fault.action}"
    if fault.block is not None:
        place += f", card block {fault.block}"
    return place
