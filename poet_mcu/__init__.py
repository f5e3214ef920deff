"""poet-mcu: from an ONNX model to firmware that trains it on a Cortex-M board with an SD card."""

from poet_mcu.version import __version__

__all__ = ["__version__"]
