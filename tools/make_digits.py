"""Makes the digits example: a small convolutional network, and its data from scikit-learn."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Arrays = dict[str, npt.NDArray[np.generic]]

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "examples" / "digits" / "digits_cnn.onnx"
SEED = 20220714
SIDE = 8  # of the digits' pictures
OPSET = 17
IR_VERSION = 8


def make_weights(seed: int = SEED, side: int = SIDE) -> dict[str, npt.NDArray[np.float32]]:
    """Start values: normal with deviation sqrt(2 / fan-in), biases zero (He et al. 2015)."""
    rng = np.random.default_rng(seed)
    shapes = {"conv1": (8, 1, 3, 3), "conv2": (16, 8, 3, 3), "fc": (10, (side // 4) ** 2 * 16)}
    tensors = {}
    for name, shape in shapes.items():
        deviation = np.sqrt(2.0 / np.prod(shape[1:]))
        tensors[f"{name}.weight"] = (deviation * rng.standard_normal(shape)).astype(np.float32)
        tensors[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    return tensors


def make_model(seed: int = SEED, side: int = SIDE) -> onnx.ModelProto:
    """Conv, Relu, MaxPool, twice, then Flatten and Gemm: [N, 1, side, side] to logits [N, 10]."""
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    rows = [
        ("Conv", ["input", "conv1.weight", "conv1.bias"], "conv1", conv),
        ("Relu", ["conv1"], "relu1", {}),
        ("MaxPool", ["relu1"], "pool1", pool),
        ("Conv", ["pool1", "conv2.weight", "conv2.bias"], "conv2", conv),
        ("Relu", ["conv2"], "relu2", {}),
        ("MaxPool", ["relu2"], "pool2", pool),
        ("Flatten", ["pool2"], "flat", {"axis": 1}),
        ("Gemm", ["flat", "fc.weight", "fc.bias"], "logits", {"transB": 1}),
    ]
    nodes = [helper.make_node(op, ins, [out], out, **attrs) for op, ins, out, attrs in rows]
    graph = helper.make_graph(
        nodes,
        "digits_cnn",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 1, side, side])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(array, name) for name, array in make_weights(seed, side).items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def make_data(seed: int = SEED, train_share: float = 0.8) -> tuple[Arrays, Arrays]:
    """Training and test data: ``x`` float32 [N, 1, 8, 8] in 0..1, ``y`` int64 [N] in 0..9."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - only the data need scikit-learn

    digits = load_digits()
    x = (digits.images / 16.0).astype(np.float32)[:, None]
    y = digits.target.astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(y))
    split = int(train_share * len(y))
    train, test = order[:split], order[split:]
    return {"x": x[train], "y": y[train]}, {"x": x[test], "y": y[test]}


def write_data(folder: Path, seed: int = SEED) -> tuple[Path, Path]:
    """Write ``digits_train.npz`` and ``digits_test.npz`` into ``folder``; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "digits_train.npz", folder / "digits_test.npz"
    for path, arrays in zip(paths, make_data(seed), strict=True):
        np.savez_compressed(path, **arrays)
    return paths


def main(argv: list[str] | None = None) -> None:
    """Command line: with FOLDER write the data there, with --model the network too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="write the two .npz files there")
    parser.add_argument("--model", action="store_true", help=f"rewrite {MODEL.name}")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(argv)
    if options.folder is None and not options.model:
        parser.error("expected FOLDER, --model or both, got neither")
    if options.model:
        MODEL.parent.mkdir(parents=True, exist_ok=True)
        MODEL.write_bytes(make_model(options.seed).SerializeToString(deterministic=True))
        print(MODEL.relative_to(ROOT))
    if options.folder is not None:
        for path in write_data(options.folder, options.seed):
            print(path)


if __name__ == "__main__":
    main()
