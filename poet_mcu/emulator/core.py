"""The Cortex-M7: unicorn's instructions in quanta, exceptions, sleep, faults of the memory map."""

from __future__ import annotations

import ctypes
import re
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from unicorn import (
    UC_ARCH_ARM,
    UC_HOOK_CODE,
    UC_HOOK_INTR,
    UC_HOOK_MEM_INVALID,
    UC_MODE_MCLASS,
    UC_MODE_THUMB,
    UC_PROT_ALL,
    UC_PROT_EXEC,
    UC_PROT_READ,
    Uc,
    UcError,
)
from unicorn.arm_const import UC_ARM_REG_PC, UC_ARM_REG_SP, UC_CPU_ARM_CORTEX_M7
from unicorn.unicorn_const import (
    UC_ERR_INSN_INVALID,
    UC_MEM_FETCH_UNMAPPED,
    UC_MEM_WRITE_PROT,
    UC_MEM_WRITE_UNMAPPED,
)

from poet_mcu.emulator.agenda import Agenda
from poet_mcu.emulator.exceptions import Exceptions
from poet_mcu.emulator.fault import MachineFault
from poet_mcu.emulator.memory import DTCM, FLASH, FLASH_ITCM, ITCM, SRAM1, SRAM2, Region
from poet_mcu.emulator.ppb import Scs
from poet_mcu.emulator.registers import Bus

#: instructions from one look at time and interrupts to the next: both are late by this at most
QUANTUM = 256
_NOWHERE = 0xFFFF_FFE0  # an address that is never reached
_EXCEPTION_RETURN = 8  # unicorn's number for a branch to EXC_RETURN
_WFI = re.compile(rb"\x30\xbf")
_WINDOWS = ((0x4000_0000, 0x0008_0000), (0xE000_0000, 0x0010_0000))
#: instructions that an exception may wait for PRIMASK one by one
_MASKED_STEPS = 512
#: how long the host is waited for at a time
_IDLE_S = 0.05
_FORCED = 1 << 30
#: of CFSR: instruction, precise data, address valid, MPU, undefined
_IBUSERR, _PRECISERR, _BFARVALID, _UNDEFINSTR = 1 << 8, 1 << 9, 1 << 15, 1 << 16
_IACCVIOL, _DACCVIOL, _MMARVALID = 1 << 0, 1 << 1, 1 << 7


def new_cpu(firmware: bytes) -> tuple[Uc, ctypes.Array[ctypes.c_char]]:
    """unicorn's core with the memory map and ``firmware`` in flash; keep the second alive."""
    if len(firmware) > FLASH.size:
        raise MachineFault(f"flash: expected at most {FLASH.size} bytes, got {len(firmware)}")
    uc = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
    uc.ctl_set_cpu_model(UC_CPU_ARM_CORTEX_M7)
    image = ctypes.create_string_buffer(firmware.ljust(FLASH.size, b"\xff"), FLASH.size)
    for alias in (FLASH, FLASH_ITCM):
        uc.mem_map_ptr(
            alias.start, alias.size, UC_PROT_READ | UC_PROT_EXEC, ctypes.addressof(image)
        )
    for ram in (ITCM, DTCM, SRAM1, SRAM2):
        uc.mem_map(ram.start, ram.size, UC_PROT_ALL)
    return uc, image


