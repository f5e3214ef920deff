"""Peripherals as banks of registers, and the bus that finds them by address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from poet_mcu.emulator.fault import MachineFault

_PAGE = 0x400


class Peripheral:
    """Registers that hold what was written, unless a subclass says otherwise.

    ``names`` gives every register that exists by its offset; another offset is a fault.
    ``reset_values`` are the ones that are not 0.
    """

    name: str
    base: int
    names: ClassVar[Mapping[int, str]]
    reset_values: ClassVar[Mapping[int, int]] = {}
    size: ClassVar[int] = _PAGE
    #: registers that take bytes and halfwords too, by RM0385 or PM0253
    narrow: ClassVar[bool] = False

    def __init__(self) -> None:
        self.values = {offset: self.reset_values.get(offset, 0) for offset in self.names}

    def reset(self) -> None:
        """Every register as after a reset."""
        for offset in self.names:
            self.values[offset] = self.reset_values.get(offset, 0)

    def read(self, offset: int) -> int:
        """The register's value, with its side effects."""
        return self.values[offset]

    def write(self, offset: int, value: int) -> None:
        """Write the register, with its side effects."""
        self.values[offset] = value

    def field(self, offset: int, shift: int, width: int = 1) -> int:
        """Bits of a register as it stands."""
        return self.values[offset] >> shift & ((1 << width) - 1)

    def fault(self, offset: int, text: str) -> MachineFault:
        """A fault at the register ``offset``."""
        return MachineFault(f"{self.name}: {self.names[offset]}: {text}")

    def locate(self, offset: int) -> int:
        """``offset`` if there is a register. Raises MachineFault otherwise."""
        if offset in self.names:
            return offset
        raise MachineFault(
            f"{self.name}: expected one of its registers, got offset {offset:#x}; "
            "the manual has none there"
        )


class Bus:
    """Accesses of the core to the peripherals; what was found once is found fast again."""

    def __init__(self) -> None:
        self._by_page: dict[int, tuple[Peripheral, Callable[[], None]]] = {}
        self._words: dict[int, tuple[Peripheral, int]] = {}

    def add(self, peripheral: Peripheral, clocked: Callable[[], None]) -> None:
        """``clocked`` raises MachineFault unless the peripheral's clock runs."""
        for at in range(peripheral.base, peripheral.base + peripheral.size, _PAGE):
            self._by_page[at // _PAGE] = peripheral, clocked

    def clocks_changed(self) -> None:
        """Which peripherals are clocked may have changed."""
        self._words.clear()

    def read(self, address: int, size: int) -> int:
        """A load of ``size`` bytes."""
        if size == 4:
            peripheral, offset = self._words.get(address) or self._find(address, size)
            return peripheral.read(offset)
        peripheral, offset = self._find(address, size)
        shift = address % 4 * 8
        return peripheral.read(offset) >> shift & ((1 << size * 8) - 1)

    def write(self, address: int, size: int, value: int) -> None:
        """A store of ``size`` bytes."""
        peripheral, offset = self._find(address, size)
        if size < 4:
            shift, mask = address % 4 * 8, (1 << size * 8) - 1
            value = (value & mask) << shift | peripheral.values[offset] & ~(mask << shift)
        peripheral.write(offset, value)

    def _find(self, address: int, size: int) -> tuple[Peripheral, int]:
        if size == 4 and address in self._words:
            return self._words[address]
        found = self._by_page.get(address // _PAGE)
        if found is None:
            raise MachineFault(
                f"bus: {address:#010x}: expected a peripheral that is modelled, got none there; "
                "check the address"
            )
        peripheral, clocked = found
        clocked()
        offset = peripheral.locate((address & ~3) - peripheral.base)
        if address % size or (size < 4 and not peripheral.narrow):
            raise peripheral.fault(
                offset, f"expected a word access, got {size} bytes at {address:#010x}; use a word"
            )
        if size == 4:
            self._words[address] = peripheral, offset
        return peripheral, offset
