"""The STM32F746G-DISCO put together: core, bus, peripherals, card, line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from poet_mcu.emulator.agenda import Agenda
from poet_mcu.emulator.card_faults import CardFault, CardFaults
from poet_mcu.emulator.core import Core, Surroundings, new_cpu
from poet_mcu.emulator.dma import Dma
from poet_mcu.emulator.exceptions import Exceptions
from poet_mcu.emulator.gpio import Gpio, Pins
from poet_mcu.emulator.line import Line
from poet_mcu.emulator.memory import Memory
from poet_mcu.emulator.power import Flash, Power
from poet_mcu.emulator.ppb import Dwt, Scs
from poet_mcu.emulator.rcc import Rcc
from poet_mcu.emulator.registers import Bus
from poet_mcu.emulator.sdcard import SdCard
from poet_mcu.emulator.sdcard_registers import KINDS, CardKind
from poet_mcu.emulator.sdmmc import Sdmmc
from poet_mcu.emulator.trace import Trace
from poet_mcu.emulator.usart import Usart

#: the board's crystal and wires (UM1907)
HSE_HZ = 25_000_000
_CARD_PINS = {"D0": "PC8", "D1": "PC9", "D2": "PC10", "D3": "PC11", "CK": "PC12", "CMD": "PD2"}
_CARD_FUNCTION = 12
_DETECT = ("C", 13)  # low: a card is in the slot
_CONSOLE = {"TX": "PA9", "RX": "PB7"}
_USART_FUNCTION = 7
_USART1, _SDMMC1 = 37, 49
#: bits of RCC_APB2RSTR
_SDMMC1_RESET, _USART1_RESET = (0x24, 11), (0x24, 4)
#: quanta from one look at the host's line to the next
_STEPS_TO_POLL = 32
_DMA2 = (56, 57, 58, 59, 60, 68, 69, 70)


class ResetRequested(Exception):
    """The firmware asked for a reset."""


class Machine:
    """One board from reset on; ``run`` ends by an exception only."""

    def __init__(
        self,
        firmware: bytes,
        card: Path,
        line: Line,
        *,
        faults: Sequence[CardFault] = (),
        trace: Path | None = None,
        kind: CardKind = KINDS["sdhc"],
    ) -> None:
        self._line = line
        self._was_busy = False
        agenda = Agenda()
        self.trace = Trace(agenda, trace)
        uc, self._image = new_cpu(firmware)
        memory = Memory(uc)
        exceptions = Exceptions(uc, lambda: self._scs.fpu_on)
        self._scs = Scs(agenda, exceptions, memory)
        power, flash = Power(agenda), Flash()
        self.rcc = Rcc(agenda, power, flash, HSE_HZ)
        ports = {letter: Gpio(letter) for letter in "ABCDEFGHIJK"}
        pins = Pins(ports, self.rcc.require)
        self.card_faults = CardFaults(faults)
        self.card = SdCard(card, agenda, self.card_faults, self.trace.complain, kind)
        self.card.cycles = self.rcc.cycles
        port, pin = _DETECT
        ports[port].levels[pin] = lambda: not self.card.present
        dma = Dma(agenda, memory)
        self.sdmmc = Sdmmc(
            agenda, self.rcc, pins, dma, self.card, self.trace, _CARD_PINS, _CARD_FUNCTION
        )
        self.usart = Usart(agenda, self.rcc, pins, line, _CONSOLE, _USART_FUNCTION)
        self.rcc.on_reset = {_SDMMC1_RESET: self.sdmmc.reset, _USART1_RESET: self.usart.reset}
        self._connect(exceptions, dma)
        self.bus = self._bus(power, flash, ports, dma, Dwt(agenda, lambda: self._scs.tracing))
        around = self._around(memory)
        self.core = Core(uc, agenda, self.bus, exceptions, self._scs, around)
        self.agenda = agenda
        self._scs.on_reset = _reset
        self.core.reset()

    def run(self) -> None:
        """Run until the firmware asks for a reset or a fault ends it; both are raised."""
        while True:
            self.usart.poll()
            for _ in range(_STEPS_TO_POLL):
                self.step()

    def step(self) -> None:
        """One step of the core; a trace notes where it is while data moves or the card programs."""
        self.core.step()
        if not self.trace.on:
            return
        busy = self.card.busy()
        if self.sdmmc.moving or busy:
            self.trace.places.add(self.core.pc)
        elif self._was_busy:
            self.trace.moved("programmed", block=self.card.first)
        self._was_busy = busy

    def _around(self, memory: Memory) -> Surroundings:
        return Surroundings(
            take_fault=memory.take_fault,
            complain=self.trace.complain,
            wait_for_host=self._wait_for_host,
            seconds=lambda cycles: cycles / self.rcc.hclk(),
            cycles=self.rcc.cycles,
        )

    def _wait_for_host(self, seconds: float) -> None:
        self.usart.flush()
        self._line.wait(seconds)
        self.usart.poll()

    def _connect(self, exceptions: Exceptions, dma: Dma) -> None:
        exceptions.connect(_USART1, self.usart.interrupt)
        exceptions.connect(_SDMMC1, self.sdmmc.interrupt)
        for number, irq in enumerate(_DMA2):
            exceptions.connect(irq, lambda number=number: dma.interrupt(number))  # type: ignore[misc]

    def _bus(self, power: Power, flash: Flash, ports: dict[str, Gpio], dma: Dma, dwt: Dwt) -> Bus:
        bus = Bus()
        for always in (self.rcc, flash, dwt, self._scs):
            bus.add(always, _always)
        for name, peripheral in (
            ("PWR", power), ("DMA2", dma), ("USART1", self.usart), ("SDMMC1", self.sdmmc),
            *((f"GPIO{letter}", port) for letter, port in ports.items()),
        ):  # fmt: skip
            bus.add(peripheral, lambda name=name: self.rcc.require(name))  # type: ignore[misc]
        self.rcc.on_change.append(bus.clocks_changed)
        return bus


def _always() -> None:
    """A clock that cannot be switched off."""


def _reset() -> None:
    raise ResetRequested