@dataclass(slots=True)
class _Stop:
    """Why the quantum ended early."""

    fault: Exception | None = None
    returned: bool = False
    slept_at: int | None = None
    interrupt: int = 0
    address: int = 0
    kind: int = 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the core needs of the machine around it.

    ``take_fault``: what memory has found since the last call. ``complain``: a text for people.
    ``wait_for_host``: seconds at most. ``seconds`` of cycles of HCLK, and ``cycles`` of seconds.
    """

    take_fault: Callable[[], Exception | None]
    complain: Callable[[str], None]
    wait_for_host: Callable[[float], None]
    seconds: Callable[[int], float]
    cycles: Callable[[float], float]


class Core:
    """Runs until something raises; time passes in ``agenda``."""

    def __init__(
        self,
        uc: Uc,
        agenda: Agenda,
        bus: Bus,
        exceptions: Exceptions,
        scs: Scs,
        around: Surroundings,
    ) -> None:
        self._uc = uc
        self._agenda = agenda
        self._bus = bus
        self._exceptions = exceptions
        self._scs = scs
        self._around = around
        self._stop = _Stop()
        self._masked = 0
        for start, size in _WINDOWS:
            uc.mmio_map(start, size, self._load, start, self._store, start)
        uc.hook_add(UC_HOOK_INTR, self._interrupted)
        uc.hook_add(UC_HOOK_MEM_INVALID, self._invalid)
        self._watch_sleep(FLASH)

    def reset(self) -> None:
        """Stack pointer and program counter from the vector table of flash."""
        stack, start = struct.unpack("<II", self._uc.mem_read(FLASH.start, 8))
        self._uc.reg_write(UC_ARM_REG_SP, stack)
        self._uc.reg_write(UC_ARM_REG_PC, start & ~1)

    @property
    def pc(self) -> int:
        """The program counter between two quanta."""
        return int(self._uc.reg_read(UC_ARM_REG_PC))

    def step(self) -> None:
        """One quantum, one exception, or one sleep."""
        if self._exceptions.take():
            return
        left = self._quantum()
        self._agenda.begin(left)
        self._stop = stop = _Stop()
        error: UcError | None = None
        try:
            self._uc.emu_start(self.pc | 1, _NOWHERE, count=left)
        except UcError as raised:
            error = raised
        found = stop.fault or self._around.take_fault()
        if found is not None:
            raise found
        if error is not None:
            self._fail(error, stop)
        elif stop.returned:
            self._exceptions.leave()
        elif stop.interrupt:
            raise MachineFault(
                f"core: {self.pc:#010x}: expected no SVC or BKPT, got exception {stop.interrupt}"
            )
        self._agenda.finish()
        if stop.slept_at is not None:
            self._uc.reg_write(UC_ARM_REG_PC, stop.slept_at + 2)  # unicorn stays at a hooked WFI
            self._sleep()

    def _quantum(self) -> int:
        """How many instructions to run: one by one while an exception waits for PRIMASK to fall.

        Else a mask that is lifted for a few instructions would never be seen lifted. A firmware
        that stays masked is run on at full speed.
        """
        self._masked = self._masked + 1 if self._exceptions.waiting() else 0
        if 0 < self._masked <= _MASKED_STEPS:
            return 1
        due = self._agenda.next_due()
        return QUANTUM if due is None else max(1, min(QUANTUM, due - self._agenda.now))

    def _sleep(self) -> None:
        """WFI: time passes to what is due, or the host is waited for when nothing else is."""
        if not self._exceptions.can_ever_wake():
            raise MachineFault(
                f"core: {self.pc:#010x}: expected to be woken, got WFI with every interrupt off: "
                "the firmware has stopped itself; what it wrote to the console says why"
            )
        while not self._exceptions.wakes():
            due = self._agenda.next_due()
            if self._agenda.idle:
                due = self._idle(due)
            if due is None:
                raise MachineFault("core: expected to be woken from WFI, got nothing that could")
            self._agenda.move_to(due)

    def _idle(self, due: int | None) -> int:
        """Nothing is under way: wait for the host, no longer than time as it passes has until due.

        Returned: the moment that it is now.
        """
        left = _IDLE_S if due is None else self._around.seconds(due - self._agenda.now)
        began = time.monotonic()
        self._around.wait_for_host(min(_IDLE_S, left))
        passed = round(self._around.cycles(time.monotonic() - began))
        first = self._agenda.next_due()  # the host's first byte, if it sent something
        moment = self._agenda.now + max(1, passed)
        return moment if first is None else min(moment, first)

    def _fail(self, error: UcError, stop: _Stop) -> None:
        """An instruction failed: the core takes a hard fault, as no other is enabled."""
        at = self.pc
        if error.errno == UC_ERR_INSN_INVALID:
            cause, text = _UNDEFINSTR, "expected an instruction of this core, got another"
        else:
            cause, text = self._cause(stop)
        self._around.complain(f"core: {at:#010x}: {text}")
        self._scs.values[0xD28] |= cause
        self._scs.values[0xD2C] |= _FORCED
        self._scs.values[0xD38 if cause & _BFARVALID else 0xD34] = stop.address
        self._exceptions.hard_fault()

    def _cause(self, stop: _Stop) -> tuple[int, str]:
        fetch = stop.kind == UC_MEM_FETCH_UNMAPPED
        write = stop.kind in {UC_MEM_WRITE_UNMAPPED, UC_MEM_WRITE_PROT}
        what = "a fetch from" if fetch else "a write to" if write else "a read of"
        where = "where there is no memory"
        if any(first <= stop.address <= last for first, last in self._scs.forbidden()):
            cause = _IACCVIOL if fetch else _DACCVIOL | _MMARVALID
            where = "which the MPU forbids"
        else:
            cause = _IBUSERR if fetch else _PRECISERR | _BFARVALID
        if stop.kind == UC_MEM_WRITE_PROT:
            where = "which is flash"
        return cause, f"expected memory or a peripheral, got {what} {stop.address:#010x}, {where}"

    def _load(self, uc: Uc, offset: int, size: int, start: int) -> int:
        self._agenda.touch()
        try:
            return self._bus.read(start + offset, size)
        except Exception as fault:  # noqa: BLE001 - unicorn's C cannot pass it on; step() does
            self._halt(fault)
            return 0

    def _store(self, uc: Uc, offset: int, size: int, value: int, start: int) -> None:
        self._agenda.touch()
        try:
            self._bus.write(start + offset, size, value)
        except Exception as fault:  # noqa: BLE001 - unicorn's C cannot pass it on; step() does
            self._halt(fault)

    def _halt(self, fault: Exception) -> None:
        if self._stop.fault is None:
            self._stop.fault = fault
        self._uc.emu_stop()

    def _interrupted(self, uc: Uc, number: int, data: object) -> None:
        if number == _EXCEPTION_RETURN:
            self._stop.returned = True
        else:
            self._stop.interrupt = number
        uc.emu_stop()

    def _invalid(
        self, uc: Uc, kind: int, address: int, size: int, value: int, data: object
    ) -> bool:
        self._stop.kind, self._stop.address = kind, address
        return False

    def _watch_sleep(self, region: Region) -> None:
        """Every WFI stops the quantum; a constant that looks like one is never executed."""
        for found in _WFI.finditer(bytes(self._uc.mem_read(region.start, region.size))):
            if found.start() % 2 == 0:
                at = region.start + found.start()
                self._uc.hook_add(UC_HOOK_CODE, self._sleeping, None, at, at)

    def _sleeping(self, uc: Uc, address: int, size: int, data: object) -> None:
        self._stop.slept_at = address
