"""What ends an emulated run: the firmware did what a manual forbids, or the core cannot go on."""

from __future__ import annotations

from poet_mcu.errors import DeviceError


class MachineFault(DeviceError):
    """``<unit>: <register or address>: expected X, got Y; <what to do>``."""
