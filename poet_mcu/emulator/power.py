"""Power control with over-drive (RM0385 4) and the flash interface with its wait states (3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from poet_mcu.emulator.agenda import Agenda
from poet_mcu.emulator.registers import Peripheral

CR1, CSR1 = 0x00, 0x04
_ODEN, _ODSWEN = 16, 17
_VOSRDY = 1 << 14
#: RM0385 4.1.4: over-drive's generator is ready and its switch is made after this, about
_OVERDRIVE_S = 40e-6
ACR = 0x00
#: RM0385 table 5, 2.7 to 3.6 V: highest HCLK by wait states
_WAIT_STATES_HZ = tuple(mhz * 1_000_000 for mhz in (30, 60, 90, 120, 150, 180, 210, 216))


def _nothing() -> None:
    """No reaction."""


class Power(Peripheral):
    """PWR. The highest HCLK follows from scale and over-drive (RM0385 4.1.4, table 13)."""

    name = "pwr"
    base = 0x4000_7000
    names: ClassVar = {CR1: "CR1", CSR1: "CSR1", 0x08: "CR2", 0x0C: "CSR2"}
    reset_values: ClassVar = {CR1: 0x0000_C000}

    def __init__(self, agenda: Agenda) -> None:
        super().__init__()
        self._agenda = agenda
        self.pll_on: Callable[[], bool] = lambda: False
        self.on_overdrive_switch: Callable[[], None] = _nothing
        self.seconds: Callable[[float], float] = lambda seconds: seconds
        self.hclk: Callable[[], int] = lambda: 0

    def write(self, offset: int, value: int) -> None:
        if offset in {CSR1, 0x0C}:
            return
        old = self.values[offset]
        self.values[offset] = value
        if offset != CR1:
            return
        changed = old ^ value
        if changed >> 14 & 3 and self.pll_on():
            raise self.fault(CR1, "expected VOS to change with the PLL off, got PLLON 1")
        if changed & value & 1 << _ODSWEN:
            if not self.field(CSR1, _ODEN):
                raise self.fault(CR1, "expected ODRDY before ODSWEN, got 0; wait for it")
            self.on_overdrive_switch()
        for bit in (_ODEN, _ODSWEN):
            if changed & value & 1 << bit:
                self._agenda.after(self.seconds(_OVERDRIVE_S), self._ready(bit))
            if changed & old & 1 << bit:
                self.values[CSR1] &= ~(1 << bit)
        if changed & old:
            self.check(self.hclk())

    def overdriven(self) -> bool:
        """Whether the switch to over-drive is made."""
        return bool(self.field(CSR1, _ODSWEN))

    def clocks_changed(self) -> None:
        """The scale takes effect, and is ready, with the PLL."""
        self.values[CSR1] = self.values[CSR1] & ~_VOSRDY | (_VOSRDY if self.pll_on() else 0)

    def check(self, hertz: int) -> None:
        """Raise MachineFault when the supply does not carry an HCLK of ``hertz``."""
        scale = self.field(CR1, 14, 2) or 1
        over = self.overdriven()
        most = {3: (180, 216), 2: (168, 180), 1: (144, 144)}[scale][over] * 1_000_000
        if hertz > most:
            state = "on" if over else "off"
            raise self.fault(
                CSR1,
                f"expected HCLK of at most {most} Hz with VOS {scale} and over-drive {state} "
                f"(ODSWRDY), got {hertz} Hz; switch over-drive on first",
            )

    def _ready(self, bit: int) -> Callable[[], None]:
        def ready() -> None:
            if self.field(CR1, bit):
                self.values[CSR1] |= 1 << bit

        return ready


class Flash(Peripheral):
    """The flash interface: latency must fit HCLK at every moment."""

    name = "flash"
    base = 0x4002_3C00
    names: ClassVar = {
        ACR: "ACR", 0x04: "KEYR", 0x08: "OPTKEYR", 0x0C: "SR", 0x10: "CR", 0x14: "OPTCR",
        0x18: "OPTCR1",
    }  # fmt: skip
    reset_values: ClassVar = {0x10: 0x8000_0000, 0x14: 0xC0FF_AAFD, 0x18: 0x0040_0080}

    def __init__(self) -> None:
        super().__init__()
        self.hclk: Callable[[], int] = lambda: 0

    def write(self, offset: int, value: int) -> None:
        if offset != ACR:
            raise self.fault(offset, "expected no write, got one; programming is not modelled")
        self.values[ACR] = value
        self.check(self.hclk())

    def check(self, hertz: int) -> None:
        """Raise MachineFault when the wait states are too few for an HCLK of ``hertz``."""
        states = self.field(ACR, 0, 4)
        needed = next((n for n, most in enumerate(_WAIT_STATES_HZ) if hertz <= most), 16)
        if states < needed:
            raise self.fault(
                ACR,
                f"expected {needed} wait states or more at {hertz} Hz, got {states}; "
                "set LATENCY before the clock rises",
            )
