"""Joined nodes and other forms of kernels on emulated cores: the bits of the plain nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import emulated
import models
import pytest

from poet_mcu.pipeline import prepare as prepare_module
from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.validate import Run

pytestmark = pytest.mark.qemu

STEPS = 4
#: Packed forms wherever there are any: the choice is the price's, and no matter of this test.
BOARD = """
extends = "qemu-mps2-an500"
name = "packing"

[cost.conv_packed]
cycles_per_mac = 0.1
cycles_per_element = 0.1
cycles_per_transcendental = 0.0
cycles_per_call = 0.0
estimated = true
source = "made up, so that packing always seems to pay"
"""


def network(folder: Path) -> Path:
    """Stride 2 forward and back, a residual sum, a wide dense layer: every join and form."""
    proto = models.model(
        [
            models.node("Conv", "x w1 b1", "a", strides=[2, 2], pads=[1, 1, 1, 1]),
            models.node("Relu", "a", "r"),
            models.node("Conv", "r w2", "c", pads=[1, 1, 1, 1]),
            models.node("Add", "c r", "s"),
            models.node("Relu", "s", "t"),
            models.node("Conv", "t w3", "d", strides=[2, 2], pads=[1, 1, 1, 1]),
            models.node("Flatten", "d", "f"),
            models.node("MatMul", "f w4", "y"),
        ],
        [1, 3, 16, 16],
        {
            "w1": models.weights(8, 3, 3, 3),
            "b1": models.weights(8),
            "w2": models.weights(8, 8, 3, 3, seed=1),
            "w3": models.weights(12, 8, 3, 3, seed=2),
            "w4": models.weights(192, 5, seed=3, scale=0.1),
        },
    )
    return models.save(proto, folder / "network.onnx")


def trained(options: Options, out: Path) -> tuple[Run, Run, dict[str, object]]:
    built = build(options, out)
    ours, twin = (emulated.run_folder(out, STEPS, twin=twin) for twin in (False, True))
    return ours, twin, built.facts


def test_joined_nodes_and_forms_do_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = tmp_path / "packing.toml"
    board.write_text(BOARD, encoding="utf-8")
    options = Options(
        network(tmp_path), str(board), lr=0.02, strategy="free-early", time_limit_s=1.0
    )
    ours, twin, facts = trained(options, tmp_path / "joined")
    forms = {entry["form"] for entry in facts["kernel_forms"].values()}
    assert any(form.startswith("packed") for form in forms)
    source = (tmp_path / "joined" / "src" / "poet_schedule.c").read_text(encoding="utf-8")
    assert all(
        name in source
        for name in (
            "poet_conv2d_fwd_packed_ended_f32",
            "poet_conv2d_bwd_x_packed_f32",
            "poet_add_fwd_ended_f32",
            "poet_conv2d_bwd_w_sgd_f32",
            "poet_dense_bwd_w_sgd_f32",
        )
    )
    monkeypatch.setattr(prepare_module, "with_forms", lambda graph, *_: graph)
    plain, *_ = trained(replace(options, fuse=False), tmp_path / "plain")
    for run in (twin, plain):
        assert ours.losses.tobytes() == run.losses.tobytes()
        assert {k: v.tobytes() for k, v in ours.weights.items()} == {
            k: v.tobytes() for k, v in run.weights.items()
        }
    assert ours.losses[0] != ours.losses[-1]
