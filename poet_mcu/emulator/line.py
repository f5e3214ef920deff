"""The other end of the serial line: a TCP socket that listens, or a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import socket
import tty
from collections.abc import Callable
from typing import Protocol


class Line(Protocol):
    """Bytes to and from the host; nothing here blocks but ``wait``."""

    @property
    def where(self) -> str:
        """What is told to whoever started the machine."""

    def receive(self) -> bytes:
        """What the host has sent."""

    def send(self, data: bytes) -> None:
        """To the host; lost when nobody listens, as on a wire."""

    def wait(self, seconds: float) -> None:
        """Until the host sends something, ``seconds`` at most."""


class AnnouncedLine:
    """``line``, told of by ``announce`` as soon as the firmware listens or speaks.

    A start may take the emulator half a minute (parameters at home on the card); the host, who
    counts its time from the moment it knows of the line, would take that for silence.
    """

    def __init__(self, line: Line, announce: Callable[[str], None]) -> None:
        self._line = line
        self._announce: Callable[[str], None] | None = announce

    @property
    def where(self) -> str:
        """That of the line."""
        return self._line.where

    def receive(self) -> bytes:
        """From the line."""
        return self._line.receive()

    def send(self, data: bytes) -> None:
        """To the line."""
        self._tell()
        self._line.send(data)

    def wait(self, seconds: float) -> None:
        """On the line."""
        self._tell()
        self._line.wait(seconds)

    def _tell(self) -> None:
        announce, self._announce = self._announce, None
        if announce is not None:
            announce(self._line.where)


class SocketLine:
    """One client at a time on a free port of this computer."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setblocking(False)
        self._client: socket.socket | None = None

    @property
    def where(self) -> str:
        """Its address."""
        return f"listening on 127.0.0.1:{self._server.getsockname()[1]}"

    def receive(self) -> bytes:
        """What the client has sent; a new client is taken when the old one is gone."""
        self._accept()
        if self._client is None:
            return b""
        try:
            data = self._client.recv(4096)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self._client.close()
            self._client = None
        return data

    def send(self, data: bytes) -> None:
        """To the client; a full socket is waited for."""
        while data and self._client is not None:
            try:
                data = data[self._client.send(data) :]
            except BlockingIOError:
                select.select([], [self._client], [], 1.0)
            except OSError:
                self._client.close()
                self._client = None

    def wait(self, seconds: float) -> None:
        """For a byte or a client."""
        select.select([self._client or self._server], [], [], seconds)

    def _accept(self) -> None:
        if self._client is not None:
            return
        try:
            self._client, _ = self._server.accept()
        except BlockingIOError:
            return
        self._client.setblocking(False)
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class TerminalLine:
    """A pseudo-terminal; our own hold of its far side keeps it alive between clients."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)

    @property
    def where(self) -> str:
        """Its device."""
        return f"terminal at {os.ttyname(self._slave)}"

    def receive(self) -> bytes:
        """What was written to the device."""
        try:
            return os.read(self._master, 4096)
        except BlockingIOError:
            return b""

    def send(self, data: bytes) -> None:
        """Into the device's buffer; what does not fit is lost after a second, as on a wire."""
        while data:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                if not select.select([], [self._master], [], 1.0)[1]:
                    return

    def wait(self, seconds: float) -> None:
        """For a byte."""
        select.select([self._master], [], [], seconds)
