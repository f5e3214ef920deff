"""A fake card: pages of bytes whose transfers finish only when they are waited for.

The bytes of a write are taken, and those of a read delivered, at the *latest* legal moment (the
wait). A program that touches a buffer while its transfer is under way, or reads a page before its
write has been waited for, therefore gets wrong bytes here, where a fast card would hide the fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import InternalError

Bytes = npt.NDArray[np.uint8]


@dataclass(slots=True)
class FakeCard:
    """Pages by number and the transfers under way; counts payload bytes and transfers.

    Pages of ``homes`` outlive a step; the others do not.
    """

    pages: dict[int, Bytes] = field(default_factory=dict)
    homes: set[int] = field(default_factory=set)
    writing: dict[int, Bytes] = field(default_factory=dict)
    reading: dict[int, Bytes] = field(default_factory=dict)
    read_bytes: int = 0
    write_bytes: int = 0
    reads: int = 0
    writes: int = 0

    def begin_step(self) -> None:
        """Forget all pages but the homes."""
        self._check_idle("step begins")
        self.pages = {page: raw for page, raw in self.pages.items() if page in self.homes}

    def start_write(self, page: int, buffer: Bytes) -> None:
        """Begin to write ``buffer``, a window on the arena."""
        self._check_idle(f"page {page} is written")
        self.pages.pop(page, None)
        self.writing[page] = buffer
        self.write_bytes += buffer.size
        self.writes += 1

    def start_read(self, page: int, buffer: Bytes) -> None:
        """Begin to read into ``buffer``, a window on the arena, which is poisoned until then."""
        self._check_idle(f"page {page} is read")
        if page not in self.pages:
            raise InternalError(f"card: page {page} is read before it was written")
        self.reading[page] = buffer
        self.read_bytes += buffer.size
        self.reads += 1

    def wait(self, page: int) -> None:
        """End the transfer of the page."""
        if page in self.writing:
            self.pages[page] = self.writing.pop(page).copy()
        elif page in self.reading:
            self.reading.pop(page)[:] = self.pages[page]
        else:
            raise InternalError(f"card: no transfer of page {page} to wait for")

    def _check_idle(self, what: str) -> None:
        if self.writing or self.reading:
            raise InternalError(f"card: {what} while another transfer is under way")
