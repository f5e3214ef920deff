"""The peripherals one rule at a time, each rule a row with its place in the manual.

RM0385 but for what is marked PM (PM0253) and SD (physical layer specification). A script writes
registers as the core does; no instruction runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import bench
import pytest

from poet_mcu.emulator.fault import MachineFault
from poet_mcu.emulator.machine import Machine
from poet_mcu.emulator.power import Flash
from poet_mcu.emulator.registers import Peripheral

#: (register, value to write), (register, None) to read it, or ("wait", seconds)
Step = tuple[str, float | None]
Script = Sequence[Step]

SRAM1 = 0x2001_0000
FIFO = 0x4001_2C80


@dataclass
class Bare:
    """The machine without a program."""

    machine: Machine = field(default_factory=lambda: bench.start(b"").machine)

    def __post_init__(self) -> None:
        found = {p for p, _ in self.machine.bus._by_page.values()}
        self.registers = {
            f"{p.name}.{name}": p.base + offset for p in found for offset, name in p.names.items()
        }
        self.peripherals: dict[str, Peripheral] = {p.name: p for p in found}

    def run(self, script: Script) -> list[int]:
        """What was read."""
        read = []
        for name, value in script:
            if name == "wait":
                cycles = self.machine.rcc.cycles(value or 0.0)
                self.machine.agenda.move_to(self.machine.agenda.now + round(cycles))
            elif value is None:
                read.append(self.machine.bus.read(self.registers[name], 4))
            else:
                self.machine.bus.write(self.registers[name], 4, int(value))
        return read


HSE: Script = (("rcc.CR", 0x0001_0083), ("wait", 3e-3))
PLL: Script = (
    *HSE, ("rcc.APB1ENR", 1 << 28), ("rcc.PLLCFGR", 0x2940_6C19), ("rcc.CR", 0x0101_0083),
    ("wait", 1e-3),
)  # fmt: skip
OVERDRIVE: Script = (
    ("pwr.CR1", 0x1_C000), ("wait", 1e-4), ("pwr.CR1", 0x3_C000), ("wait", 1e-4),
)  # fmt: skip
FAST: Script = (*PLL, *OVERDRIVE, ("flash.ACR", 7), ("rcc.CFGR", 0x9402))
PORTS: Script = (
    *FAST, ("rcc.AHB1ENR", 0x0050_000F), ("rcc.APB2ENR", 1 << 11 | 1 << 4),
    ("gpioc.MODER", 0x02AA_0000), ("gpioc.AFRH", 0x000C_CCCC),
    ("gpiod.MODER", 0x20), ("gpiod.AFRL", 0xC00),
)  # fmt: skip
CARD: Script = (
    *PORTS, ("sdmmc1.CLKCR", 118), ("sdmmc1.POWER", 3), ("sdmmc1.CLKCR", 118 | 1 << 8),
)  # fmt: skip
IDLE_CARD: Script = (*CARD, ("wait", 1e-3), ("sdmmc1.CMD", 1 << 10), ("wait", 1e-3))
DATA: Script = (*CARD, ("sdmmc1.DTIMER", 1000), ("sdmmc1.DLEN", 512))
CONSOLE: Script = (
    *PORTS, ("gpioa.MODER", 0xA808_0000), ("gpioa.AFRH", 0x70), ("gpiob.MODER", 0x8280),
    ("gpiob.AFRL", 0x7000_0000),
)  # fmt: skip
#: receive stream 3, channel 4: PFCTRL, MINC, words, bursts of 4, FIFO full
S3 = 4 << 25 | 1 << 23 | 1 << 21 | 2 << 13 | 2 << 11 | 1 << 10 | 1 << 5
STREAM: Script = (*PORTS, ("dma2.S3PAR", FIFO), ("dma2.S3M0AR", SRAM1), ("dma2.S3FCR", 7))

RULES: dict[str, tuple[Script, str]] = {
    # RCC, 5.2, 5.3
    "PLL on before its source is ready": (
        (("rcc.PLLCFGR", 0x2940_6C19), ("rcc.CR", 0x0101_0083)),
        "rcc: CR: expected HSERDY before PLLON",
    ),
    "PLL changed while on": (
        (*PLL, ("rcc.PLLCFGR", 0x2940_6C1A)), "rcc: PLLCFGR: expected a write with the PLL off"),
    "PLL multiplier out of range": (
        (("rcc.PLLCFGR", 0x2940_0C19),), "rcc: PLLCFGR: expected M 2..63, N 50..432"),
    "PLL input out of range": (
        (*HSE, ("rcc.PLLCFGR", 0x2940_6C05)), "rcc: PLLCFGR: expected .* got 5000000"),
    "PLLSAI": ((("rcc.CR", 0x1000_0083),), "rcc: CR: expected PLLSAI off"),
    "the core's source off": (
        (*HSE, ("rcc.CFGR", 1), ("rcc.CR", 0x83)), "rcc: CR: expected HSE on while it clocks"),
    "the PLL's source off": (
        (*FAST, ("rcc.CR", 0x0100_0083)), "rcc: CR: expected HSE on while it clocks"),
    "no such clock": ((("rcc.CFGR", 3),), r"rcc: CFGR: expected SW 0\.\.2, got 3"),
    "APB1 above 54 MHz": (
        (*FAST, ("rcc.CFGR", 0x8002)), "rcc: CFGR: expected PCLK1 of at most 54000000 Hz"),
    "APB2 above 108 MHz": (
        (*FAST, ("rcc.CFGR", 0x1402)), "rcc: CFGR: expected PCLK2 of at most 108000000 Hz"),
    "a peripheral without its clock": (
        (("gpioc.MODER", 0),), r"gpioc: expected its clock on \(RCC_AHB1ENR bit 2\)"),
    # PWR, 4.1.4
    "voltage scale changed with the PLL on": (
        (*PLL, ("pwr.CR1", 0x8000)), "pwr: CR1: expected VOS to change with the PLL off"),
    "over-drive switched before it is ready": (
        (*PLL, ("pwr.CR1", 0x3_C000)), "pwr: CR1: expected ODRDY before ODSWEN"),
    "over-drive switched with a peripheral on": (
        (*PLL, ("rcc.AHB1ENR", 4), *OVERDRIVE[:3]),
        "pwr: CR1: expected no peripheral clock on at ODSWEN, got GPIOC"),
    "216 MHz without over-drive": (
        (*PLL, ("flash.ACR", 7), ("rcc.CFGR", 0x9402)),
        "pwr: CSR1: expected HCLK of at most 180000000 Hz"),
    # FLASH, 3.3.2
    "wait states lowered at 216 MHz": (
        (*FAST, ("flash.ACR", 6)), "flash: ACR: expected 7 wait states or more at 216000000 Hz"),
    "flash programmed": ((("flash.KEYR", 1),), "flash: KEYR: expected no write"),
    # USART, 31.5
    "baud rate changed while on": (
        (*CONSOLE, ("usart1.BRR", 938), ("usart1.CR1", 9), ("usart1.BRR", 900)),
        "usart1: BRR: expected UE 0 when it is written"),
    "a byte while off": (
        (*CONSOLE, ("usart1.TDR", 65)), "usart1: TDR: expected UE and TE set"),
    "another baud rate": (
        (*CONSOLE, ("usart1.BRR", 900), ("usart1.CR1", 9), ("usart1.TDR", 65)),
        "usart1: BRR: expected 115200 Bd within 2 %, got 120000 Bd"),
    "a pin that is no USART's": (
        (*CONSOLE, ("gpioa.AFRH", 0), ("usart1.BRR", 938), ("usart1.CR1", 9), ("usart1.TDR", 65)),
        "usart1: TX: expected PA9 in alternate function 7"),
    # SDMMC, 35.4, 35.8
    "a command without power": (
        (*PORTS, ("sdmmc1.CMD", 1 << 10)), "sdmmc1: CMD: expected PWRCTRL 3 and CLKEN"),
    "a command at once (SD 6.4.1)": (
        (*CARD, ("sdmmc1.CMD", 1 << 10)), "sdmmc1: CMD: expected 74 clocks before the first"),
    "a command while one is under way": (
        (*CARD, ("wait", 1e-3), ("sdmmc1.CMD", 1 << 10), ("sdmmc1.CMD", 1 << 10)),
        "sdmmc1: CMD: expected no command under way"),
    "a long answer awaited for CMD8": (
        (*IDLE_CARD, ("sdmmc1.ARG", 0x1AA), ("sdmmc1.CMD", 1 << 10 | 3 << 6 | 8), ("wait", 1e-3)),
        "sdmmc1: CMD: expected WAITRESP for the short answer to CMD8, got long"),
    "identified at 24 MHz (SD 4.2.1)": (
        (*PORTS, ("sdmmc1.POWER", 3), ("sdmmc1.CLKCR", 1 << 8), ("wait", 1e-3),
         ("sdmmc1.CMD", 1 << 10)),
        "sdmmc1: CLKCR: expected a card clock of at most 400000 Hz"),
    "eight lines": (
        (*CARD, ("sdmmc1.CLKCR", 118 | 1 << 8 | 2 << 11), ("wait", 1e-3),
         ("sdmmc1.CMD", 1 << 10)),
        "sdmmc1: CLKCR: expected WIDBUS 0 or 1"),
    "the data path armed first": (
        (*CARD, ("sdmmc1.DCTRL", 0x93)),
        "sdmmc1: DCTRL: expected DTIMER and DLEN written before DTEN"),
    "half a block": (
        (*DATA, ("sdmmc1.DLEN", 100), ("sdmmc1.DCTRL", 0x93)),
        "sdmmc1: DCTRL: expected DLEN of whole blocks of 512, got 100"),
    "a stream of bytes": (
        (*DATA, ("sdmmc1.DCTRL", 0x97)), "sdmmc1: DCTRL: expected blocks"),
    "a length while data flows": (
        (*DATA, ("sdmmc1.DCTRL", 0x93), ("sdmmc1.DLEN", 1024)),
        "sdmmc1: DLEN: expected no data transfer when it is written"),
    "armed twice": (
        (*DATA, ("sdmmc1.DCTRL", 0x93), ("sdmmc1.DCTRL", 0x93)),
        "sdmmc1: DCTRL: expected no data transfer when DTEN is set"),
    "an empty FIFO read": (
        (*DATA, ("sdmmc1.DCTRL", 0x93), ("sdmmc1.FIFO", None)),
        "sdmmc1: FIFO: expected RXDAVL before a word is read"),
    "a FIFO that receives written": (
        (*DATA, ("sdmmc1.DCTRL", 0x93), ("sdmmc1.FIFO", 1)),
        "sdmmc1: FIFO: expected room in a FIFO that sends"),
    # DMA, 8.3, 8.5
    "a channel of nobody": (
        (*STREAM, ("dma2.S3CR", S3 & ~(7 << 25) | 1)), "dma2 stream 3: CR: expected a channel"),
    "memory to memory": ((*STREAM, ("dma2.S3CR", S3 | 2 << 6 | 1)), "stream 3: CR: expected DIR"),
    "circular with peripheral flow control (8.3.15)": (
        (*STREAM, ("dma2.S3CR", S3 | 1 << 8 | 1)), "stream 3: CR: expected CIRC and DBM clear"),
    "a FIFO that is stepped through": (
        (*STREAM, ("dma2.S3CR", S3 | 1 << 9 | 1)), "stream 3: CR: expected MINC alone"),
    "another peripheral's address": (
        (*STREAM, ("dma2.S3PAR", 0x4001_1024), ("dma2.S3CR", S3 | 1)),
        "stream 3: PAR: expected the FIFO of sdmmc1"),
    "halfwords from a FIFO of words": (
        (*STREAM, ("dma2.S3CR", S3 & ~(3 << 11) | 1 << 11 | 1)), "stream 3: CR: expected PSIZE 2"),
    "memory off its words (8.3.8)": (
        (*STREAM, ("dma2.S3M0AR", SRAM1 + 2), ("dma2.S3CR", S3 | 1)),
        "stream 3: M0AR: expected a multiple of 4"),
    "half a burst in the FIFO (table 31)": (
        (*STREAM, ("dma2.S3FCR", 5), ("dma2.S3CR", S3 | 1)),
        "stream 3: FCR: expected a threshold of whole bursts of 16 bytes, got 8"),
    "bursts without a FIFO": (
        (*STREAM, ("dma2.S3FCR", 0), ("dma2.S3CR", S3 | 1)),
        "stream 3: CR: expected single transfers"),
    "no count": (
        (*STREAM, ("dma2.S3CR", S3 & ~(1 << 5) | 1)), "stream 3: NDTR: expected a count"),
    "changed while on (8.5.5)": (
        (*STREAM, ("dma2.S3CR", S3 | 1), ("dma2.S3M0AR", SRAM1 + 32)),
        "dma2: S3M0AR: expected a write with EN 0"),
    "old flags (8.3.17)": (
        (*STREAM, ("dma2.S3CR", S3 | 1), ("dma2.S3CR", S3), ("dma2.S3CR", S3 | 1)),
        "dma2: S3CR: expected the stream's flags clear before EN, got 0x20"),
    # core, PM0253 4
    "SysTick from outside (PM 4.4.1)": (
        (("scs.SYST_CSR", 1),), "systick: SYST_CSR: expected CLKSOURCE 1"),
    "data cache on with chance in it (PM 4.8)": (
        (("scs.CCR", 1 << 16),), "scs: CCR: expected all 128 lines invalidated"),
    "cleaned by set and way": ((("scs.DCCSW", 0),), "scs: DCCSW: expected maintenance by address"),
    "vectors off their size (PM 4.3.4)": ((("scs.VTOR", 0x100),), "scs: VTOR: expected a multiple"),
    "an MPU region off its size (PM 4.6.7)": (
        (("scs.MPU_RBAR", 0x2000_0020), ("scs.MPU_RASR", 7 << 1 | 1)),
        "scs: MPU_RASR: expected a base that is a multiple of the size 256"),
    "PendSV": ((("scs.ICSR", 1 << 28),), "scs: ICSR: expected no PendSV"),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_a_wrong_use_is_told_by_name(name: str) -> None:
    script, text = RULES[name]
    board = Bare()
    board.run(script[:-1])  # all before the last step is right, or the fault is another's
    with pytest.raises(MachineFault, match=text):
        board.run((script[-1], ("wait", 1e-3)))


def test_the_scripts_that_the_rules_start_from_are_right() -> None:
    for script in (CARD, IDLE_CARD, DATA, CONSOLE, (*STREAM, ("dma2.S3CR", S3 | 1))):
        Bare().run(script)


def test_the_clock_tree_gives_what_the_factors_say() -> None:
    board = Bare()
    board.run(FAST)
    rcc = board.machine.rcc
    assert (rcc.hclk(), rcc.pclk1(), rcc.pclk2()) == (216_000_000, 54_000_000, 108_000_000)
    assert rcc.clock48() == 48_000_000


#: register, bit of the switch, bit of what follows it, longest time in seconds (DS10916)
READY = {
    "HSE": (HSE[:1], "rcc.CR", 17, 2e-3),
    "PLL": (PLL[:-1], "rcc.CR", 25, 300e-6),
    "over-drive": ((*PLL, *OVERDRIVE[:1]), "pwr.CSR1", 16, 100e-6),
}


@pytest.mark.parametrize("name", READY)
def test_ready_follows_its_switch_after_a_while(name: str) -> None:
    script, register, bit, most_s = READY[name]
    board = Bare()
    board.run(script)
    assert board.run(((register, None),))[0] >> bit & 1 == 0
    assert board.run((("wait", 2 * most_s), (register, None)))[0] >> bit & 1 == 1


@pytest.mark.parametrize(
    ("mhz", "states"),
    [
        (30, 0),
        (31, 1),
        (60, 1),
        (90, 2),
        (120, 3),
        (150, 4),
        (180, 5),
        (210, 6),
        (211, 7),
        (216, 7),
    ],
)
def test_wait_states_by_frequency(mhz: int, states: int) -> None:
    """RM0385 table 5, 2.7 to 3.6 V."""
    flash = Flash()
    flash.values[0] = states
    flash.check(mhz * 1_000_000)
    flash.values[0] = states - 1
    if states:
        with pytest.raises(MachineFault, match=f"expected {states} wait states or more"):
            flash.check(mhz * 1_000_000)


def test_pins_after_reset_and_by_bits() -> None:
    """6.4: the debugger's pins; BSRR sets by its low half and resets by its high one."""
    board = Bare()
    board.run((("rcc.AHB1ENR", 7),))
    assert board.run((("gpioa.MODER", None), ("gpiob.MODER", None))) == [0xA800_0000, 0x280]
    script: Script = (
        ("gpioc.ODR", 0x00F0), ("gpioc.BSRR", 0x0010_0001), ("gpioc.ODR", None),
        ("gpioc.BSRR", 0x0001_0001), ("gpioc.ODR", None),
    )  # fmt: skip
    assert board.run(script) == [0x00E1, 0x00E1]


