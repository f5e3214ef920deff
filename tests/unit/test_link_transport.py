"""Repetition, time-outs and lost lines, against a scripted peer on a socket."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from poet_mcu.errors import DeviceError
from poet_mcu.link.client import open_board
from poet_mcu.link.frame import Frame, FrameDecoder, encode_frame
from poet_mcu.link.protocol import ANSWER, Message
from poet_mcu.link.transport import BoardFault, Link, Request

Script = Callable[[int, Frame], bytes | None]


@contextmanager
def peer(script: Script) -> Iterator[tuple[str, list[Frame]]]:
    """Answers the n-th frame with ``script(n, frame)``; None hangs up."""
    seen: list[Frame] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        line, _ = listener.accept()
        decoder = FrameDecoder()
        with line:
            while data := line.recv(4096):
                for frame in decoder.feed(data):
                    seen.append(frame)
                    answer = script(len(seen) - 1, frame)
                    if answer is None:
                        return
                    line.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"socket://127.0.0.1:{listener.getsockname()[1]}", seen
    finally:
        listener.close()


def answer_to(frame: Frame, payload: bytes = b"") -> bytes:
    return encode_frame(Frame(frame.type | ANSWER, frame.sequence, payload))


def test_a_lost_request_is_repeated_with_its_sequence() -> None:
    with peer(lambda n, f: b"" if n < 3 else answer_to(f, b"ok")) as (url, seen):
        with Link(url, 0.02, 10) as link:
            assert link.exchange([Request(Message.COUNTERS)]) == [b"ok"]
        assert len(seen) == 4
        assert len({frame.sequence for frame in seen}) == 1


def test_answers_come_back_in_the_order_of_the_requests() -> None:
    held: list[Frame] = []

    def script(_: int, frame: Frame) -> bytes:
        held.append(frame)
        if len(held) < 4:
            return b""
        return b"".join(answer_to(f, f.payload) for f in reversed(held))

    with peer(script) as (url, _), Link(url, 5.0, 2, window=4) as link:
        payloads = [b"a", b"b", b"c", b"d"]
        assert link.exchange([Request(Message.READ, p) for p in payloads]) == payloads


def test_the_window_bounds_what_is_under_way() -> None:
    with peer(lambda *_: b"") as (url, seen):
        with Link(url, 0.2, 1, window=3) as link, pytest.raises(DeviceError, match="silence"):
            link.exchange([Request(Message.READ)] * 9)
        assert len(seen) == 3


def test_late_doubled_and_echoed_frames_are_ignored() -> None:
    """The late one is, for the first request, an answer to somebody before us."""

    def script(_: int, frame: Frame) -> bytes:
        other = Frame(frame.type | ANSWER, (frame.sequence - 1) & 0xFFFF, b"old")
        wrong = Frame(Message.READ | ANSWER, frame.sequence, b"type")
        good = answer_to(frame, b"good")
        return encode_frame(frame) + encode_frame(other) + encode_frame(wrong) + good + good

    with peer(script) as (url, _), Link(url, 1.0, 2) as link:
        for _ in range(3):
            assert link.exchange([Request(Message.COUNTERS)]) == [b"good"]


@pytest.mark.parametrize("ours", [1, 3, 100])
@pytest.mark.parametrize("distance", [1, 2, 0x8000, -64, -65, -200])
@pytest.mark.parametrize("kind", [Message.COUNTERS | ANSWER, Message.PROGRESS, Message.ERROR])
def test_answers_to_somebody_else_are_told(kind: int, distance: int, ours: int) -> None:
    """``distance`` from the request under way, the last of ``ours``: ahead, or too far behind."""

    def script(number: int, frame: Frame) -> bytes:
        stranger = Frame(kind, (frame.sequence + distance) & 0xFFFF, b"theirs")
        return (encode_frame(stranger) if number == ours else b"") + answer_to(frame)

    with peer(script) as (url, _), Link(url, 1.0, 2, window=1) as link:
        link._sequence = 0xFFFE
        late = -min(ours, 63) <= distance <= 0
        for number in range(ours + 1):
            if number == ours and not late:
                with pytest.raises(DeviceError, match="another program talks with the board"):
                    link.exchange([Request(Message.COUNTERS)])
            else:
                assert link.exchange([Request(Message.COUNTERS)]) == [b""]


def test_sequence_numbers_wrap() -> None:
    with peer(lambda _, f: answer_to(f)) as (url, seen), Link(url, 1.0, 2) as link:
        link._sequence = 0xFFFF
        link.exchange([Request(Message.COUNTERS)] * 2)
        assert [frame.sequence for frame in seen] == [0xFFFF, 0]


def test_silence_has_a_clear_text_and_comes_in_time() -> None:
    start = time.monotonic()
    with (
        peer(lambda *_: b"") as (url, seen),
        pytest.raises(DeviceError, match=r"IDENTIFY: expected an answer within 0\.4 s, got serial"),
    ):
        open_board(url, 0.05)
    assert time.monotonic() - start < 5.0
    assert len(seen) >= 4


def test_damage_alone_is_told_from_silence() -> None:
    with (
        peer(lambda *_: b"\x05\x05\0") as (url, _),
        Link(url, 0.05, 3) as link,
        pytest.raises(DeviceError, match=r"got none, and \d+ damaged frames in all; .*115200 baud"),
    ):
        link.exchange([Request(Message.COUNTERS)])


def test_slow_requests_are_repeated_ever_more_rarely() -> None:
    with peer(lambda *_: b"") as (url, seen):
        with Link(url, 0.05, 1) as link, pytest.raises(DeviceError, match=r"within 0\.8 s"):
            link.exchange([Request(Message.EVALUATE, patience_s=0.8, slow=True)])
        assert 2 <= len(seen) <= 5  # at 0, 0.05, 0.15, 0.35, 0.75 s


def test_progress_renews_the_patience_and_is_shown() -> None:
    def script(_: int, frame: Frame) -> bytes:
        time.sleep(0.3)
        if len(events) < 4:
            return encode_frame(Frame(Message.PROGRESS, frame.sequence, b"\0\0\0\0"))
        return answer_to(frame, b"done")

    events: list[Frame] = []
    request = Request(Message.TRAIN_STEP, patience_s=1.0, slow=True)
    with peer(script) as (url, _), Link(url, 0.05, 1) as link:
        assert link.exchange([request], events.append) == [b"done"]
    assert {event.type for event in events} == {Message.PROGRESS}


def test_an_error_is_raised_and_the_line_stays_usable() -> None:
    def script(number: int, frame: Frame) -> bytes:
        if number == 0:
            error = struct.pack("<iIIIi", -1, 0, 0xFFFFFFFF, 0xFFFFFFFF, -1)
            return encode_frame(Frame(Message.ERROR, frame.sequence, error))
        return answer_to(frame)

    with peer(script) as (url, _), Link(url, 1.0, 2, window=2) as link:
        with pytest.raises(BoardFault, match="POET_E_ARG"):
            link.exchange([Request(Message.WRITE)] * 2)
        assert link.exchange([Request(Message.COUNTERS)]) == [b""]


def test_a_line_that_breaks_is_not_silence() -> None:
    with (
        peer(lambda *_: None) as (url, _),
        Link(url, 1.0, 2) as link,
        pytest.raises(DeviceError, match=r"expected an open line, got .* has gone away"),
    ):
        link.exchange([Request(Message.COUNTERS)])


@pytest.mark.parametrize("url", ["/dev/poet-no-such-port", "socket://127.0.0.1:1", "nonsense://x"])
def test_a_port_that_cannot_be_opened(url: str) -> None:
    with pytest.raises(DeviceError, match="expected a serial port or socket that can be opened"):
        open_board(url)


def test_ports_without_a_descriptor_work_too() -> None:
    # loop:// gives back what was sent: an echo is not an answer
    with Link("loop://", 0.05, 3) as link, pytest.raises(DeviceError, match="serial silence"):
        link.exchange([Request(Message.COUNTERS)])


def test_a_pty_is_a_serial_port() -> None:
    master, slave = os.openpty()
    decoder = FrameDecoder()

    def serve() -> None:
        count = 0
        while count < 2:
            for frame in decoder.feed(os.read(master, 4096)):
                os.write(master, answer_to(frame, bytes(range(256))))
                count += 1

    thread = threading.Thread(target=serve, daemon=True)
    try:
        with Link(os.ttyname(slave), 1.0, 5) as link:
            thread.start()
            requests = [Request(Message.READ, bytes(range(256)) * 2)] * 2
            assert link.exchange(requests) == [bytes(range(256))] * 2
        thread.join(5.0)
        assert not thread.is_alive()
        assert decoder.damaged == 0
    finally:
        os.close(master)
        os.close(slave)
