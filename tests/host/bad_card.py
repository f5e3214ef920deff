"""A bad card for QEMU: an NBD server over an image that harms blocks and tells nobody.

The protocol is that of the NBD project's doc/proto.md: fixed newstyle handshake, simple replies.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections import Counter
from pathlib import Path
from typing import Self

_OPTION = struct.Struct(">8sII")
_OPTION_REPLY = struct.Struct(">QIII")
_REQUEST = struct.Struct(">IHHQQI")
_GO, _ACK, _INFO, _UNSUPPORTED = 7, 1, 3, 0x8000_0001
_FLAGS = 1 | 4  # flags are valid, flush is understood
_READ, _WRITE, _DISCONNECT = 0, 1, 2


class BadCard:
    """Serves ``image``; each transfer is harmed with probability ``rate``.

    A read gets one bit turned, a write is lost, torn in the middle, or gets one bit turned.
    """

    def __init__(self, image: Path, folder: Path, seed: int, rate: float) -> None:
        self.rate = rate
        self.kinds: Counter[str] = Counter()
        self.transfers = 0
        self._random = random.Random(seed)
        self._bytes = bytearray(image.read_bytes())
        self._left = folder / "card_left.img"  # what is on the card in the end
        self.path = folder / "nbd.sock"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(1)
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def drive(self) -> str:
        """QEMU's ``-drive`` for it."""
        return (
            f"if=sd,format=raw,file.driver=nbd,file.server.type=unix,file.server.path={self.path}"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._left.write_bytes(self._bytes)

    def _serve(self) -> None:
        line, _ = self._listener.accept()
        with line, line.makefile("rb") as source:
            line.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 1 | 2))
            source.read(4)
            while not self._option(line, *_OPTION.unpack(source.read(_OPTION.size)), source):
                pass
            while len(head := source.read(_REQUEST.size)) == _REQUEST.size:
                _, _, kind, handle, offset, length = _REQUEST.unpack(head)
                if kind == _DISCONNECT:
                    return
                reply = struct.pack(">IIQ", 0x6744_6698, 0, handle)
                if kind == _WRITE:
                    self._write(offset, source.read(length))
                elif kind == _READ:
                    reply += self._read(offset, length)
                line.sendall(reply)

    def _option(self, line: socket.socket, _magic: bytes, option: int, size: int, source) -> bool:
        """Answer one option; True: from here on it is about blocks."""
        source.read(size)

        def answer(kind: int, data: bytes = b"") -> None:
            head = _OPTION_REPLY.pack(0x0003_E889_0455_65A9, option, kind, len(data))
            line.sendall(head + data)

        if option != _GO:
            answer(_UNSUPPORTED)
            return False
        answer(_INFO, struct.pack(">HQH", 0, len(self._bytes), _FLAGS))
        answer(_ACK)
        return True

    @property
    def harmed(self) -> int:
        """Transfers that were."""
        return self.kinds.total()

    def _strikes(self) -> bool:
        self.transfers += 1
        return self._random.random() < self.rate

    def _turned(self, data: bytes) -> bytes:
        harmed = bytearray(data)
        harmed[self._random.randrange(len(harmed))] ^= 1 << self._random.randrange(8)
        return bytes(harmed)

    def _read(self, offset: int, length: int) -> bytes:
        data = bytes(self._bytes[offset : offset + length])
        if not self._strikes():
            return data
        self.kinds["read: bit turned"] += 1
        return self._turned(data)

    def _write(self, offset: int, data: bytes) -> None:
        if self._strikes():
            old = bytes(self._bytes[offset : offset + len(data)])
            at = self._random.randrange(len(data))
            harms = {"lost": old, "torn": data[:at] + old[at:], "bit turned": self._turned(data)}
            kind = self._random.choice(list(harms))
            self.kinds[f"write: {kind}"] += 1
            data = harms[kind]
        self._bytes[offset : offset + len(data)] = data
