"""Models of Keras, by tf2onnx and as .tflite: forward, one training step, and the way back.

The files and Keras's results are made by tools/make_eco.py; TensorFlow is not needed here.
"""

from __future__ import annotations

from pathlib import Path

import eco
import models
import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter

from poet_mcu.frontend.export import save_with_weights
from poet_mcu.frontend.onnx_import import check_model, load_model

#: float32 sums in another order, tensor by tensor over its largest magnitude
SAME = 1e-5
#: int8 activations have 8 bits each; through up to seven of them our float32 result differs from
#: the interpreter's by the sum of their roundings. Measured: 0.036 at most, of the largest output.
INT8 = 0.05
#: hybrid: the interpreter rounds the input of each product to 8 bits. Measured: 0.0042.
HYBRID = 0.02
TFLITE = sorted(p.name for p in eco.FOLDER.glob("*.tflite"))
FLOAT = [n for n in TFLITE if n.endswith("_float.tflite")]
ONNX = sorted(p.name for p in eco.FOLDER.glob("*.onnx"))


def parts(file: str) -> tuple[str, str]:
    name, _, kind = Path(file).stem.rpartition("_")
    return name, kind


def limit(kind: str) -> float:
    return {"int8": INT8, "hybrid": HYBRID}.get(kind, SAME)


def test_the_fixtures_are_small_and_complete():
    names = {Path(n).stem for n in ONNX}
    assert {parts(n)[0] for n in TFLITE} == names
    assert {p.stem for p in eco.FOLDER.glob("*.npz")} == {*names, "ops"}
    assert len(TFLITE) == 23
    assert sum(p.stat().st_size for p in eco.FOLDER.iterdir()) < 400_000


@pytest.mark.parametrize("train", [True, False], ids=["trained", "frozen"])
@pytest.mark.parametrize("file", TFLITE)
def test_tflite_gives_the_interpreters_output(file, train):
    """Three samples at once give what the interpreter gives one by one."""
    path, (name, kind) = eco.FOLDER / file, parts(file)
    stored = eco.results(name)
    assert check_model(path) == []
    y = eco.forward(eco.load(path, train), stored[f"x/{kind}"])
    assert eco.relative(y, stored[f"y/{kind}"]) <= limit(kind)


@pytest.mark.parametrize("file", TFLITE)
def test_stored_outputs_are_those_of_the_interpreter(file):
    """So that the stored results cannot rot."""
    name, kind = parts(file)
    interpreter = Interpreter(model_path=str(eco.FOLDER / file))
    interpreter.allocate_tensors()
    (source,), (target,) = interpreter.get_input_details(), interpreter.get_output_details()
    outputs = []
    for sample in eco.results(name)["x"]:
        given = sample[None]
        if source["dtype"] == np.int8:
            scale, zero = source["quantization"]
            given = np.clip(np.round(given / scale) + zero, -128, 127).astype(np.int8)
        interpreter.set_tensor(source["index"], given)
        interpreter.invoke()
        outputs.append(interpreter.get_tensor(target["index"]))
    scale, zero = target["quantization"]
    y = np.concatenate(outputs).astype(np.float32)
    y = (y - zero) * scale if scale else y
    # An int8 result may fall on the other side of one rounding on another machine.
    assert eco.relative(y, eco.results(name)[f"y/{kind}"]) <= (0.01 if kind == "int8" else SAME)


@pytest.mark.parametrize("train", [True, False], ids=["trained", "frozen"])
@pytest.mark.parametrize("file", ONNX)
def test_tf2onnx_gives_keras_output(file, train):
    path, stored = eco.FOLDER / file, eco.results(Path(file).stem)
    assert check_model(path) == []
    y = eco.forward(eco.load(path, train), stored["x"])
    assert eco.relative(y, stored["y"]) <= SAME
    assert eco.relative(models.run_onnx(path, stored["x"]), stored["y"]) <= SAME


#: batchnorm: the converters fold it into the convolution, so that its variables are gone
TRAINED = [n for n in (*ONNX, *FLOAT) if not n.startswith("batchnorm")]


@pytest.mark.parametrize("file", TRAINED)
def test_one_step_is_that_of_keras(file, tmp_path):
    path = eco.FOLDER / file
    stored = eco.results(path.stem.removesuffix("_float"))
    found = eco.load(path)
    loss, after = eco.one_step(found, stored["x"], stored["labels"], "cross-entropy")
    assert abs(loss - stored["loss"]) <= SAME * abs(stored["loss"])
    before = {k.partition("/")[2]: v for k, v in stored.items() if k.startswith("before/")}
    mine = eco.starts(found)
    pairs = eco.partners(mine, before)
    assert set(pairs) == set(before), "a variable of Keras is not among the trained tensors"
    for name, (other, way) in pairs.items():
        start = mine[other]
        wanted, first = (
            eco.turned_like(stored[f"{when}/{name}"], start.shape)[way]
            for when in ("after", "before")
        )
        assert eco.relative(after[other], start + (wanted - first)) <= SAME, name
        # The change itself, which is small beside the weight: one more digit is lost.
        assert eco.relative(after[other] - start, wanted - first) <= 1e-4, name
    # The converter writes a zero bias where Keras has none.
    for other in set(mine) - {n for n, _ in pairs.values()}:
        assert not mine[other].any()


@pytest.mark.parametrize("file", ["cnn.onnx", "cnn_float.tflite", "mobile_int8.tflite"])
def test_trained_weights_go_back_into_an_onnx_file(file, tmp_path):
    """Written by name, read again and run by ONNX Runtime: the trained model's output."""
    path = eco.FOLDER / file
    stored = eco.results(path.stem.partition("_")[0])
    x = stored["x"]
    before = eco.forward(eco.load(path), x)
    _, after = eco.one_step(eco.load(path), x, stored["labels"], "cross-entropy")
    target = tmp_path / "trained.onnx"
    save_with_weights(path, after, target)
    onnx.checker.check_model(onnx.load(target), full_check=True)
    again = eco.load(target)
    mine = eco.forward(again, x)
    assert eco.relative(models.run_onnx(target, x), mine) <= SAME
    assert eco.relative(mine, before) > 1e-3
    for name, array in eco.starts(again).items():
        assert np.array_equal(array, after[name])


@pytest.mark.parametrize("file", ["cnn.onnx", "cnn_float.tflite", "mobile.onnx"])
def test_channels_last_keeps_one_transpose_of_the_input(file):
    """And one before Flatten where the matrix behind it is trained as it is stored."""
    frozen, trained = (
        [n.op for n in eco.load(eco.FOLDER / file, train).graph.nodes] for train in (False, True)
    )
    assert frozen.count("transpose") == 1
    assert trained.count("transpose") == (1 if "mobile" in file else 2)


def test_tflite_says_what_became_of_the_quantization():
    notes = eco.load(eco.FOLDER / "cnn_int8.tflite").report.notes
    assert notes[0] == "8 quantized tensors were dequantized: training is in float32"
    assert notes[1] == (
        "the quantization of 7 activations is left out: outputs differ from the int8 model's by "
        "its rounding"
    )
    half = eco.load(eco.FOLDER / "cnn_half.tflite").report.notes
    assert half[0] == "8 tensors in float16 were widened to float32"


def test_tflite_has_a_batch_of_one_until_somebody_asks():
    path = eco.FOLDER / "cnn_float.tflite"
    for batch, wanted in ((None, 1), (1, 1), (16, 16)):
        found = load_model(path, batch, lambda _: True)
        assert found.graph.values[0].shape == (wanted, 8, 8, 3)
        assert found.report.output_shape == (wanted, 4)
