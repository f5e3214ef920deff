"""General-purpose I/O, RM0385 6: modes and alternate functions of the pins, levels from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from poet_mcu.emulator.fault import MachineFault
from poet_mcu.emulator.registers import Peripheral

MODER, OTYPER, PUPDR, IDR, ODR, BSRR, AFRL, AFRH = 0, 4, 0x0C, 0x10, 0x14, 0x18, 0x20, 0x24
_ALTERNATE = 2
_MODES = ("input", "output", "alternate function", "analog")
#: MODER, OSPEEDR and PUPDR after reset: the debugger's pins (RM0385 6.4)
_RESETS: Mapping[str, Mapping[int, int]] = {
    "A": {MODER: 0xA800_0000, 0x08: 0x0C00_0000, PUPDR: 0x6400_0000},
    "B": {MODER: 0x0000_0280, 0x08: 0x0000_00C0, PUPDR: 0x0000_0100},
}


class Gpio(Peripheral):
    """One port. ``levels`` has the pins that something outside drives."""

    narrow = True
    names: ClassVar = {
        MODER: "MODER", OTYPER: "OTYPER", 0x08: "OSPEEDR", PUPDR: "PUPDR", IDR: "IDR", ODR: "ODR",
        BSRR: "BSRR", 0x1C: "LCKR", AFRL: "AFRL", AFRH: "AFRH",
    }  # fmt: skip

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.name = f"gpio{letter.lower()}"
        self.base = 0x4002_0000 + 0x400 * (ord(letter) - ord("A"))
        super().__init__()
        self.values |= _RESETS.get(letter, {})
        self.levels: dict[int, Callable[[], bool]] = {}

    def read(self, offset: int) -> int:
        if offset == IDR:
            return sum(self._level(pin) << pin for pin in range(16))
        return 0 if offset == BSRR else self.values[offset]

    def write(self, offset: int, value: int) -> None:
        if offset == BSRR:
            self.values[ODR] = self.values[ODR] & ~(value >> 16) | value & 0xFFFF
        elif offset != IDR:
            self.values[offset] = value

    def mode(self, pin: int) -> str:
        """In words, with the number of an alternate function."""
        mode = self.field(MODER, 2 * pin, 2)
        if mode != _ALTERNATE:
            return _MODES[mode]
        return f"alternate function {self.field(AFRL + pin // 8 * 4, pin % 8 * 4, 4)}"

    def _level(self, pin: int) -> int:
        if self.field(MODER, 2 * pin, 2) == 1:
            return self.field(ODR, pin)
        if pin in self.levels:
            return int(self.levels[pin]())
        return int(self.field(PUPDR, 2 * pin, 2) == 1)


class Pins:
    """All ports, asked by the peripherals behind them."""

    def __init__(self, ports: Mapping[str, Gpio], require_clock: Callable[[str], None]) -> None:
        self._ports = ports
        self._require_clock = require_clock

    def require(self, user: str, signal: str, pin: str, function: int) -> None:
        """Raise MachineFault unless ``pin`` ("PC12") carries alternate function ``function``."""
        port = self._ports[pin[1]]
        self._require_clock(f"GPIO{pin[1]}")
        got = port.mode(int(pin[2:]))
        if got != f"alternate function {function}":
            raise MachineFault(
                f"{user}: {signal}: expected {pin} in alternate function {function}, got {got}; "
                f"set {port.name.upper()} MODER and AFR"
            )
