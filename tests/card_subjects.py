"""Every card that we test with, spoken to in one way: what SD and SPI mode have in common.

The emulator's card is asked through its own methods, in SD mode. The model of tests/host/storage
and QEMU's card are asked in SPI mode, byte by byte, through the bridge of tests/cards.
"""

from __future__ import annotations

import contextlib
import enum
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from poet_mcu.emulator import sdcard
from poet_mcu.emulator.agenda import Agenda
from poet_mcu.emulator.card_faults import CardFaults
from poet_mcu.emulator.sdcard_registers import KINDS

ROOT = Path(__file__).parents[1]
CARDS = ROOT / "tests" / "cards"
BLOCK = 512
GO_IDLE, IF_COND, CSD, STOP, STATUS = 0, 8, 9, 12, 13
BLOCK_LENGTH, READ, READ_MANY, WRITE, WRITE_MANY = 16, 17, 18, 24, 25
PRE_ERASE, OP_COND, APPLICATION, OCR = 23, 41, 55, 58
HOST_CAPACITY, ECHO, VOLTAGES = 1 << 30, 0x1AA, 0x0030_0000
_ROUNDS = 5000


class Said(enum.Enum):
    """What a card says to a command, whatever the mode."""

    ACCEPTED = "accepted"
    ILLEGAL = "illegal"
    MISALIGNED = "address error"
    PARAMETER = "out of range, or another wrong argument"
    SILENT = "nothing"


class Subject(Protocol):
    """A card in the idle state. ``csd`` and ``ocr`` are known when it is in the transfer state."""

    csd: bytes
    ocr: int

    def interface(self) -> int | None:
        """What CMD8 comes back with; None when the card does not know it."""

    def become_ready(self, host_capacity: bool) -> bool:
        """Repeat ACMD41 and go to the transfer state; whether the card got ready."""

    def command(self, index: int, argument: int, *, application: bool = False) -> Said: ...

    def receive(self) -> bytes | None:
        """The next block that a read command has set under way."""

    def send(self, data: bytes, *, many: bool = False) -> bool:
        """A block for a write command; whether it was accepted."""

    def end_writing(self) -> None:
        """No more blocks come."""


@dataclass
class EmulatorCard:
    """``poet_mcu.emulator.sdcard``: time stands still, so that programming ends at once."""

    card: sdcard.SdCard
    csd: bytes = b""
    ocr: int = 0
    _address: int = 0

    @classmethod
    def new(cls, image: Path, kind: str) -> EmulatorCard:
        card = sdcard.SdCard(image, Agenda(), CardFaults(()), lambda _: None, KINDS[kind])
        card.cycles = lambda _: 0.0
        return cls(card)

    def _word(self, index: int, argument: int) -> int | None:
        answer = self.card.command(index, argument)
        return None if answer is None else answer.words[0]

    def interface(self) -> int | None:
        return self._word(IF_COND, ECHO)

    def become_ready(self, host_capacity: bool) -> bool:
        for _ in range(_ROUNDS):
            self._word(APPLICATION, 0)
            self.ocr = self._word(OP_COND, VOLTAGES | (HOST_CAPACITY if host_capacity else 0)) or 0
            if self.ocr >> 31:
                self.card.command(2, 0)
                self._address = (self._word(3, 0) or 0) & 0xFFFF_0000
                answer = self.card.command(CSD, self._address)
                assert answer is not None
                self.csd = b"".join(word.to_bytes(4, "big") for word in answer.words)
                return self._word(7, self._address) is not None
        return False

    def command(self, index: int, argument: int, *, application: bool = False) -> Said:
        if application:
            self._word(APPLICATION, self._address)
        word = self._word(index, self._address if index == STATUS else argument)
        if word is None:  # illegal commands are not answered; the next answer says it
            if index == GO_IDLE:
                return Said.ACCEPTED
            status = self._word(STATUS, self._address) or 0
            return Said.ILLEGAL if status & sdcard.ILLEGAL_COMMAND else Said.SILENT
        if word & sdcard.ADDRESS_ERROR:
            return Said.MISALIGNED
        wrong = word & (sdcard.OUT_OF_RANGE | sdcard.BLOCK_LEN_ERROR)
        return Said.PARAMETER if wrong else Said.ACCEPTED

    def receive(self) -> bytes | None:
        block = self.card.next_block() if self.card.sending else None
        return None if block is None else block.data

    def send(self, data: bytes, *, many: bool = False) -> bool:
        return self.card.receiving and self.card.take_block(data) is True

    def end_writing(self) -> None:
        assert self.command(STOP, 0) is Said.ACCEPTED


