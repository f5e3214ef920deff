"""Private peripheral bus of the Cortex-M7 (PM0253 4): SCB, NVIC, SysTick, MPU, caches, DWT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from poet_mcu.emulator.agenda import Agenda
from poet_mcu.emulator.exceptions import SYSTICK, Exceptions
from poet_mcu.emulator.fault import MachineFault
from poet_mcu.emulator.memory import FLASH_ITCM, Memory
from poet_mcu.emulator.registers import Peripheral

_SETS, _WAYS = 32, 4  # 4 KiB of 32-byte lines (DS10916 3.3)
_CCSIDR = (_SETS - 1) << 13 | (_WAYS - 1) << 3 | 1
_DWT_KEY = 0xC5AC_CE55
_AIRCR_KEY = 0x05FA
_MASK24 = 0xFF_FFFF

_READ_ONLY = {0x004, 0xD00, 0xD78, 0xD7C, 0xD80, 0xD90, 0xF40, 0xF44}

CTRL, CYCCNT, LAR, LSR = 0x000, 0x004, 0xFB0, 0xFB4


class Dwt(Peripheral):
    """The cycle counter. This core ignores writes until LAR has been given its key."""

    name = "dwt"
    base = 0xE000_1000
    size = 0x1000
    names: ClassVar = {CTRL: "CTRL", CYCCNT: "CYCCNT", LAR: "LAR", LSR: "LSR"}
    reset_values: ClassVar = {CTRL: 0x4000_0000}

    def __init__(self, agenda: Agenda, traced: Callable[[], bool]) -> None:
        super().__init__()
        self._agenda = agenda
        self._traced = traced
        self._zero = 0
        self._locked = True

    def read(self, offset: int) -> int:
        if offset == CYCCNT and self.values[CTRL] & 1:
            return (self._agenda.now - self._zero) & 0xFFFF_FFFF
        if offset == LSR:
            return 1 | self._locked << 1
        return 0 if offset == LAR else self.values[offset]

    def write(self, offset: int, value: int) -> None:
        if offset == LAR:
            self._locked = value != _DWT_KEY
            return
        if self._locked or not self._traced():
            return
        counted = self.read(CYCCNT)
        self.values[offset] = value
        if offset == CTRL:
            self.values[CYCCNT] = counted
        self._zero = self._agenda.now - self.values[CYCCNT]


class Scs(Peripheral):
    """System control space at 0xE000E000: SysTick, NVIC, SCB, MPU, cache maintenance."""

    name = "scs"
    base = 0xE000_E000
    size = 0x1000
    narrow = True
    names: ClassVar = {
        0x004: "ICTR", 0x008: "ACTLR",
        0x010: "SYST_CSR", 0x014: "SYST_RVR", 0x018: "SYST_CVR", 0x01C: "SYST_CALIB",
        **{at + 4 * n: f"{name}{n}" for at, name in (
            (0x100, "ISER"), (0x180, "ICER"), (0x200, "ISPR"), (0x280, "ICPR"), (0x300, "IABR")
        ) for n in range(8)},
        **{0x400 + 4 * n: f"IPR{n}" for n in range(60)},
        0xD00: "CPUID", 0xD04: "ICSR", 0xD08: "VTOR", 0xD0C: "AIRCR", 0xD10: "SCR", 0xD14: "CCR",
        0xD18: "SHPR1", 0xD1C: "SHPR2", 0xD20: "SHPR3", 0xD24: "SHCSR", 0xD28: "CFSR",
        0xD2C: "HFSR", 0xD34: "MMFAR", 0xD38: "BFAR", 0xD3C: "AFSR",
        0xD78: "CLIDR", 0xD7C: "CTR", 0xD80: "CCSIDR", 0xD84: "CSSELR", 0xD88: "CPACR",
        0xD90: "MPU_TYPE", 0xD94: "MPU_CTRL", 0xD98: "MPU_RNR", 0xD9C: "MPU_RBAR",
        0xDA0: "MPU_RASR", 0xDFC: "DEMCR",
        0xF34: "FPCCR", 0xF38: "FPCAR", 0xF3C: "FPDSCR", 0xF40: "MVFR0", 0xF44: "MVFR1",
        0xF50: "ICIALLU", 0xF58: "ICIMVAU", 0xF5C: "DCIMVAC", 0xF60: "DCISW", 0xF64: "DCCMVAU",
        0xF68: "DCCMVAC", 0xF6C: "DCCSW", 0xF70: "DCCIMVAC", 0xF74: "DCCISW",
    }  # fmt: skip
    reset_values: ClassVar = {
        0xD00: 0x410F_C271, 0xD0C: 0xFA05_0000, 0xD14: 0x0004_0200, 0xD78: 0x0900_0003,
        0xD7C: 0x8303_C003, 0xD90: 0x0000_0800, 0xF34: 0xC000_0000, 0xF40: 0x1011_0021,
        0xF44: 0x1100_0011, 0xD08: FLASH_ITCM.start,
    }  # fmt: skip

    def __init__(self, agenda: Agenda, exceptions: Exceptions, memory: Memory) -> None:
        super().__init__()
        self._exceptions = exceptions
        self._memory = memory
        self._systick = Systick(agenda, exceptions)
        self._dropped: set[int] = set()
        self._mpu: dict[int, tuple[int, int]] = {}
        self.on_reset: Callable[[], None] = _nothing
        exceptions.vectors = lambda: self.values[0xD08]
        exceptions.priority_byte = self._priority

    @property
    def tracing(self) -> bool:
        """DEMCR.TRCENA: without it DWT's registers cannot be written."""
        return bool(self.field(0xDFC, 24))

    @property
    def fpu_on(self) -> bool:
        """CPACR gives full access to CP10 and CP11."""
        return self.field(0xD88, 20, 4) == 0xF

    def read(self, offset: int) -> int:
        if 0x010 <= offset < 0x020:
            return self._systick.read(offset)
        if 0x100 <= offset < 0x340:
            return self._exceptions.bits(offset & 0x380, offset >> 2 & 7)
        if offset == 0xD04:
            return self._exceptions.state()
        if offset == 0xD80:
            return _CCSIDR if not self.values[0xD84] & 1 else 127 << 13 | 1 << 3 | 1
        if offset in {0xD9C, 0xDA0}:
            return self._mpu.get(self.values[0xD98], (0, 0))[offset == 0xDA0]
        return self.values[offset]

    def write(self, offset: int, value: int) -> None:
        if 0x010 <= offset < 0x020:
            self._systick.write(offset, value)
        elif 0x100 <= offset < 0x300:
            self._exceptions.set_bits(offset & 0x380, offset >> 2 & 7, value)
        elif 0xF50 <= offset <= 0xF74:
            self._maintain(offset, value)
        elif offset in self._special:
            self._special[offset](self, value)
        elif offset not in _READ_ONLY:
            self.values[offset] = value

    def _priority(self, number: int) -> int:
        """The priority of an exception, 4 bits in 7..4 (PM0253 2.3.5)."""
        if number >= 16:
            return self.field(0x400 + (number - 16) // 4 * 4, number % 4 * 8, 8) & 0xF0
        return self.field(0xD18 + (number - 4) // 4 * 4, number % 4 * 8, 8) & 0xF0

    def _write_state(self, value: int) -> None:
        if value & 1 << 26:
            self._exceptions.pend(SYSTICK)
        if value & 1 << 25:
            self._exceptions.unpend(SYSTICK)
        if value & 1 << 28:
            raise self.fault(0xD04, "expected no PendSV, got one set; it is not modelled")

    def _write_reset(self, value: int) -> None:
        if value >> 16 != _AIRCR_KEY:
            return
        if value & 1 << 2:
            self.on_reset()
        self.values[0xD0C] = 0xFA05_0000 | value & 0x700

    def _write_control(self, value: int) -> None:
        enabled = value & 1 << 16
        was = self.values[0xD14] & 1 << 16
        self.values[0xD14] = value
        if enabled and not was:
            if len(self._dropped) < _SETS * _WAYS:
                raise self.fault(
                    0xD14,
                    f"expected all {_SETS * _WAYS} lines invalidated by DCISW before DC is set, "
                    f"got {len(self._dropped)}; they hold chance after a reset",
                )
            self._memory.enable_cache()
        if was and not enabled:
            self._dropped.clear()
            self._memory.disable_cache()

    def _write_causes(self, value: int) -> None:
        self.values[0xD28] &= ~value

    def _write_hard_cause(self, value: int) -> None:
        self.values[0xD2C] &= ~value

    def _write_vectors(self, value: int) -> None:
        if value & 0x1FF:  # 16 + 98 vectors, rounded up to a power of two words
            raise self.fault(0xD08, f"expected a multiple of 512, got {value:#010x}")
        self.values[0xD08] = value

    def _write_base(self, value: int) -> None:
        if value & 1 << 4:
            self.values[0xD98] = value & 0xF
        region = self.values[0xD98]
        self._mpu[region] = value & ~0x1F | region, self._mpu.get(region, (0, 0))[1]

    def _write_attributes(self, value: int) -> None:
        region = self.values[0xD98]
        base = self._mpu.get(region, (region, 0))[0]
        size = 2 << (value >> 1 & 0x1F)
        if value & 1 and (size < 32 or base & ~0x1F & (size - 1)):
            raise self.fault(
                0xDA0, f"expected a base that is a multiple of the size {size}, got {base:#010x}"
            )
        self._mpu[region] = base, value

    def _maintain(self, offset: int, value: int) -> None:
        name = self.names[offset]
        if name == "DCISW":
            if self.values[0xD14] & 1 << 16:
                raise self.fault(
                    offset, "expected it with the data cache off, got it on: dirty lines would go"
                )
            self._dropped.add((value >> 30) * _SETS + (value >> 5) % _SETS)
        elif name in {"DCCSW", "DCCISW"}:
            raise self.fault(offset, "expected maintenance by address, got by set and way")
        if name in {"DCCMVAC", "DCCIMVAC", "DCCMVAU"}:
            self._memory.clean(value)
        if name in {"DCIMVAC", "DCCIMVAC"}:
            self._memory.invalidate(value)

    def forbidden(self) -> list[tuple[int, int]]:
        """Ranges [first, last] to which the MPU gives no access, largest number last."""
        if not self.values[0xD94] & 1:
            return []
        found = []
        for region in sorted(self._mpu):
            base, attributes = self._mpu[region]
            if attributes & 1 and not attributes >> 24 & 7:
                size = 2 << (attributes >> 1 & 0x1F)
                part = size // 8
                found += [
                    ((base & ~0x1F) + n * part, (base & ~0x1F) + (n + 1) * part - 1)
                    for n in range(8)
                    if not attributes >> 8 + n & 1
                ]
        return found

    _special: ClassVar[Mapping[int, Callable[[Scs, int], None]]] = {
        0xD04: _write_state,
        0xD08: _write_vectors,
        0xD0C: _write_reset,
        0xD14: _write_control,
        0xD28: _write_causes,
        0xD2C: _write_hard_cause,
        0xD9C: _write_base,
        0xDA0: _write_attributes,
    }


class Systick:
    """A 24-bit counter of the core's clock (PM0253 4.4); it counts down by the agenda's time."""

    def __init__(self, agenda: Agenda, exceptions: Exceptions) -> None:
        self._agenda = agenda
        self._exceptions = exceptions
        self._control = 0
        self._reload = 0
        self._began = 0  # when the counter last stood at its reload value
        self._generation = 0
        self._wrapped = False

    def read(self, offset: int) -> int:
        """CSR, RVR, CVR or CALIB."""
        if offset == 0x010:
            wrapped, self._wrapped = self._wrapped, False
            return self._control | wrapped << 16
        if offset == 0x014:
            return self._reload
        if offset == 0x018:
            return self._value()
        return 0x4000_0000 | 0x4650

    def write(self, offset: int, value: int) -> None:
        """The same; a write of CVR clears the counter."""
        if offset == 0x010:
            if value & 1 and not value & 4:
                raise MachineFault(
                    "systick: SYST_CSR: expected CLKSOURCE 1, the core's clock, got 0; "
                    "the external one is not modelled"
                )
            started = value & 1 and not self._control & 1
            self._control = value & 7
            if started:
                self._restart()
        elif offset == 0x014:
            self._reload = value & _MASK24
        elif offset == 0x018:
            self._wrapped = False
            self._restart()

    def _value(self) -> int:
        if not self._control & 1 or not self._reload:
            return 0
        return self._reload - (self._agenda.now - self._began) % (self._reload + 1)

    def _restart(self) -> None:
        """From 0 the counter goes to its reload value at the next tick."""
        self._began = self._agenda.now + 1
        self._generation += 1
        self._plan(self._generation, self._reload + 1)

    def _plan(self, generation: int, cycles: int) -> None:
        def tick() -> None:
            if generation != self._generation or not self._control & 1:
                return
            self._wrapped = True
            if self._control & 2:
                self._exceptions.pend(SYSTICK)
            self._plan(generation, self._reload + 1)

        if self._control & 1 and self._reload:
            self._agenda.after(cycles, tick, idle=True)


def _nothing() -> None:
    """No reaction."""
