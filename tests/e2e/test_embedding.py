"""A network whose input are words: indices go to the board, the table is trained there."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import onnx
import pytest
import torch
import training
from models import node, weights
from onnx import TensorProto

from poet_mcu.errors import ModelError
from poet_mcu.frontend.onnx_import import load_model
from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.session import Session
from poet_mcu.pipeline.target import connect_twin, open_folder
from poet_mcu.pipeline.validate import batches, run_steps

LR = 0.1
STEPS = 3


def words_model(*nodes: onnx.NodeProto, elem: int = TensorProto.INT64) -> onnx.ModelProto:
    tensors = {
        "table": weights(7, 5), "axis": np.asarray([1], np.int64), "fc": weights(5, 3, seed=1)
    }  # fmt: skip
    proto = models.model(list(nodes), ["N", 4], tensors, y=["N", 3])
    proto.graph.input[0].type.tensor_type.elem_type = elem
    return proto


NODES = (
    node("Gather", "table x", "e"),
    node("ReduceSum", "e axis", "s", keepdims=0),
    node("MatMul", "s fc", "y"),
)


@pytest.mark.parametrize("elem", [TensorProto.INT64, TensorProto.INT32])
def test_the_board_trains_the_table(elem: int, tmp_path: Path) -> None:
    path = models.save(words_model(*NODES, elem=elem), tmp_path / "words.onnx")
    out = tmp_path / "out"
    build(Options(path, "qemu-m4-sd", batch=3, lr=LR, strategy="free-early"), out)
    opened = open_folder(out)
    work = batches(opened.prepared(), None, STEPS)
    assert work[0][0].dtype == np.int32
    with connect_twin(opened) as device:
        found = run_steps(Session(device), work)
    start = {k: v for k, v in training.initializers(path).items() if v.dtype == np.float32}
    _, expected = training.train_torch(
        lambda x, w: w["table"][x.long()].sum(1) @ w["fc"], start, work, LR
    )
    for name, array in found.weights.items():
        assert training.relative(array, expected[name]) <= training.TWENTY_STEPS, name
    assert not np.array_equal(found.weights["table"], start["table"].ravel())


def test_words_are_no_numbers(tmp_path: Path) -> None:
    proto = words_model(node("Relu", "x", "y", "relu"))
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 4
    path = models.save(proto, tmp_path / "words.onnx")
    with pytest.raises(ModelError) as error:
        load_model(path, 1, lambda _: True)
    assert "'relu' (Relu): expected a value of type float32, got 'x' of type integer" in str(
        error.value
    )


def test_torch_embedding(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Embedding(7, 5), torch.nn.Tanh(), torch.nn.Flatten(),
                              torch.nn.Linear(20, 3))  # fmt: skip
    path = tmp_path / "t.onnx"
    words = torch.tensor([[0, 6, 3, 3]])
    path.write_bytes(models.torch_export(net, words, dynamo=False))
    graph = load_model(path, None, lambda _: True).graph
    assert [n.op for n in graph.nodes] == ["gather", "tanh", "dense"]
