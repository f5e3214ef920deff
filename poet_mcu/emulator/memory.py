"""RAM as the core sees it and as DMA sees it: the data cache stands between the two.

The cache of the model is the worst one that the architecture allows: it holds every line of the
cacheable RAM from the moment it is enabled and gives none back by itself. What the core writes
stays in the cache until the line is cleaned; what DMA writes stays hidden until the line is
invalidated. Where that can go wrong on a real core, at some size and some moment of an eviction,
it is a fault here, always (PM0253 4.8, AN4839).
"""

from __future__ import annotations

from dataclasses import dataclass

from unicorn import UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE, Uc
from unicorn.unicorn_const import UC_MEM_WRITE

from poet_mcu.emulator.fault import MachineFault

LINE = 32
#: what is watched beyond a stale line: DMA goes on upwards, and setting a hook is slow
_AHEAD = 4096


@dataclass(frozen=True, slots=True)
class Region:
    """A range of addresses [start, start + size) of RAM or flash."""

    name: str
    start: int
    size: int
    cacheable: bool = False
    writable: bool = True

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.start + self.size


#: RM0385 2.2.2; flash also at 0x00200000, through the ITCM bus
FLASH = Region("flash", 0x0800_0000, 1 << 20, writable=False)
FLASH_ITCM = Region("flash (ITCM)", 0x0020_0000, 1 << 20, writable=False)
ITCM = Region("ITCM RAM", 0x0000_0000, 16 << 10)
DTCM = Region("DTCM", 0x2000_0000, 64 << 10)
SRAM1 = Region("SRAM1", 0x2001_0000, 240 << 10, cacheable=True)
SRAM2 = Region("SRAM2", 0x2004_C000, 16 << 10, cacheable=True)
#: what DMA2's memory port reaches (RM0385 2.1: DTCM by way of the core's AHBS)
DMA_REACH = (DTCM, SRAM1, SRAM2, FLASH)
_CACHED = Region("SRAM", SRAM1.start, SRAM1.size + SRAM2.size, cacheable=True)