def test_a_byte_that_nobody_takes_is_overrun() -> None:
    board = Bare()
    board.run((*CONSOLE, ("usart1.BRR", 938), ("usart1.CR1", 0xD)))
    board.machine.usart._line.coming = b"ab"
    board.machine.usart.poll()
    (state,) = board.run((("wait", 1e-3), ("usart1.ISR", None)))
    assert state & (1 << 5 | 1 << 3) == 1 << 5 | 1 << 3
    read = board.run((("usart1.RDR", None), ("usart1.ICR", 1 << 3), ("usart1.ISR", None)))
    assert read[0] == ord("a")
    assert read[1] & (1 << 5 | 1 << 3) == 0


def test_an_answer_reaches_its_registers() -> None:
    """CMD8 comes back in RESP1 and RESPCMD; ICR takes CMDREND away."""
    board = Bare()
    script: Script = (
        *IDLE_CARD, ("sdmmc1.ICR", 0x7FF), ("sdmmc1.ARG", 0x1AA),
        ("sdmmc1.CMD", 1 << 10 | 1 << 6 | 8), ("wait", 1e-3), ("sdmmc1.STA", None),
        ("sdmmc1.RESP1", None), ("sdmmc1.RESPCMD", None), ("sdmmc1.ICR", 1 << 6),
        ("sdmmc1.STA", None),
    )  # fmt: skip
    state, answer, index, cleared = board.run(script)
    assert (state >> 6 & 1, answer, index, cleared >> 6 & 1) == (1, 0x1AA, 8, 0)


