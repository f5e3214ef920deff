"""SDMMC1, RM0385 35: registers and command path; clock and data path have modules of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from poet_mcu.emulator.agenda import Agenda
from poet_mcu.emulator.dma import Dma
from poet_mcu.emulator.gpio import Pins
from poet_mcu.emulator.rcc import Rcc
from poet_mcu.emulator.registers import Peripheral
from poet_mcu.emulator.sdcard import Answer, SdCard
from poet_mcu.emulator.sdmmc_clock import CardClock
from poet_mcu.emulator.sdmmc_data import DataPath
from poet_mcu.emulator.sdmmc_registers import (
    ARG,
    CCRCFAIL,
    CLKCR,
    CMD,
    CMDACT,
    CMDREND,
    CMDSENT,
    COMMAND_CLOCKS,
    CTIMEOUT,
    DCOUNT,
    DCTRL,
    DLEN,
    DTIMER,
    FIFO,
    FIFOCNT,
    ICR,
    LONG_CLOCKS,
    MASK,
    POWER,
    RESP1,
    RESPCMD,
    SHORT_CLOCKS,
    STA,
    STATIC,
    TIMEOUT_CLOCKS,
)
from poet_mcu.emulator.trace import Trace

#: clocks that a card needs before its first command (physical layer 6.4.1)
_POWER_UP_CLOCKS = 74
_RESPONSES: Mapping[int, str] = {0: "none", 1: "short", 2: "none", 3: "long"}


class Sdmmc(Peripheral):
    """The host controller with ``card`` in its slot."""

    name = "sdmmc1"
    base = 0x4001_2C00
    names: ClassVar = {
        POWER: "POWER", CLKCR: "CLKCR", ARG: "ARG", CMD: "CMD", RESPCMD: "RESPCMD",
        **{RESP1 + 4 * n: f"RESP{n + 1}" for n in range(4)},
        DTIMER: "DTIMER", DLEN: "DLEN", DCTRL: "DCTRL", DCOUNT: "DCOUNT", STA: "STA", ICR: "ICR",
        MASK: "MASK", FIFOCNT: "FIFOCNT", **{FIFO + 4 * n: "FIFO" for n in range(16)},
    }  # fmt: skip

    def __init__(
        self,
        agenda: Agenda,
        rcc: Rcc,
        pins: Pins,
        dma: Dma,
        card: SdCard,
        trace: Trace,
        wires: Mapping[str, str],
        af: int,
    ) -> None:
        super().__init__()
        self._agenda = agenda
        self._pins = pins
        self._card = card
        self._trace = trace
        self._wires = wires
        self._function = af
        self._clock = CardClock(agenda, self, rcc, card)
        self._data = DataPath(agenda, self, self._clock, dma, card, trace)
        dma.ports[self.name] = lambda address: FIFO <= address - self.base < FIFO + 64

    def reset(self) -> None:
        super().reset()
        self._data.abort()
        self._clock.changed()

    @property
    def moving(self) -> bool:
        """Whether a data transfer is armed or under way."""
        return self._data.active

    def interrupt(self) -> bool:
        """Whether its interrupt line is high."""
        return bool(self._data.status() & self.values[MASK])

    def read(self, offset: int) -> int:
        if offset == STA:
            return self._data.status()
        if offset == FIFOCNT:
            return self._data.words_left
        if offset >= FIFO:
            return self._data.pop()
        return self.values[offset]

    def write(self, offset: int, value: int) -> None:
        if offset == ICR:
            self.values[STA] &= ~(value & STATIC)
        elif offset == CMD:
            self._write_command(value)
        elif offset == DCTRL:
            self._data.control(value)
        elif offset >= FIFO:
            self._data.push(value)
        elif offset not in {RESPCMD, DCOUNT, STA, FIFOCNT} and not RESP1 <= offset < DTIMER:
            if offset in {DTIMER, DLEN}:
                self._data.prepare(offset)
            self.values[offset] = value
            self._clock.changed()

    def _write_command(self, value: int) -> None:
        if self.values[STA] & CMDACT:
            raise self.fault(CMD, "expected no command under way, got CMDACT 1; wait for its end")
        self.values[CMD] = value
        if not value & 1 << 10:
            return
        given = self._clock.clocks_given()
        if given is None:
            raise self.fault(CMD, "expected PWRCTRL 3 and CLKEN before a command, got them off")
        for signal in ("CK", "CMD", "D0", *(("D1", "D2", "D3") if self._clock.wide() else ())):
            self._pins.require(self.name, signal, self._wires[signal], self._function)
        if given < _POWER_UP_CLOCKS:
            raise self.fault(
                CMD,
                f"expected {_POWER_UP_CLOCKS} clocks before the first command, got {given:.0f}",
            )
        self.values[STA] |= CMDACT
        index, argument = value & 0x3F, self.values[ARG]
        self._trace.event("command", index=index, argument=argument)
        self._agenda.after(
            self._clock.cycles(COMMAND_CLOCKS), lambda: self._commanded(index, argument)
        )

    def _commanded(self, index: int, argument: int) -> None:
        """The command has reached the card."""
        sent = self._card.sending
        answer = self._card.command(index, argument)
        wanted = _RESPONSES[self.field(CMD, 6, 2)]
        if answer is not None:
            form = "long" if len(answer.words) > 1 else "short"
            if wanted != form:
                raise self.fault(
                    CMD, f"expected WAITRESP for the {form} answer to CMD{index}, got {wanted}"
                )
        if self._card.sending and not sent:
            self._data.read_command_taken()
        if wanted == "none":
            self._finish_command(CMDSENT)
        elif answer is None:
            self._agenda.after(self._clock.cycles(TIMEOUT_CLOCKS), self._command_timed_out)
        else:
            clocks = LONG_CLOCKS if wanted == "long" else SHORT_CLOCKS
            self._agenda.after(self._clock.cycles(clocks), lambda: self._answered(answer))

    def _answered(self, answer: Answer) -> None:
        for place, word in enumerate(answer.words):
            self.values[RESP1 + 4 * place] = word
        self.values[RESPCMD] = answer.index
        # Without a CRC (R3) the controller finds a wrong one: RM0385 35.4.2 has no R3 of its own.
        good = answer.crc and not answer.spoilt
        self._finish_command(CMDREND if good else CCRCFAIL)

    def _command_timed_out(self) -> None:
        self._finish_command(CTIMEOUT)

    def _finish_command(self, flag: int) -> None:
        self.values[STA] = self.values[STA] & ~CMDACT | flag
