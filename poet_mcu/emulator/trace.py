"""What the machine did, as JSON lines: for tests and for whoever looks for a fault."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

from poet_mcu.emulator.agenda import Agenda


class Trace:
    """Events with their time in cycles; complaints also go to standard error."""

    def __init__(self, agenda: Agenda, path: Path | None) -> None:
        self._agenda = agenda
        self.complaints: list[str] = []
        #: where the core was, once a quantum, since data began to move
        self.places: set[int] = set()
        self._file: TextIO | None = path.open("w", encoding="utf-8") if path else None

    @property
    def on(self) -> bool:
        """Whether events are written down."""
        return self._file is not None

    def event(self, kind: str, **facts: Any) -> None:
        """Write one line."""
        if self._file is not None:
            self._file.write(json.dumps({"event": kind, "cycle": self._agenda.now} | facts) + "\n")
            self._file.flush()

    def moved(self, kind: str, **facts: Any) -> None:
        """The same, with the places since the last one."""
        self.event(kind, **facts, places=sorted(self.places))
        self.places.clear()

    def complain(self, text: str) -> None:
        """Something a manual forbids, which the hardware answers in its own way."""
        self.complaints.append(text)
        self.event("complaint", text=text)
        sys.stderr.write(f"poet: {text}\n")
        sys.stderr.flush()
