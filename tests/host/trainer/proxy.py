"""A bad line: a TCP proxy that harms frames in both directions."""

from __future__ import annotations

import random
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self


class Damage:
    """Harms each frame with probability ``rate``; everything is also cut into odd pieces."""

    def __init__(self, seed: int, rate: float) -> None:
        self._random = random.Random(seed)
        self._rate = rate
        self.kinds: Counter[str] = Counter()
        self._rest = b""

    @property
    def harmed(self) -> int:
        """Frames that were."""
        return self.kinds.total()

    def apply(self, data: bytes) -> bytes:
        *frames, self._rest = (self._rest + data).split(b"\0")
        return b"".join(self._frame(frame) + b"\0" for frame in frames)

    def _frame(self, frame: bytes) -> bytes:
        if not frame or self._random.random() >= self._rate:
            return frame
        at = self._random.randrange(len(frame))
        kind = self._random.choice(["lose", "drop", "flip", "zero", "double", "noise", "cut"])
        self.kinds[kind] += 1
        flipped = bytes([frame[at] ^ (1 << self._random.randrange(8))])
        return {
            "lose": b"",
            "drop": frame[:at] + frame[at + 1 :],
            "flip": frame[:at] + flipped + frame[at + 1 :],
            "zero": frame[:at] + b"\0" + frame[at:],
            "double": frame + b"\0" + frame,
            "noise": self._random.randbytes(20) + b"\0" + frame,
            "cut": frame[:at],
        }[kind]

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data:
            size = self._random.choice([1, 3, 17, 255, 4096])
            yield data[:size]
            data = data[size:]


class BadLine:
    """Listens on ``url`` and passes on to ``target``, one connection."""

    def __init__(self, target: str, seed: int, rate: float) -> None:
        host, _, port = target.removeprefix("socket://").rpartition(":")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"socket://127.0.0.1:{self._listener.getsockname()[1]}"
        self._target = (host, int(port))
        self.to_board = Damage(seed, rate)
        self.to_host = Damage(seed + 1, rate)
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def _serve(self) -> None:
        near, _ = self._listener.accept()
        far = socket.create_connection(self._target)
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_pump, args=(far, near, self.to_host), daemon=True)
        back.start()
        _pump(near, far, self.to_board)
        back.join()
        near.close()
        far.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


@contextmanager
def bad_line(target: str, seed: int = 1, rate: float = 0.02) -> Iterator[BadLine]:
    with BadLine(target, seed, rate) as line:
        yield line


def _pump(source: socket.socket, sink: socket.socket, damage: Damage) -> None:
    try:
        while data := source.recv(4096):
            for piece in damage.pieces(damage.apply(data)):
                sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # either end hung up
