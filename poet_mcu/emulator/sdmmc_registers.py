"""Registers and flags of the SDMMC, RM0385 35.8, that its two halves share."""

from __future__ import annotations

POWER, CLKCR, ARG, CMD, RESPCMD, RESP1 = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x14
DTIMER, DLEN, DCTRL, DCOUNT, STA, ICR, MASK = 0x24, 0x28, 0x2C, 0x30, 0x34, 0x38, 0x3C
FIFOCNT, FIFO = 0x48, 0x80
CCRCFAIL, DCRCFAIL, CTIMEOUT, DTIMEOUT, TXUNDERR, RXOVERR = (1 << n for n in range(6))
CMDREND, CMDSENT, DATAEND, DBCKEND = 1 << 6, 1 << 7, 1 << 8, 1 << 10
CMDACT, TXACT, RXACT = 1 << 11, 1 << 12, 1 << 13
#: the flags that ICR clears
STATIC = 0x0040_05FF
#: bits on the command line and the gaps around them (RM0385 35.4.2)
COMMAND_CLOCKS, SHORT_CLOCKS, LONG_CLOCKS, TIMEOUT_CLOCKS = 48, 8 + 48, 8 + 136, 64
