"""Dropout: a random mask in training, nothing in an evaluation."""

from __future__ import annotations

import numpy as np
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Context, attribute


def lower_dropout(ctx: Context, node: onnx.NodeProto) -> None:
    """Dropout where training is to have it, else another name for its input.

    The ratio is an attribute before opset 12, then an input. ``training_mode`` came with opset 12;
    before, exporters left the node out of models in evaluation mode.
    """
    if len(node.output) > 1 and (
        ctx.consumers.get(node.output[1]) or node.output[1] in ctx.outputs
    ):
        raise ModelError(
            f"expected Dropout without its mask, got '{node.output[1]}' in use; "
            "export in evaluation mode"
        )
    ratio = _ratio(ctx, node)
    if not _in_training(ctx, node) or ratio == 0:
        ctx.env[node.output[0]] = ctx.entry(node.input[0])
        return
    if not 0 < ratio < 1:
        raise ModelError(
            f"expected a ratio in [0, 1), got {ratio:g}; correct it, or choose --dropout off"
        )
    if attribute(node, "seed", None) is not None:
        raise ModelError(
            f"expected Dropout without a seed, got {attribute(node, 'seed', 0)}: its masks come "
            "from --seed; export without it, or choose --dropout off"
        )
    x = ctx.activation(node.input[0])
    attrs = {"ratio": ratio, "seed": ctx.seed, "stream": ctx.dropouts}
    ctx.dropouts += 1
    ctx.emit(node, "dropout", (x,), attrs)


def _ratio(ctx: Context, node: onnx.NodeProto) -> float:
    if ctx.opset < 12:
        return float(attribute(node, "ratio", 0.5))
    if len(node.input) < 2 or not node.input[1]:
        return 0.5
    array = ctx.tensor(node.input[1], "the ratio").array
    if array.size != 1:
        raise ModelError(f"expected one number as the ratio, got {array.size}; export again")
    # The number that was meant: 0.1 and not 0.1 in float32.
    return float(str(np.float32(array.ravel()[0])))


def _in_training(ctx: Context, node: onnx.NodeProto) -> bool:
    if ctx.dropout != "model":
        return ctx.dropout == "on"
    if ctx.opset < 12:
        return True
    if len(node.input) < 3 or not node.input[2]:
        return False
    mode = ctx.tensor(node.input[2], "training_mode").array
    return mode.size == 1 and bool(mode.ravel()[0])
