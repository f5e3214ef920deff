"""A register-level STM32F746 with an SD card: runs the very firmware.bin that would be flashed.

Every model is written from the manuals (RM0385, PM0253, the SD physical layer specification), not
from our driver. What a manual forbids ends the run with a :class:`MachineFault` that names it.
Time is counted in instructions, one a cycle of HCLK: it orders events and is never a board's time.
"""