class Memory:
    """The RAM; ``uc`` holds the core's view, ``_behind`` what lies behind the data cache."""

    def __init__(self, uc: Uc) -> None:
        self._uc = uc
        self._behind = bytearray(_CACHED.size)
        self._cached = False
        self._stale: dict[int, int] = {}  # line -> bytes that DMA wrote and the core not since
        self._written: set[int] = set()  # stale lines that the core has written to
        self._hook: int | None = None
        self._watched = range(0)
        self._fault: MachineFault | None = None
        # An installed hook keeps the translated code on the path where later hooks are seen too.
        uc.hook_add(UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, _never, None, ITCM.start, ITCM.start)

    def enable_cache(self) -> None:
        """From now on the core's view and memory may differ."""
        self._behind[:] = self._uc.mem_read(_CACHED.start, _CACHED.size)
        self._cached = True

    def disable_cache(self) -> None:
        """Raises MachineFault when that would lose what was not cleaned."""
        for line in range(_CACHED.start, _CACHED.end, LINE):
            if self._dirty(line):
                raise MachineFault(
                    f"d-cache: CCR: expected a clean cache when it is disabled, got line "
                    f"{line:#010x} dirty; clean it first"
                )
        self._cached = False

    def clean(self, address: int) -> None:
        """The line at ``address`` goes to memory."""
        line = address & ~(LINE - 1)
        if not self._holds(line) or (line in self._stale and line not in self._written):
            return
        if line in self._stale:
            raise MachineFault(
                f"d-cache: {line:#010x}: expected a line to be cleaned that agrees with memory or "
                "is whole, got one that DMA has written to since; invalidate after the transfer"
            )
        self._put_behind(line, bytes(self._uc.mem_read(line, LINE)))

    def invalidate(self, address: int) -> None:
        """The line at ``address`` is dropped. Raises MachineFault when it was dirty and whole."""
        line = address & ~(LINE - 1)
        if not self._holds(line):
            return
        self._uc.mem_write(line, bytes(self._at(line, LINE)))
        self._written.discard(line)
        if self._stale.pop(line, 0) and not self._stale:
            self._unhook()

    def dma_write(self, user: str, address: int, data: bytes) -> None:
        """DMA stores ``data``; lines that the cache holds now differ from memory."""
        region = self.reach(user, address, len(data))
        if not self._cached or not region.cacheable:
            self._uc.mem_write(address, data)
            if region.cacheable:
                self._put_behind(address, data)
            return
        for line in range(address & ~(LINE - 1), address + len(data), LINE):
            if self._dirty(line):
                raise MachineFault(
                    f"d-cache: {line:#010x}: expected {user} to write where the cache holds "
                    "nothing dirty, got a dirty line, whose eviction would destroy the data; "
                    "invalidate before the transfer"
                )
            first, last = max(line, address), min(line + LINE, address + len(data))
            fresh = ((1 << last - first) - 1) << first - line
            self._stale[line] = self._stale.get(line, 0) | fresh
            self._watch(line)
        self._put_behind(address, data)

    def dma_read(self, user: str, address: int, nbytes: int) -> bytes:
        """DMA loads from memory. Raises MachineFault when the cache holds something newer."""
        region = self.reach(user, address, nbytes)
        if not self._cached or not region.cacheable:
            return bytes(self._uc.mem_read(address, nbytes))
        found = bytes(self._at(address, nbytes))
        if found != self._uc.mem_read(address, nbytes):
            raise MachineFault(
                f"d-cache: {address & ~(LINE - 1):#010x}: expected {user} to read what the core "
                "wrote, got older bytes from memory, for the line is dirty; clean before the "
                "transfer"
            )
        return found

    def reach(self, user: str, address: int, nbytes: int) -> Region:
        """The region that DMA finds there. Raises MachineFault where there is none."""
        for region in DMA_REACH:
            if region.start <= address and address + nbytes <= region.end:
                return region
        raise MachineFault(
            f"{user}: expected memory that DMA2 reaches, got {address:#010x}; "
            "place the buffer in DTCM or SRAM"
        )

    def take_fault(self) -> MachineFault | None:
        """What an access of the core has met since the last call."""
        fault, self._fault = self._fault, None
        return fault

    def _holds(self, line: int) -> bool:
        return self._cached and _CACHED.start <= line < _CACHED.end

    def _dirty(self, line: int) -> bool:
        if not self._holds(line):
            return False
        if line in self._stale:
            return line in self._written
        return bytes(self._at(line, LINE)) != bytes(self._uc.mem_read(line, LINE))

    def _at(self, address: int, nbytes: int) -> bytearray:
        at = address - _CACHED.start
        return self._behind[at : at + nbytes]

    def _put_behind(self, address: int, data: bytes) -> None:
        at = address - _CACHED.start
        self._behind[at : at + len(data)] = data

    def _watch(self, line: int) -> None:
        """A hook over all lines that are stale, ``line`` too; over others it does nothing."""
        if line in self._watched:
            return
        first, end = line, line + _AHEAD
        if self._watched:
            first, end = min(self._watched.start, first), max(self._watched.stop, end)
        self._unhook()
        self._watched = range(first, end)
        kinds = UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE
        self._hook = self._uc.hook_add(kinds, self._touched, None, first, end - 1)

    def _unhook(self) -> None:
        if self._hook is not None:
            self._uc.hook_del(self._hook)
        self._hook, self._watched = None, range(0)

    def _touched(
        self, uc: Uc, kind: int, address: int, size: int, value: int, data: object
    ) -> None:
        """The core has loaded from, or stored to, the range of stale lines."""
        for line in {
            address & ~(LINE - 1),
            (address + size - 1) & ~(LINE - 1),
        } & self._stale.keys():
            first, last = max(line, address), min(line + LINE, address + size)
            these = ((1 << last - first) - 1) << first - line
            if kind == UC_MEM_WRITE:
                self._written.add(line)
                self._stale[line] &= ~these
                if not self._stale[line]:  # wholly the core's: dirty, and nothing stale about it
                    del self._stale[line]
                    self._written.discard(line)
            elif self._stale[line] & these and self._fault is None:
                self._fault = MachineFault(
                    f"d-cache: {line:#010x}: expected the core to read this line after it was "
                    f"invalidated, got a read of {address:#010x} while the cache holds what stood "
                    "there before DMA wrote; invalidate after the transfer"
                )
                uc.emu_stop()


def _never(*_: object) -> None:
    """The hook of an address that nothing uses."""
