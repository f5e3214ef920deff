"""SDMMC_CK, the clock of the card (RM0385 35.4.1), and the width of its bus."""

from __future__ import annotations

from poet_mcu.emulator.agenda import Agenda
from poet_mcu.emulator.rcc import Rcc
from poet_mcu.emulator.registers import Peripheral
from poet_mcu.emulator.sdcard import SdCard
from poet_mcu.emulator.sdmmc_registers import CLKCR, POWER

_IDENTIFY_HZ, _DEFAULT_HZ, _HIGH_HZ = 400_000, 25_000_000, 50_000_000


class CardClock:
    """What POWER and CLKCR in ``bank`` make of SDMMCCLK."""

    def __init__(self, agenda: Agenda, bank: Peripheral, rcc: Rcc, card: SdCard) -> None:
        self._agenda = agenda
        self._bank = bank
        self._rcc = rcc
        self._card = card
        self._since: int | None = None

    def changed(self) -> None:
        """POWER or CLKCR was written."""
        if self._bank.field(POWER, 0, 2) != 3 or not self._bank.field(CLKCR, 8):
            self._since = None
        elif self._since is None:
            self._since = self._agenda.now

    def clocks_given(self) -> float | None:
        """How many clocks the card has had without a pause; None while there is no clock."""
        return None if self._since is None else (self._agenda.now - self._since) / self.cycles(1)

    def cycles(self, clocks: float) -> float:
        """Clocks of the card in cycles of HCLK."""
        return clocks / self._hertz() * self._rcc.hclk()

    def byte_clocks(self) -> int:
        """Clocks that a byte takes on the data lines."""
        return 2 if self.wide() else 8

    def wide(self) -> bool:
        """Whether the host uses four data lines."""
        width = self._bank.field(CLKCR, 11, 2)
        if width > 1:
            raise self._bank.fault(CLKCR, f"expected WIDBUS 0 or 1 with an SD card, got {width}")
        return width == 1

    def _hertz(self) -> float:
        """SDMMC_CK. Raises MachineFault where RM0385 or the card forbids it."""
        source = self._rcc.sdmmc1()
        if source > 50_000_000:
            raise self._bank.fault(CLKCR, f"expected SDMMCCLK of at most 50 MHz, got {source} Hz")
        bypass = self._bank.field(CLKCR, 10)
        hertz = source if bypass else source / (self._bank.field(CLKCR, 0, 8) + 2)
        card = self._card
        most = _HIGH_HZ if card.high_speed else _DEFAULT_HZ
        most = _IDENTIFY_HZ if card.identifying else most
        if hertz > most:
            raise self._bank.fault(
                CLKCR,
                f"expected a card clock of at most {most} Hz in this state of the card, got "
                f"{hertz:.0f} Hz; slow it down, or switch the card's mode first",
            )
        if self._rcc.pclk2() < 3 / 8 * hertz:
            raise self._bank.fault(
                CLKCR, "expected PCLK2 of 3/8 of the card clock at least, got less"
            )
        return hertz