def test_a_command_that_nobody_knows_times_out() -> None:
    board = Bare()
    script: Script = (
        *IDLE_CARD, ("sdmmc1.CMD", 1 << 10 | 1 << 6 | 5), ("wait", 1e-3), ("sdmmc1.STA", None),
    )  # fmt: skip
    assert board.run(script)[0] & 0x7FF == 1 << 2 | 1 << 7  # CTIMEOUT; CMD0's CMDSENT stands


def test_the_cycle_counter_needs_its_keys() -> None:
    """TRCENA and, on this core, LAR: without one of them it stays at 0."""
    for keys in ((), (("scs.DEMCR", 1 << 24),), (("dwt.LAR", 0xC5AC_CE55),)):
        board = Bare()
        assert board.run((*keys, ("dwt.CTRL", 1), ("wait", 1e-4), ("dwt.CYCCNT", None))) == [0]
    board = Bare()
    both: Script = (("scs.DEMCR", 1 << 24), ("dwt.LAR", 0xC5AC_CE55), ("dwt.CTRL", 1))
    assert board.run((*both, ("wait", 1e-4), ("dwt.CYCCNT", None))) == [1600]


def test_systick_counts_down_and_wraps() -> None:
    """PM 4.4: COUNTFLAG rises at a wrap and falls when it is read."""
    board = Bare()
    script: Script = (
        ("scs.SYST_RVR", 1599), ("scs.SYST_CVR", 0), ("scs.SYST_CSR", 5), ("wait", 50e-6),
        ("scs.SYST_CVR", None), ("scs.SYST_CSR", None), ("wait", 60e-6), ("scs.SYST_CSR", None),
        ("scs.SYST_CSR", None),
    )  # fmt: skip
    value, before, after, again = board.run(script)
    assert abs(value - 800) <= 1
    assert [word >> 16 & 1 for word in (before, after, again)] == [0, 1, 0]


def test_the_mpu_forbids_its_regions_but_for_disabled_parts() -> None:
    """PM 4.6.8: AP 0 is no access; of eight parts those whose SRD bit is set are left out."""
    board = Bare()
    scs = board.peripherals["scs"]
    region: Script = (
        ("scs.MPU_RNR", 0), ("scs.MPU_RBAR", 0x2000_0000), ("scs.MPU_RASR", 0xFE << 8 | 7 << 1 | 1),
    )  # fmt: skip
    board.run(region)
    assert scs.forbidden() == []
    board.run((("scs.MPU_CTRL", 5),))
    assert scs.forbidden() == [(0x2000_0000, 0x2000_001F)]


def test_registers_that_are_not_there() -> None:
    board = Bare()
    with pytest.raises(MachineFault, match=re.escape("rcc: expected one of its registers")):
        board.machine.bus.read(board.peripherals["rcc"].base + 0x1C, 4)
    with pytest.raises(MachineFault, match="expected a word access, got 1 bytes"):
        board.machine.bus.write(board.peripherals["rcc"].base, 1, 0)