@dataclass
class SpiCard:
    """A card behind a bridge. The bits of R1 are those of 7.3.2.1."""

    read: Callable[[int], bytes]
    write: Callable[[bytes], object]
    csd: bytes = b""
    ocr: int = 0
    _pending: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._tell("d")
        self.exchange(b"\xff" * 12)
        for _ in range(10):
            r1 = self._ask(GO_IDLE, 0)
            self._release()
            if r1 == 1:
                return
        raise AssertionError("the card does not go idle")

    def _tell(self, what: str) -> None:
        self.write(what.encode())
        assert self.read(1) == what.encode()

    def exchange(self, data: bytes) -> bytes:
        """``data`` out, as much in; in parts that the board's line has room for."""
        got = b""
        for at in range(0, len(data), 100):
            part = data[at : at + 100]
            self.write(b"x" + bytes((len(part),)) + part)
            got += self.read(len(part))
        return got

    def _ask(self, index: int, argument: int, *, more: int = 0) -> int:
        """R1; ``more`` bytes behind it are left in ``_pending``. 0xFF: no answer."""
        frame = bytes((0x40 | index,)) + argument.to_bytes(4, "big")
        self._tell("s")
        self.exchange(frame + bytes((crc7(frame) << 1 | 1,)))
        if index == STOP:
            self.exchange(b"\xff")  # a byte of the block that was on its way
        found = self._until(lambda byte: byte < 0x80, 20)
        self._pending[:] = self.exchange(b"\xff" * more) if more else b""
        return 0xFF if found is None else found

    def _until(self, wanted: Callable[[int], bool], tries: int) -> int | None:
        for _ in range(tries):
            byte = self.exchange(b"\xff")[0]
            if wanted(byte):
                return byte
        return None

    def _release(self) -> None:
        self._until(lambda byte: byte == 0xFF, 5000)
        self._tell("d")
        self.exchange(b"\xff")

    def interface(self) -> int | None:
        r1 = self._ask(IF_COND, ECHO, more=4)
        self._release()
        return None if r1 & 4 else int.from_bytes(self._pending, "big") & 0xFFF

    def become_ready(self, host_capacity: bool) -> bool:
        for _ in range(50):
            self._ask(APPLICATION, 0)
            self._release()
            r1 = self._ask(OP_COND, HOST_CAPACITY if host_capacity else 0)
            self._release()
            if r1 == 0:
                self._ask(OCR, 0, more=4)
                self.ocr = int.from_bytes(self._pending, "big")
                self._release()
                self._ask(CSD, 0)
                self.csd = self._data(16) or b""
                self._release()
                self._tell("f")
                return True
        return False

    def command(self, index: int, argument: int, *, application: bool = False) -> Said:
        if application:
            self._ask(APPLICATION, 0)
            self._release()
        r1 = self._ask(index, argument, more=1 if index == STATUS else 0)
        if index not in {READ, READ_MANY, WRITE, WRITE_MANY}:
            self._release()
        if r1 == 0xFF:
            return Said.SILENT
        for bit, said in ((4, Said.ILLEGAL), (0x20, Said.MISALIGNED), (0x40, Said.PARAMETER)):
            if r1 & bit:
                return said
        return Said.ACCEPTED

    def _data(self, nbytes: int) -> bytes | None:
        if self._until(lambda byte: byte == 0xFE, 2000) is None:
            return None
        return self.exchange(b"\xff" * (nbytes + 2))[:nbytes]

    def receive(self) -> bytes | None:
        return self._data(BLOCK)

    def send(self, data: bytes, *, many: bool = False) -> bool:
        crc = crc16(data).to_bytes(2, "big")
        self.exchange(b"\xff" + (b"\xfc" if many else b"\xfe") + data + crc)
        answer = self._until(lambda byte: byte != 0xFF, 20)
        self._until(lambda byte: byte == 0xFF, 5000)
        return answer is not None and answer & 0x1F == 5

    def end_writing(self) -> None:
        self.exchange(b"\xfd\xff")
        self._release()


def crc7(data: bytes) -> int:
    """Of a command: a remainder by long division, x^7 + x^3 + 1 (4.5)."""
    return _remainder(int.from_bytes(data, "big") << 7, 0b1000_1001, 7)


def crc16(data: bytes) -> int:
    """Of a block: x^16 + x^12 + x^5 + 1 (4.5)."""
    return _remainder(int.from_bytes(data, "big") << 16, 0x1_1021, 16)


def _remainder(number: int, divisor: int, width: int) -> int:
    while number.bit_length() > width:
        number ^= divisor << number.bit_length() - width - 1
    return number


def blank(path: Path, blocks: int) -> Path:
    with path.open("wb") as file:
        file.truncate(blocks * BLOCK)
    return path


@contextlib.contextmanager
def spoken_to(command: list[str], **streams: int) -> Iterator[SpiCard]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **streams)
    assert process.stdin is not None
    assert process.stdout is not None
    incoming, outgoing = process.stdout.fileno(), process.stdin.fileno()

    def read(nbytes: int) -> bytes:
        got = b""
        while len(got) < nbytes:
            part = os.read(incoming, nbytes - len(got))
            assert part, "the card's process has ended"
            got += part
        return got

    try:
        yield SpiCard(read, lambda data: os.write(outgoing, data))
    finally:
        process.kill()
        process.communicate()


def fake_program(folder: Path) -> Path:
    """The model of tests/host/storage behind the bridge."""
    program = folder / "fake_card"
    sources = [CARDS / "fake_main.c", CARDS / "bridge.c"]
    sources += [ROOT / "tests/host/storage" / f"sd_card_{part}.c" for part in ("model", "bus")]
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]
    command += ["-fsanitize=address,undefined", f"-I{ROOT / 'firmware' / 'include'}"]
    subprocess.run([*command, *map(str, sources), "-o", str(program)], check=True)
    return program


def qemu_command(folder: Path, image: Path) -> list[str]:
    """QEMU's card behind the bridge."""
    sys.path.insert(0, str(ROOT / "tests" / "qemu"))
    import test_sd_card as machine  # noqa: PLC0415 - only where QEMU is wanted

    target = machine.lm3s("m3", machine.M3)
    mains = (CARDS / "qemu_main.c", CARDS / "bridge.c")
    elf, done = machine.link(target, folder, mains=mains)
    assert done.returncode == 0, done.stderr
    return [*machine.qemu_command(target, elf, *machine.sd_drive(image)), "-serial", "stdio"]
