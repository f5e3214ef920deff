"""A faulty line, one kind of fault at a time: a TCP proxy that harms the stream of bytes."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Harm = Callable[[random.Random, bytes], bytes]


def _at(rng: random.Random, data: bytes) -> tuple[bytes, bytes]:
    at = rng.randrange(len(data) + 1)
    return data[:at], data[at:]


def _drop(rng: random.Random, data: bytes) -> bytes:
    head, tail = _at(rng, data)
    return head + tail[rng.randrange(1, 40) :]


def _double(rng: random.Random, data: bytes) -> bytes:
    head, tail = _at(rng, data)
    return head + tail[: rng.randrange(1, 40)] + tail


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _insert(rng: random.Random, data: bytes) -> bytes:
    head, tail = _at(rng, data)
    return head + rng.randbytes(rng.randrange(1, 40)) + tail


def _zero(rng: random.Random, data: bytes) -> bytes:
    head, tail = _at(rng, data)
    return head + bytes(rng.randrange(1, 4)) + tail


def _replay(_: random.Random, data: bytes) -> bytes:
    return data + data


def _delay(_: random.Random, data: bytes) -> bytes:
    time.sleep(0.3)
    return data


#: kind -> what becomes of a piece of the stream that is harmed
HARMS: dict[str, Harm] = {
    "bytes lost": _drop,
    "bytes doubled": _double,
    "bits flipped": _flip,
    "bytes inserted": _insert,
    "zero bytes inserted": _zero,
    "whole pieces lost": lambda _rng, _data: b"",
    "whole pieces doubled": _replay,
    "delayed beyond the repetition": _delay,
}
#: bytes of a piece: the stream comes in such parts, whatever the frames are
PIECES = (1, 7, 64, 500)


class Line:
    """What one direction does; ``harmed`` counts."""

    def __init__(self, kind: str, seed: int, rate: float) -> None:
        self._rng = random.Random(f"{kind} {seed}")
        self._harm, self._rate = HARMS[kind], rate
        self.harmed = 0

    def pump(self, read: Callable[[int], bytes], write: Callable[[bytes], None]) -> None:
        """Until the reading end closes. What cannot be written is lost."""
        with suppress(OSError):
            while data := read(self._rng.choice(PIECES)):
                if self._rng.random() < self._rate:
                    self.harmed += 1
                    data = self._harm(self._rng, data)
                with suppress(OSError):
                    write(data)


class Proxy:
    """One host's line to a board: ``url`` stays open when the board behind it restarts."""

    def __init__(self, target: str, kind: str, rate: float) -> None:
        self.to_board, self.to_host = Line(kind, 1, rate), Line(kind, 2, rate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"socket://127.0.0.1:{self._listener.getsockname()[1]}"
        self._far = connected(target)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        self._near, _ = self._listener.accept()
        self._near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._listen_to(self._far)
        self.to_board.pump(self._near.recv, self._to_the_board)
        self._near.close()
        self._far.close()

    def _to_the_board(self, data: bytes) -> None:
        self._far.sendall(data)  # whichever it is by now

    def _listen_to(self, far: socket.socket) -> None:
        pump = self.to_host.pump
        threading.Thread(target=pump, args=(far.recv, self._near.sendall), daemon=True).start()

    def board_is_now(self, target: str) -> None:
        """The board has restarted: what was on its way is lost, the line is the same."""
        self._far = connected(target)
        self._listen_to(self._far)

    def close(self) -> None:
        self._listener.close()


def connected(target: str) -> socket.socket:
    host, _, port = target.removeprefix("socket://").rpartition(":")
    far = socket.create_connection((host, int(port)))
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return far


@contextmanager
def faulty_line(target: str, kind: str = "bytes lost", rate: float = 0.0) -> Iterator[Proxy]:
    """A line on which ``rate`` of all pieces suffer that ``kind`` of harm, in both directions."""
    proxy = Proxy(target, kind, rate)
    try:
        yield proxy
    finally:
        proxy.close()
