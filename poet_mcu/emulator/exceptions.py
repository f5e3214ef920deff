"""Exceptions of an Armv7-M core (PM0253 2.3, Armv7-M ARM B1.5): pending, priority, entry, return.

unicorn runs the instructions and stops at an EXC_RETURN; everything about exceptions is here. All
exceptions in use run on the main stack. The frame always has the FPU's registers once CPACR gives
access to them: a core that stacks lazily reserves the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from unicorn import Uc, UcError
from unicorn.arm_const import (
    UC_ARM_REG_BASEPRI,
    UC_ARM_REG_CONTROL,
    UC_ARM_REG_FAULTMASK,
    UC_ARM_REG_FPSCR,
    UC_ARM_REG_LR,
    UC_ARM_REG_PC,
    UC_ARM_REG_PRIMASK,
    UC_ARM_REG_R0,
    UC_ARM_REG_R1,
    UC_ARM_REG_R2,
    UC_ARM_REG_R3,
    UC_ARM_REG_R12,
    UC_ARM_REG_S0,
    UC_ARM_REG_SP,
    UC_ARM_REG_XPSR,
)

from poet_mcu.emulator.fault import MachineFault

NMI, HARD_FAULT, SYSTICK, IRQ0 = 2, 3, 15, 16
_BASIC = (
    UC_ARM_REG_R0, UC_ARM_REG_R1, UC_ARM_REG_R2, UC_ARM_REG_R3, UC_ARM_REG_R12, UC_ARM_REG_LR,
    UC_ARM_REG_PC, UC_ARM_REG_XPSR,
)  # fmt: skip
_FLOATS = (*(UC_ARM_REG_S0 + n for n in range(16)), UC_ARM_REG_FPSCR)
_BASIC_BYTES, _FULL_BYTES = 32, 104
_ALIGNED = 1 << 9  # of the stacked xPSR: a word was left out to align the stack
_THUMB = 1 << 24
_RETURN_HANDLER, _RETURN_THREAD = 0xFFFF_FFF1, 0xFFFF_FFF9
_STANDARD_FRAME = 1 << 4
_LOWEST = 256


class Exceptions:
    """State of every exception. Sources either pend one for once or hold an interrupt's line."""

    def __init__(self, uc: Uc, fpu_on: Callable[[], bool]) -> None:
        self._uc = uc
        self._fpu_on = fpu_on
        self._pending: set[int] = set()
        self._enabled: set[int] = set()
        self._active: list[int] = []
        self._watched: tuple[int, ...] = ()
        self._lines: dict[int, Callable[[], bool]] = {}
        self.vectors: Callable[[], int] = lambda: 0
        self.priority_byte: Callable[[int], int] = _highest

    def connect(self, irq: int, line: Callable[[], bool]) -> None:
        """``line`` says whether the peripheral asks for interrupt ``irq`` now."""
        self._lines[IRQ0 + irq] = line

    def pend(self, number: int) -> None:
        """Exception ``number`` is pending."""
        self._pending.add(number)

    def unpend(self, number: int) -> None:
        """It is not any more."""
        self._pending.discard(number)

    def bits(self, bank: int, word: int) -> int:
        """NVIC's ISER, ICER, ISPR, ICPR or IABR: 32 interrupts from ``word`` * 32."""
        self._sample()
        which = {0x100: self._enabled, 0x180: self._enabled, 0x300: set(self._active)}
        numbers = which.get(bank, self._pending)
        first = IRQ0 + 32 * word
        return sum(1 << n for n in range(32) if first + n in numbers)

    def set_bits(self, bank: int, word: int, value: int) -> None:
        """Write one of the first four."""
        numbers = {IRQ0 + 32 * word + n for n in range(32) if value >> n & 1}
        if bank in {0x100, 0x180}:
            self._enabled = self._enabled | numbers if bank == 0x100 else self._enabled - numbers
            self._watched = tuple(sorted(self._enabled & self._lines.keys()))
        elif bank == 0x200:
            self._pending |= numbers
        else:
            self._pending -= numbers

    def state(self) -> int:
        """ICSR."""
        self._sample()
        candidates = [n for n in self._pending if self._can_run(n)]
        first = min(candidates, key=self._rank) if candidates else 0
        others = any(n >= IRQ0 for n in self._pending)
        tick = SYSTICK in self._pending
        active = self._active[-1] if self._active else 0
        return tick << 26 | others << 22 | first << 12 | (len(self._active) < 2) << 11 | active

    def waiting(self) -> bool:
        """Whether something would run now if PRIMASK let it; as ``take`` saw it."""
        return bool(self._pending) and self._urgent()

    def wakes(self) -> bool:
        """Whether a core in WFI goes on: something enabled is pending, PRIMASK aside."""
        self._sample()
        return self._urgent()

    def _urgent(self) -> bool:
        return any(
            self._can_run(n) and self._rank(n)[0] < self._level(False) for n in self._pending
        )

    def can_ever_wake(self) -> bool:
        """Whether interrupts are let through at all, or one is enabled that would end WFI."""
        return not self._uc.reg_read(UC_ARM_REG_PRIMASK) or bool(self._enabled)

    def take(self) -> bool:
        """Enter the most urgent exception that may run now, if any."""
        self._sample()
        if not self._pending:
            return False
        ready = [n for n in self._pending if self._can_run(n)]
        if not ready:
            return False
        number = min(ready, key=self._rank)
        if self._rank(number)[0] >= self._level(True):
            return False
        self._pending.discard(number)
        self._enter(number)
        return True

    def hard_fault(self) -> None:
        """The instruction at PC has failed. Raises MachineFault where a core locks up."""
        if any(n in {NMI, HARD_FAULT} for n in self._active):
            raise MachineFault("core: expected no fault in a fault handler, got one: lockup")
        self._uc.reg_write(UC_ARM_REG_XPSR, self._uc.reg_read(UC_ARM_REG_XPSR) | _THUMB)
        self._enter(HARD_FAULT)

    def leave(self) -> None:
        """EXC_RETURN was branched to: unstack."""
        uc = self._uc
        code = int(uc.reg_read(UC_ARM_REG_PC)) | 1
        full = not code & _STANDARD_FRAME
        kind = code | _STANDARD_FRAME
        if not self._active or kind not in {_RETURN_HANDLER, _RETURN_THREAD}:
            raise MachineFault(
                f"core: EXC_RETURN: expected 0xfffffff9, ...f1, ...e9 or ...e1 from a handler, got "
                f"{code:#010x}"
            )
        if (kind == _RETURN_HANDLER) != (len(self._active) > 1):
            raise MachineFault(f"core: EXC_RETURN: got {code:#010x}, but the nesting is other")
        self._active.pop()
        stack = int(uc.reg_read(UC_ARM_REG_SP))
        words = struct.unpack("<8I", uc.mem_read(stack, _BASIC_BYTES))
        if full:
            floats = struct.unpack("<17I", uc.mem_read(stack + _BASIC_BYTES, 68))
            uc.reg_write_batch(list(zip(_FLOATS, floats, strict=True)))
        uc.reg_write_batch(list(zip(_BASIC, (*words[:7], words[7] & ~_ALIGNED), strict=True)))
        stack += _FULL_BYTES if full else _BASIC_BYTES
        uc.reg_write(UC_ARM_REG_SP, stack + (4 if words[7] & _ALIGNED else 0))

    def _sample(self) -> None:
        """Lines of enabled interrupts; of others nothing is to be seen but in ISPR."""
        for number in self._watched:
            if number not in self._pending and number not in self._active and self._lines[number]():
                self._pending.add(number)

    def _can_run(self, number: int) -> bool:
        return number < IRQ0 or number in self._enabled

    def _rank(self, number: int) -> tuple[int, int]:
        fixed = {NMI: -2, HARD_FAULT: -1}
        return fixed.get(number, self.priority_byte(number) if number > HARD_FAULT else 0), number

    def _level(self, masked: bool) -> int:
        """The priority that something must be more urgent than."""
        level = min((self._rank(n)[0] for n in self._active), default=_LOWEST)
        base = int(self._uc.reg_read(UC_ARM_REG_BASEPRI))
        if base:
            level = min(level, base)
        if masked and self._uc.reg_read(UC_ARM_REG_PRIMASK):
            level = min(level, 0)
        if self._uc.reg_read(UC_ARM_REG_FAULTMASK):
            level = min(level, -1)
        return level

    def _enter(self, number: int) -> None:
        uc = self._uc
        if uc.reg_read(UC_ARM_REG_CONTROL) & 2:
            raise MachineFault("core: CONTROL: expected the main stack, got the process stack")
        full = self._fpu_on()
        before = int(uc.reg_read(UC_ARM_REG_SP))
        stack = (before - (_FULL_BYTES if full else _BASIC_BYTES)) & ~7
        words = list(uc.reg_read_batch(_BASIC))
        words[7] |= _ALIGNED if before & 4 else 0
        frame = struct.pack("<8I", *words)
        if full:
            frame += struct.pack("<18I", *uc.reg_read_batch(_FLOATS), 0)
        try:
            uc.mem_write(stack, frame)
        except UcError as error:
            raise MachineFault(
                f"core: expected room on the stack for exception {number}, got SP {before:#010x}: "
                "lockup; the stack has overflowed"
            ) from error
        code = _RETURN_HANDLER if self._active else _RETURN_THREAD
        self._active.append(number)
        uc.reg_write(UC_ARM_REG_SP, stack)
        uc.reg_write(UC_ARM_REG_LR, code & ~_STANDARD_FRAME if full else code)
        uc.reg_write(UC_ARM_REG_XPSR, words[7] & 0xF800_0000 | _THUMB | number)
        vector = struct.unpack("<I", uc.mem_read(self.vectors() + 4 * number, 4))[0]
        uc.reg_write(UC_ARM_REG_PC, vector & ~1)


def _highest(_: int) -> int:
    """Priorities while nobody says others."""
    return 0
