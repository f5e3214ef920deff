"""USART1, RM0385 31, bridged to the host's line.

A received byte takes the time that the baud rate gives it. A sent one takes none, so TXE and TC
always stand: a driver may wait for them by polling, which would cost the host a millisecond a byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import ClassVar

from poet_mcu.emulator.agenda import Agenda
from poet_mcu.emulator.gpio import Pins
from poet_mcu.emulator.line import Line
from poet_mcu.emulator.rcc import Rcc
from poet_mcu.emulator.registers import Peripheral

CR1, BRR, ISR, ICR, RDR, TDR = 0x00, 0x0C, 0x1C, 0x20, 0x24, 0x28
UE, RE, TE, RXNEIE, TCIE, TXEIE = 0, 2, 3, 5, 6, 7
ORE, RXNE, TC, TXE = 1 << 3, 1 << 5, 1 << 6, 1 << 7
_ACKNOWLEDGED = 3 << 21  # TEACK, REACK
BAUD = 115_200
#: what sender and receiver may differ by together, half each (RM0385 31.5.5)
_BAUD_ERROR = 0.02
_BITS = 10


class Usart(Peripheral):
    """One UART; TX and RX lie on the pins ``places`` in alternate function ``af``."""

    name = "usart1"
    base = 0x4001_1000
    narrow = True
    names: ClassVar = {
        CR1: "CR1", 0x04: "CR2", 0x08: "CR3", BRR: "BRR", 0x10: "GTPR", 0x14: "RTOR", 0x18: "RQR",
        ISR: "ISR", ICR: "ICR", RDR: "RDR", TDR: "TDR",
    }  # fmt: skip
    reset_values: ClassVar = {ISR: TC | TXE}

    def __init__(
        self, agenda: Agenda, rcc: Rcc, pins: Pins, line: Line, places: Mapping[str, str], af: int
    ) -> None:
        super().__init__()
        self._agenda = agenda
        self._rcc = rcc
        self._pins = pins
        self._line = line
        self._places = places
        self._function = af
        self._coming: deque[int] = deque()
        self._going = bytearray()

    def poll(self) -> None:
        """Look whether the host has sent something; then it arrives byte by byte."""
        self.flush()
        if not self._coming:
            self._coming.extend(self._line.receive())
            if self._coming:
                self._next_byte()

    def interrupt(self) -> bool:
        """Whether its interrupt line is high."""
        state = self.values[ISR]
        return bool(
            (self.field(CR1, RXNEIE) and state & (RXNE | ORE))
            or (self.field(CR1, TXEIE) and state & TXE)
            or (self.field(CR1, TCIE) and state & TC)
        )

    def flush(self) -> None:
        """Give the host everything that was sent."""
        if self._going:
            self._line.send(bytes(self._going))
            self._going.clear()

    def read(self, offset: int) -> int:
        if offset == RDR:
            self.values[ISR] &= ~RXNE
        if offset == ISR:
            on = self.field(CR1, UE)
            return self.values[ISR] | (_ACKNOWLEDGED if on else 0)
        return self.values[offset]

    def write(self, offset: int, value: int) -> None:
        if offset == ICR:
            self.values[ISR] &= ~(value & ORE)
        elif offset == TDR:
            self._send(value & 0xFF)
        elif offset == 0x18:
            self.values[ISR] &= ~(RXNE if value & 8 else 0)
        elif offset == BRR and self.field(CR1, UE):
            raise self.fault(BRR, "expected UE 0 when it is written, got 1; disable it first")
        elif offset not in {ISR, RDR}:
            self.values[offset] = value

    def _ready(self, signal: str, enable: int) -> bool:
        """Whether UE and RE or TE are set; then also pin and rate must be right."""
        if not (self.field(CR1, UE) and self.field(CR1, enable)):
            return False
        self._pins.require(self.name, signal, self._places[signal], self._function)
        divider = self.values[BRR]
        rate = self._rcc.usart1() / divider if divider else 0.0
        if abs(rate - BAUD) > BAUD * _BAUD_ERROR:
            raise self.fault(BRR, f"expected {BAUD} Bd within 2 %, got {rate:.0f} Bd")
        return True

    def _send(self, byte: int) -> None:
        if not self._ready("TX", TE):
            raise self.fault(TDR, "expected UE and TE set before a byte, got one of them clear")
        self._going.append(byte)

    def _next_byte(self) -> None:
        self._agenda.after(_BITS * self._rcc.hclk() / BAUD, self._arrive)

    def _arrive(self) -> None:
        byte = self._coming.popleft()
        if not self._ready("RX", RE):
            pass  # nobody listens on the wire
        elif self.values[ISR] & RXNE:
            self.values[ISR] |= ORE
        else:
            self.values[RDR] = byte
            self.values[ISR] |= RXNE
        if self._coming:
            self._next_byte()
        else:
            self.poll()
