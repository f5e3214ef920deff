"""The suite of ``poet-mcu hil``: the same tests for emulators and boards."""
