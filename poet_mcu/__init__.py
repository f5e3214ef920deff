"""poet-mcu: from an ONNX model to firmware that trains it on a Cortex-M board with an SD card.

Every verb of the command line is a function here: ``plan``, ``build``, ``validate``, ``train``,
``sweep``, ``flash``, ``calibrate``, ``check_model``, ``load_board``, ``list_boards``, ``doctor``.
They raise the errors of
``poet_mcu.errors``. Names are imported on first use, so that ``import poet_mcu`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from poet_mcu.version import __version__

if TYPE_CHECKING:
    from poet_mcu.board.load import list_boards, load_board
    from poet_mcu.frontend.onnx_import import check_model
    from poet_mcu.pipeline.build import build
    from poet_mcu.pipeline.calibrate import CalibrateOptions, calibrate
    from poet_mcu.pipeline.flash import flash
    from poet_mcu.pipeline.options import Options
    from poet_mcu.pipeline.plan import plan
    from poet_mcu.pipeline.sweep import sweep
    from poet_mcu.pipeline.train import TrainOptions, train
    from poet_mcu.pipeline.validate import validate
    from poet_mcu.toolchain import doctor

_HOMES = {
    "list_boards": "poet_mcu.board.load",
    "load_board": "poet_mcu.board.load",
    "check_model": "poet_mcu.frontend.onnx_import",
    "build": "poet_mcu.pipeline.build",
    "CalibrateOptions": "poet_mcu.pipeline.calibrate",
    "calibrate": "poet_mcu.pipeline.calibrate",
    "flash": "poet_mcu.pipeline.flash",
    "Options": "poet_mcu.pipeline.options",
    "plan": "poet_mcu.pipeline.plan",
    "sweep": "poet_mcu.pipeline.sweep",
    "TrainOptions": "poet_mcu.pipeline.train",
    "train": "poet_mcu.pipeline.train",
    "validate": "poet_mcu.pipeline.validate",
    "doctor": "poet_mcu.toolchain",
}

__all__ = [
    "CalibrateOptions",
    "Options",
    "TrainOptions",
    "__version__",
    "build",
    "calibrate",
    "check_model",
    "doctor",
    "flash",
    "list_boards",
    "load_board",
    "plan",
    "sweep",
    "train",
    "validate",
]


def __getattr__(name: str) -> Any:
    """The public function ``name``, imported now."""
    if name not in _HOMES:
        raise AttributeError(f"module 'poet_mcu' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
