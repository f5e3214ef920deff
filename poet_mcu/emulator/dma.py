"""DMA2 stream by stream, RM0385 8: channels, flow control, FIFO thresholds, bursts, errors."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import ClassVar

from poet_mcu.emulator.agenda import Agenda
from poet_mcu.emulator.fault import MachineFault
from poet_mcu.emulator.memory import Memory
from poet_mcu.emulator.registers import Peripheral

CR, NDTR, PAR, M0AR, M1AR, FCR = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x14
_STREAM_REGISTERS = ("CR", "NDTR", "PAR", "M0AR", "M1AR", "FCR")
_FIRST, _STRIDE = 0x10, 0x18
EN, PFCTRL, CIRC, PINC, MINC, DBM = 0, 5, 8, 9, 10, 18
PERIPHERAL_TO_MEMORY, MEMORY_TO_PERIPHERAL = 0, 1
FE, TE, HT, TC = 1 << 0, 1 << 3, 1 << 4, 1 << 5
_FLAG_SHIFTS = (0, 6, 16, 22)
_LISR, _LIFCR = 0x00, 0x08
_FIFO_BYTES = 16
_BEATS = (1, 4, 8, 16)
#: RM0385 table 28: DMA2's requests that are modelled
REQUESTS: Mapping[tuple[int, int], str] = {(3, 4): "sdmmc1", (6, 4): "sdmmc1"}
#: from the peripheral's last datum to the end of the stream: the FIFO is emptied over the bus
_FLUSH_CYCLES = 40
_KIB = 1024


class Stream:
    """One stream: its registers lie in the bank of its DMA."""

    def __init__(self, number: int, dma: Dma) -> None:
        self.number = number
        self._dma = dma
        self._base = _FIRST + _STRIDE * number
        self._address = 0
        self._fifo = bytearray()

    @property
    def user(self) -> str:
        """For messages."""
        return f"dma2 stream {self.number}"

    def field(self, register: int, shift: int, width: int = 1) -> int:
        """Bits of one of its registers."""
        return self._dma.field(self._base + register, shift, width)

    @property
    def direction(self) -> int:
        """CR.DIR."""
        return self.field(CR, 6, 2)

    @property
    def request(self) -> str:
        """Whom its channel belongs to; '' for nobody modelled."""
        return REQUESTS.get((self.number, self.field(CR, 25, 3)), "")

    def enable(self) -> None:
        """EN was set: check everything that RM0385 8.3 asks for, then be ready."""
        self._check_request()
        self._check_widths()
        self._check_bursts()
        self._address = self._register(M0AR)
        self._fifo.clear()
        if self.field(CR, PFCTRL):
            self._dma.values[self._base + NDTR] = 0xFFFF
        elif not self._register(NDTR):
            raise self._fault(NDTR, "expected a count when DMA controls the flow, got 0")
        if self.direction == MEMORY_TO_PERIPHERAL:
            self._fetch()  # it fills its FIFO at once (RM0385 8.3.5)

    def put(self, words: list[int]) -> None:
        """Words from the peripheral; they reach memory burst by burst."""
        self._count(len(words))
        self._fifo += struct.pack(f"<{len(words)}I", *words)
        threshold = 4 * (self.field(FCR, 0, 2) + 1) if self.field(FCR, 2) else 4
        while len(self._fifo) >= threshold:
            self._store(threshold)

    def get(self, count: int) -> list[int]:
        """``count`` words for the peripheral."""
        self._count(count)
        while len(self._fifo) < 4 * count:
            self._fetch()
        words = list(struct.unpack_from(f"<{count}I", self._fifo))
        del self._fifo[: 4 * count]
        return words

    def last(self) -> None:
        """The peripheral has moved its last datum."""
        self._dma.agenda.after(_FLUSH_CYCLES, self._end)

    def stop(self) -> None:
        """EN was cleared by software: what is under way is ended (RM0385 8.3.14)."""
        self._end()

    def _end(self) -> None:
        if not self._dma.running(self):
            return
        if self.direction == PERIPHERAL_TO_MEMORY and self._fifo:
            self._store(len(self._fifo))
        self._fifo.clear()
        self._dma.ended(self, TC)

    def _register(self, register: int) -> int:
        return self._dma.values[self._base + register]

    def _fault(self, register: int, text: str) -> MachineFault:
        name = _STREAM_REGISTERS[register // 4]
        return MachineFault(f"{self.user}: {name}: {text}")

    def _count(self, items: int) -> None:
        left = self._register(NDTR) - items
        if left < 0:
            raise self._fault(
                NDTR, "expected at most 65535 words in a transfer, got more; split it"
            )
        self._dma.values[self._base + NDTR] = left

    def _burst_bytes(self) -> int:
        return _BEATS[self.field(CR, 23, 2)] << self.field(CR, 13, 2)

    def _store(self, nbytes: int) -> None:
        for at in range(0, nbytes, self._burst_bytes()):
            part = bytes(self._fifo[at : at + min(self._burst_bytes(), nbytes - at)])
            self._check_boundary(len(part))
            self._dma.memory.dma_write(self.user, self._address, part)
            self._address += len(part)
        del self._fifo[:nbytes]

    def _fetch(self) -> None:
        nbytes = self._burst_bytes() if self.field(FCR, 2) else 4
        self._check_boundary(nbytes)
        self._fifo += self._dma.memory.dma_read(self.user, self._address, nbytes)
        self._address += nbytes

    def _check_boundary(self, nbytes: int) -> None:
        if self._address % _KIB + nbytes > _KIB:
            raise self._fault(
                M0AR,
                f"expected a burst that stays within 1 KiB, got {nbytes} bytes at "
                f"{self._address:#010x}; align the buffer to the burst",
            )

    def _check_request(self) -> None:
        channel = self.field(CR, 25, 3)
        if not self.request:
            raise self._fault(
                CR, f"expected a channel that is modelled for this stream, got {channel}"
            )
        if self.direction > MEMORY_TO_PERIPHERAL:
            raise self._fault(CR, "expected DIR 0 or 1, got memory to memory")
        if self.field(CR, PFCTRL) and (self.field(CR, CIRC) or self.field(CR, DBM)):
            raise self._fault(CR, "expected CIRC and DBM clear with PFCTRL, got one set")
        if self.field(CR, CIRC) or self.field(CR, DBM):
            raise self._fault(CR, "expected CIRC and DBM clear, got one set; not modelled")
        if self.field(CR, PINC) or not self.field(CR, MINC):
            raise self._fault(CR, "expected MINC alone for a FIFO, got other increments")
        port = self._register(PAR)
        if not self._dma.ports[self.request](port):
            raise self._fault(PAR, f"expected the FIFO of {self.request}, got {port:#010x}")

    def _check_widths(self) -> None:
        peripheral, memory = self.field(CR, 11, 2), self.field(CR, 13, 2)
        if peripheral != 2:
            raise self._fault(CR, f"expected PSIZE 2, the FIFO has words, got {peripheral}")
        if memory > 2:
            raise self._fault(CR, "expected MSIZE 0..2, got 3")
        for register, size in ((PAR, 1 << peripheral), (M0AR, 1 << memory)):
            if self._register(register) % size:
                raise self._fault(
                    register,
                    f"expected a multiple of {size}, got {self._register(register):#010x}; "
                    "align the buffer",
                )

    def _check_bursts(self) -> None:
        """RM0385 8.3.12, table 31: a burst is a whole part of the threshold."""
        beats = [_BEATS[self.field(CR, shift, 2)] for shift in (21, 23)]
        if not self.field(FCR, 2):
            if beats != [1, 1] or self.field(CR, 11, 2) != self.field(CR, 13, 2):
                raise self._fault(
                    CR, "expected single transfers of one width in direct mode, got others"
                )
            return
        threshold = 4 * (self.field(FCR, 0, 2) + 1)
        if self._burst_bytes() > _FIFO_BYTES or threshold % self._burst_bytes():
            raise self._fault(
                FCR,
                f"expected a threshold of whole bursts of {self._burst_bytes()} bytes, got "
                f"{threshold} bytes",
            )
        if beats[0] * 4 > _FIFO_BYTES:
            raise self._fault(CR, f"expected PBURST of at most 4 words, got {beats[0]}")


class Dma(Peripheral):
    """DMA2. ``ports`` says for each request which addresses are its data register."""

    name = "dma2"
    base = 0x4002_6400
    names: ClassVar = {
        0x00: "LISR", 0x04: "HISR", 0x08: "LIFCR", 0x0C: "HIFCR",
        **{_FIRST + _STRIDE * n + 4 * k: f"S{n}{name}"
           for n in range(8) for k, name in enumerate(_STREAM_REGISTERS)},
    }  # fmt: skip
    reset_values: ClassVar = {_FIRST + _STRIDE * n + FCR: 0x21 for n in range(8)}

    def __init__(self, agenda: Agenda, memory: Memory) -> None:
        super().__init__()
        self.agenda = agenda
        self.memory = memory
        self.streams = tuple(Stream(n, self) for n in range(8))
        self.ports: dict[str, Callable[[int], bool]] = {}

    def stream_of(self, request: str) -> Stream | None:
        """The enabled stream that serves ``request``."""
        found = [s for s in self.streams if self.running(s) and s.request == request]
        if len(found) > 1:
            raise MachineFault(f"dma2: expected one stream for {request}, got {len(found)}")
        return found[0] if found else None

    def running(self, stream: Stream) -> bool:
        """EN."""
        return bool(stream.field(CR, EN))

    def interrupt(self, number: int) -> bool:
        """Whether the interrupt line of stream ``number`` is high."""
        flags = self._flags(number)
        stream = self.streams[number]
        enables = stream.field(CR, 1, 4)  # DME, TE, HT, TC
        return bool(flags >> 2 & enables) or bool(flags & FE and stream.field(FCR, 7))

    def ended(self, stream: Stream, flags: int) -> None:
        """The stream is over: EN falls, ``flags`` rise."""
        self.values[_FIRST + _STRIDE * stream.number + CR] &= ~1
        offset, shift = self._place(stream.number)
        self.values[offset] |= flags << shift

    def write(self, offset: int, value: int) -> None:
        if offset < _LIFCR:
            return
        if offset < _FIRST:
            self.values[offset - _LIFCR] &= ~value
            return
        number, register = divmod(offset - _FIRST, _STRIDE)
        stream = self.streams[number]
        if self.running(stream):
            if register != CR:
                raise self.fault(offset, "expected a write with EN 0, got it while EN is 1")
            if value & 1:
                if value != self.values[offset] & ~0x1E | value & 0x1E:
                    raise self.fault(offset, "expected a change with EN 0, got one while EN is 1")
                self.values[offset] = value
            else:
                stream.stop()
                self.values[offset] = value
            return
        self.values[offset] = value
        if register == CR and value & 1:
            if self._flags(number):
                raise self.fault(
                    offset,
                    f"expected the stream's flags clear before EN, got {self._flags(number):#04x}; "
                    "clear them in LIFCR or HIFCR",
                )
            stream.enable()

    def _place(self, number: int) -> tuple[int, int]:
        return _LISR + number // 4 * 4, _FLAG_SHIFTS[number % 4]

    def _flags(self, number: int) -> int:
        offset, shift = self._place(number)
        return self.values[offset] >> shift & 0x3D
