"""Reset and clock control, RM0385 5: oscillators, PLL, prescalers, enables."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from poet_mcu.emulator.agenda import Agenda
from poet_mcu.emulator.fault import MachineFault
from poet_mcu.emulator.power import Flash, Power
from poet_mcu.emulator.registers import Peripheral

CR, PLLCFGR, CFGR = 0x00, 0x04, 0x08
AHB1ENR, APB1ENR, APB2ENR = 0x30, 0x40, 0x44
DCKCFGR2 = 0x90
HSI_HZ = 16_000_000
#: DS10916, electrical characteristics: start-up of a crystal, lock of the PLL, the longest
_HSE_S, _PLL_S = 2e-3, 300e-6
_ON = {"HSI": 0, "HSE": 16, "PLL": 24, "PLLI2S": 26, "PLLSAI": 28}
_SOURCES = ("HSI", "HSE", "PLL", "nothing")
_ENABLES = {
    AHB1ENR: (*(f"GPIO{port}" for port in "ABCDEFGHIJK"), "", "CRC", *[""] * 5, "BKPSRAM", "",
              "DTCMRAM", "DMA1", "DMA2"),
    APB1ENR: (*[""] * 17, "USART2", "USART3", *[""] * 9, "PWR", "DAC"),
    APB2ENR: (*[""] * 4, "USART1", "USART6", *[""] * 5, "SDMMC1", "SPI1", "", "SYSCFG"),
}  # fmt: skip
_REGISTER = {AHB1ENR: "RCC_AHB1ENR", APB1ENR: "RCC_APB1ENR", APB2ENR: "RCC_APB2ENR"}
#: peripherals that need not be off while over-drive is switched: RM0385 4.1.4
_HARMLESS = ("PWR", "DTCMRAM")


class Rcc(Peripheral):
    """Clocks follow their switches after a delay; a forbidden order is a fault."""

    name = "rcc"
    base = 0x4002_3800
    names: ClassVar = {
        CR: "CR", PLLCFGR: "PLLCFGR", CFGR: "CFGR", 0x0C: "CIR",
        0x10: "AHB1RSTR", 0x14: "AHB2RSTR", 0x18: "AHB3RSTR", 0x20: "APB1RSTR", 0x24: "APB2RSTR",
        AHB1ENR: "AHB1ENR", 0x34: "AHB2ENR", 0x38: "AHB3ENR", APB1ENR: "APB1ENR",
        APB2ENR: "APB2ENR", 0x50: "AHB1LPENR", 0x54: "AHB2LPENR", 0x58: "AHB3LPENR",
        0x60: "APB1LPENR", 0x64: "APB2LPENR", 0x70: "BDCR", 0x74: "CSR", 0x80: "SSCGR",
        0x84: "PLLI2SCFGR", 0x88: "PLLSAICFGR", 0x8C: "DCKCFGR1", DCKCFGR2: "DCKCFGR2",
    }  # fmt: skip
    reset_values: ClassVar = {
        CR: 0x0000_0083, PLLCFGR: 0x2400_3010, AHB1ENR: 0x0010_0000, 0x74: 0x0E00_0000,
    }  # fmt: skip

    def __init__(self, agenda: Agenda, power: Power, flash: Flash, hse_hz: int) -> None:
        super().__init__()
        self._agenda = agenda
        self._power = power
        self._flash = flash
        self._hse_hz = hse_hz
        self.on_change: list[Callable[[], None]] = []
        self.on_reset: dict[tuple[int, int], Callable[[], None]] = {}
        power.pll_on = lambda: bool(self._on("PLL"))
        power.on_overdrive_switch = self._before_overdrive
        power.seconds = self.cycles
        flash.hclk = power.hclk = self.hclk

    def cycles(self, seconds: float) -> float:
        """``seconds`` in cycles of HCLK as it is now."""
        return seconds * self.hclk()

    def write(self, offset: int, value: int) -> None:
        old = self.values[offset]
        if offset == CR:
            self._write_control(old, value)
        elif offset == PLLCFGR:
            self._write_pll(value)
        elif offset == CFGR:
            self.values[CFGR] = value & ~0xC | old & 0xC
            self._check_frequencies()
            self._switch()
        else:
            self.values[offset] = value
        for bit in range(32):
            action = self.on_reset.get((offset, bit))
            if action and value >> bit & 1:
                action()
        for changed in self.on_change:
            changed()

    def require(self, peripheral: str) -> None:
        """Raise MachineFault unless the clock of ``peripheral`` is enabled."""
        for register, enables in _ENABLES.items():
            if peripheral in enables:
                bit = enables.index(peripheral)
                if not self.values[register] >> bit & 1:
                    raise MachineFault(
                        f"{peripheral.lower()}: expected its clock on ({_REGISTER[register]} bit "
                        f"{bit}), got an access while it is off; enable it first"
                    )

    def sysclk(self) -> int:
        """Hertz."""
        source = _SOURCES[self.field(CFGR, 2, 2)]
        return {"HSI": HSI_HZ, "HSE": self._hse_hz, "PLL": self._pll_vco() // self._pll_p()}[source]

    def hclk(self) -> int:
        """Hertz of core, AHB, memories and DMA."""
        return self.sysclk() >> _ahb_shift(self.field(CFGR, 4, 4))

    def pclk1(self) -> int:
        """Hertz of APB1."""
        return self.hclk() >> _apb_shift(self.field(CFGR, 10, 3))

    def pclk2(self) -> int:
        """Hertz of APB2."""
        return self.hclk() >> _apb_shift(self.field(CFGR, 13, 3))

    def clock48(self) -> int:
        """Hertz of the 48 MHz domain. Raises MachineFault when the PLL does not run."""
        if self.field(DCKCFGR2, 27):
            raise self.fault(DCKCFGR2, "expected CK48MSEL 0, got 1; PLLSAI is not modelled")
        if not self.field(CR, 25):
            raise self.fault(CR, "expected PLLRDY for the 48 MHz clock, got 0; start the PLL")
        return self._pll_vco() // self.field(PLLCFGR, 24, 4)

    def sdmmc1(self) -> int:
        """Hertz of SDMMCCLK."""
        return self.sysclk() if self.field(DCKCFGR2, 28) else self.clock48()

    def usart1(self) -> int:
        """Hertz of USART1's kernel clock."""
        return (self.pclk2(), self.sysclk(), HSI_HZ, 32_768)[self.field(DCKCFGR2, 0, 2)]

    def _on(self, name: str) -> int:
        return self.field(CR, _ON[name])

    def _ready(self, name: str) -> int:
        return self.field(CR, _ON[name] + 1)

    def _pll_vco(self) -> int:
        source = self._hse_hz if self.field(PLLCFGR, 22) else HSI_HZ
        return source // self.field(PLLCFGR, 0, 6) * self.field(PLLCFGR, 6, 9)

    def _pll_p(self) -> int:
        return 2 * (self.field(PLLCFGR, 16, 2) + 1)

    def _write_control(self, old: int, value: int) -> None:
        ready = sum(2 << shift for shift in _ON.values())
        self.values[CR] = value & ~ready | old & ready
        used = _SOURCES[self.field(CFGR, 2, 2)]
        fed = "HSE" if self.field(PLLCFGR, 22) else "HSI"
        for name, shift in _ON.items():
            now, before = value >> shift & 1, old >> shift & 1
            if now and not before:
                self._start(name, fed)
            if before and not now:
                if name == used or (name == fed and used == "PLL"):
                    raise self.fault(CR, f"expected {name} on while it clocks the core, got off")
                self.values[CR] &= ~(2 << shift)
                self._power.clocks_changed()

    def _start(self, name: str, fed: str) -> None:
        if name in {"PLLI2S", "PLLSAI"}:
            raise self.fault(CR, f"expected {name} off, got on; it is not modelled")
        if name == "PLL" and not self._ready(fed):
            raise self.fault(CR, f"expected {fed}RDY before PLLON, got 0; wait for it")
        delay = {"HSI": 4e-6, "HSE": _HSE_S, "PLL": _PLL_S}[name]

        def ready() -> None:
            if self._on(name):
                self.values[CR] |= 2 << _ON[name]
                self._power.clocks_changed()
                self._switch()

        self._agenda.after(self.cycles(delay), ready)

    def _write_pll(self, value: int) -> None:
        if self._on("PLL"):
            raise self.fault(PLLCFGR, "expected a write with the PLL off, got PLLON 1; stop it")
        self.values[PLLCFGR] = value
        m, n, q = self.field(PLLCFGR, 0, 6), self.field(PLLCFGR, 6, 9), self.field(PLLCFGR, 24, 4)
        if m < 2 or not 50 <= n <= 432 or q < 2:
            raise self.fault(PLLCFGR, f"expected M 2..63, N 50..432, Q 2..15, got {m}, {n}, {q}")
        source = self._hse_hz if self.field(PLLCFGR, 22) else HSI_HZ
        if not 950_000 <= source / m <= 2_100_000:
            raise self.fault(PLLCFGR, f"expected 1 to 2 MHz behind M, got {source / m:.0f} Hz")
        if not 100_000_000 <= source / m * n <= 432_000_000:
            raise self.fault(PLLCFGR, f"expected a VCO of 100..432 MHz, got {source / m * n:.0f}")

    def _switch(self) -> None:
        """The system clock follows SW as soon as its source is ready (RM0385 5.3.3)."""
        wanted = self.field(CFGR, 0, 2)
        if wanted == self.field(CFGR, 2, 2):
            return
        if wanted == 3:
            raise self.fault(CFGR, "expected SW 0..2, got 3")
        if self._ready(_SOURCES[wanted]):
            self.values[CFGR] = self.values[CFGR] & ~0xC | wanted << 2
            self._check_frequencies()
            for changed in self.on_change:
                changed()

    def _check_frequencies(self) -> None:
        hertz = self.hclk()
        self._power.check(hertz)
        self._flash.check(hertz)
        over = self._power.overdriven()
        for bus, got, most in (
            ("PCLK1", self.pclk1(), 54_000_000 if over else 45_000_000),
            ("PCLK2", self.pclk2(), 108_000_000 if over else 90_000_000),
        ):
            if got > most:
                raise self.fault(CFGR, f"expected {bus} of at most {most} Hz, got {got} Hz")

    def _before_overdrive(self) -> None:
        """RM0385 4.1.4: no peripheral clock while over-drive is switched on."""
        if self.field(CFGR, 2, 2) == 2:
            raise MachineFault(
                "pwr: CR1: expected ODSWEN while HSI or HSE clocks the core, got it on the PLL"
            )
        for register, enables in _ENABLES.items():
            on = [n for bit, n in enumerate(enables) if self.values[register] >> bit & 1]
            wrong = [n for n in on if n not in _HARMLESS]
            if wrong:
                raise MachineFault(
                    f"pwr: CR1: expected no peripheral clock on at ODSWEN, got {wrong[0]}; "
                    "enable it afterwards"
                )


def _ahb_shift(code: int) -> int:
    return (1, 2, 3, 4, 6, 7, 8, 9)[code & 7] if code & 8 else 0


def _apb_shift(code: int) -> int:
    return (code & 3) + 1 if code & 4 else 0
