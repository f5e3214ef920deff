"""A15: models from both PyTorch exporters become the same graph and give PyTorch's outputs."""

import copy

import models as m
import numpy as np
import pytest
import torch
from torch import nn

from poet_mcu.frontend.onnx_import import check_model, load_model, weight_names
from poet_mcu.ir.graph import Role

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3))


def cnn():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2, bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6, 5),
        nn.ReLU(),
        nn.Linear(5, 3),
        nn.Softmax(dim=-1),
    )


def no_bias():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8, bias=False), nn.ReLU(), nn.Linear(8, 3))


class Residual(nn.Module):
    """A block with view(x.size(0), -1) and a batch-norm that evaluation mode folds away."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 3, 3, padding=1)
        self.second = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.fc = nn.Linear(27, 4)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.relu(x + self.norm(self.second(x)))
        x = nn.functional.max_pool2d(x, 2)
        return self.fc(x.view(x.size(0), -1))


CASES = {
    "mlp": (mlp, (3, 4)),
    "no_bias": (no_bias, (3, 4)),
    "cnn": (cnn, (2, 6, 6)),
    "residual": (Residual, (2, 6, 6)),
}


def exported(name, dynamo, tmp_path, batch_name=""):
    make, shape = CASES[name]
    torch.manual_seed(1)
    module = make().eval()
    path = tmp_path / f"{name}_{dynamo}.onnx"
    example = torch.randn(2, *shape)
    path.write_bytes(
        m.torch_export(copy.deepcopy(module), example, dynamo=dynamo, batch_name=batch_name)
    )
    return module, path


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamo", [False, True], ids=["script", "dynamo"])
@pytest.mark.parametrize("batch_name", ["", "batch"])
def test_outputs_are_those_of_pytorch(name, dynamo, batch_name, tmp_path):
    module, path = exported(name, dynamo, tmp_path, batch_name)
    assert check_model(path) == []
    batch = 4 if batch_name else 2
    found = load_model(path, batch, lambda _: True)
    x = m.weights(batch, *CASES[name][1], seed=5, scale=1.0)
    y = m.run_graph(found.graph, x)[0]
    y = m.softmax(y) if found.has_softmax else y
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    if name in ("mlp", "cnn"):  # folded batch-norms and transposes get names of the exporter's
        names = {key for key, _ in module.named_parameters()}
        assert set(weight_names(path).every) == names
        assert {v.origin for v in found.graph.with_role(Role.PARAMETER)} == names


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_both_exporters_give_one_graph(name, tmp_path):
    def shape_of(dynamo):
        _, path = exported(name, dynamo, tmp_path)
        graph = load_model(path, None, lambda _: True).graph
        nodes = [
            (
                item.op,
                dict(item.attrs),
                [graph.values[i].shape for i in (*item.inputs, *item.outputs)],
            )
            for item in graph.nodes
        ]
        weights = {v.origin: v.shape for v in graph.with_role(Role.PARAMETER)}
        return nodes, weights

    assert shape_of(False) == shape_of(True)
