"""A line without a lock: the board is heard by every host, and hears them all."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from trainer.faulty import connected


class SharedLine:
    """As a multiplexer of serial ports does it. ``url`` is for as many hosts as there are."""

    def __init__(self, target: str) -> None:
        self._board = connected(target)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"socket://127.0.0.1:{self._listener.getsockname()[1]}"
        self._hosts: list[socket.socket] = []
        for work in (self._accept, self._to_the_hosts):
            threading.Thread(target=work, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                host, _ = self._listener.accept()
                host.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._hosts.append(host)
                threading.Thread(target=self._to_the_board, args=(host,), daemon=True).start()

    def _to_the_board(self, host: socket.socket) -> None:
        with suppress(OSError):
            while data := host.recv(4096):
                self._board.sendall(data)
        self._hosts.remove(host)

    def _to_the_hosts(self) -> None:
        with suppress(OSError):
            while data := self._board.recv(4096):
                for host in list(self._hosts):
                    with suppress(OSError):
                        host.sendall(data)

    def close(self) -> None:
        self._listener.close()
        self._board.close()


@contextmanager
def shared_line(target: str) -> Iterator[SharedLine]:
    line = SharedLine(target)
    try:
        yield line
    finally:
        line.close()
