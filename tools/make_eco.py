"""Writes tests/data/eco: small models of Keras as .tflite and by tf2onnx, with Keras's results.

    python -m venv /some/where && /some/where/bin/pip install tensorflow-cpu tf2onnx
    /some/where/bin/python tools/make_eco.py

TensorFlow is large, so the tests do not need it: they read what this script stored. Of each model
NAME: NAME_float.tflite, NAME_half.tflite (weights in float16), NAME_int8.tflite, for one model
NAME_hybrid.tflite (weights in int8), NAME.onnx (channels last, by tf2onnx), and NAME.npz with

    x, labels              a batch
    y, loss                Keras's output and mean cross-entropy for it
    y/KIND, x/KIND         the LiteRT interpreter's output for each .tflite, sample by sample
    before/VAR, after/VAR  Keras's variables before and after one SGD step at the rate 0.1
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "0")

import tensorflow as tf
import tf2onnx
from tensorflow import keras
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "data" / "eco"
FIELDS = ("model", "x", "y")
LR = 0.1
BATCH = 3
OPSET = 15
layers = keras.layers


def mlp() -> Any:
    x = keras.Input((6,))
    h = layers.Dense(8, activation="relu")(x)
    h = layers.Dense(7, activation="tanh")(h)
    return keras.Model(x, layers.Dense(4)(h))


def cnn() -> Any:
    """Convolutions, pooling, Flatten in channels-last order, Dense: what every tutorial has."""
    x = keras.Input((8, 8, 3))
    h = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    h = layers.MaxPooling2D(2)(h)
    h = layers.Conv2D(6, 3, activation="relu")(h)
    h = layers.Flatten()(h)
    h = layers.Dense(5, activation="relu")(h)
    return keras.Model(x, layers.Dense(4)(h))


def mobile() -> Any:
    """Depthwise and pointwise convolutions with Relu6, a residual sum, global pooling."""
    x = keras.Input((9, 7, 2))
    h = layers.Conv2D(4, 3, strides=2, padding="same", use_bias=False)(x)
    h = layers.ReLU(6.0)(h)
    d = layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2)(h)
    d = layers.ReLU(6.0)(d)
    d = layers.Conv2D(4, 1)(d)
    h = layers.Add()([h, d])
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(x, layers.Dense(3)(h))


def batchnorm() -> Any:
    """Batch normalization, folded into the convolution by the TFLite converter."""
    x = keras.Input((6, 6, 2))
    h = layers.Conv2D(4, 3, padding="same", use_bias=False)(x)
    h = layers.BatchNormalization()(h)
    h = layers.ReLU()(h)
    h = layers.AveragePooling2D(2)(h)
    h = layers.Flatten()(h)
    return keras.Model(x, layers.Dense(3)(h))


def mixed() -> Any:
    """The operators that are left: pads, slopes, gates, concatenation, arithmetic."""
    x = keras.Input((6, 6, 2))
    a = layers.ZeroPadding2D(((1, 0), (0, 1)))(x)
    a = layers.Conv2D(3, 2, strides=2, padding="valid")(a)
    a = layers.LeakyReLU(negative_slope=0.2)(a)
    b = layers.AveragePooling2D(2, padding="same")(x)
    b = layers.Conv2D(3, 1, activation="sigmoid")(b)
    h = layers.Concatenate()([a, b, layers.Multiply()([a, b]), layers.Subtract()([a, b])])
    h = layers.Reshape((9, 12))(h)
    h = layers.Permute((2, 1))(h)
    h = layers.Dense(3)(h)
    h = layers.Flatten()(h)
    h = layers.Dense(5, activation="elu")(h)
    return keras.Model(x, layers.Dense(3)(h))


def line() -> Any:
    """Convolutions over time."""
    x = keras.Input((12, 3))
    h = layers.Conv1D(4, 3, padding="same", activation="relu")(x)
    h = layers.MaxPooling1D(2)(h)
    h = layers.Conv1D(5, 3, strides=2)(h)
    h = layers.Activation("swish")(h)
    h = layers.GlobalAveragePooling1D()(h)
    return keras.Model(x, layers.Dense(3)(h))


def gates() -> Any:
    """Squeeze and excitation: a product of planes with one number a channel; a last Softmax."""
    x = keras.Input((6, 6, 4))
    h = layers.Conv2D(4, 3, padding="same", activation="relu6")(x)
    g = layers.GlobalAveragePooling2D(keepdims=True)(h)
    g = layers.Conv2D(2, 1, activation="relu")(g)
    g = layers.Conv2D(4, 1, activation="hard_sigmoid")(g)
    h = layers.Multiply()([h, g])
    h = layers.UpSampling2D(2)(h)
    h = layers.MaxPooling2D(3, strides=2, padding="same")(h)
    h = layers.GlobalMaxPooling2D()(h)
    return keras.Model(x, layers.Dense(3, activation="softmax")(h))


def wide() -> Any:
    """Enough weights for the converter to store them as int8 beside float activations."""
    x = keras.Input((40,))
    h = layers.Dense(32, activation="relu")(x)
    return keras.Model(x, layers.Dense(4)(h))


def kinds(name: str) -> tuple[str, ...]:
    """The .tflite files that are made of a model."""
    return ("float", "hybrid") if name == "wide" else ("float", "half", "int8")


MODELS: dict[str, Callable[[], Any]] = {
    "batchnorm": batchnorm,
    "cnn": cnn,
    "gates": gates,
    "line": line,
    "mixed": mixed,
    "mlp": mlp,
    "mobile": mobile,
    "wide": wide,
}


def fill(model: Any, rng: np.random.Generator) -> None:
    """Every variable gets numbers of its own, so that a mixed-up pair shows."""
    for v in model.variables:
        array = 0.5 * rng.standard_normal(v.shape)
        v.assign(np.abs(array) + 0.5 if "variance" in v.path or "gamma" in v.path else array)


def one_step(model: Any, x: Any, labels: Any) -> dict[str, Any]:
    """Loss, and all variables before and after one SGD step in evaluation mode."""
    made = {f"before/{v.path}": v.numpy() for v in model.trainable_variables}
    softmax = "softmax" in str(getattr(model.layers[-1], "activation", ""))
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=not softmax)
    with tf.GradientTape() as tape:
        loss = entropy(labels, model(x, training=False))
    gradients = tape.gradient(loss, model.trainable_variables)
    made["loss"] = np.asarray(loss)
    for v, gradient in zip(model.trainable_variables, gradients, strict=True):
        made[f"after/{v.path}"] = v.numpy() - LR * np.asarray(gradient)
    return made


def converted(model: Any, kind: str, samples: Any) -> bytes:
    """The model as .tflite: float, half (float16 weights), hybrid (int8 weights) or int8."""
    shape = (1, *model.input_shape[1:])
    function = tf.function(lambda x: model(x, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec(shape, tf.float32, name="x"))
    frozen = convert_variables_to_constants_v2(concrete)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if kind != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "half":
        converter.target_spec.supported_types = [tf.float16]
    if kind == "int8":
        converter.representative_dataset = lambda: ([s[None]] for s in samples)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return bytes(converter.convert())


def interpreted(data: bytes, x: Any) -> tuple[Any, Any]:
    """Inputs as the interpreter took them, and its outputs, as float32."""
    interpreter = tf.lite.Interpreter(model_content=data)
    interpreter.allocate_tensors()
    (source,), (target,) = interpreter.get_input_details(), interpreter.get_output_details()
    inputs, outputs = [], []
    for sample in x:
        given = sample[None]
        if source["dtype"] == np.int8:
            scale, zero = source["quantization"]
            given = np.clip(np.round(given / scale) + zero, -128, 127).astype(np.int8)
        interpreter.set_tensor(source["index"], given)
        interpreter.invoke()
        inputs.append(_float(given, source))
        outputs.append(_float(interpreter.get_tensor(target["index"]), target))
    return np.concatenate(inputs), np.concatenate(outputs)


def _float(array: Any, detail: Any) -> Any:
    scale, zero = detail["quantization"]
    return ((array.astype(np.float32) - zero) * scale if scale else array).astype(np.float32)


def write(name: str, make: Callable[[], Any]) -> None:
    keras.backend.clear_session()
    rng = np.random.default_rng(sum(map(ord, name)))
    model = make()
    fill(model, rng)
    shape = model.input_shape[1:]
    x = rng.standard_normal((BATCH, *shape)).astype(np.float32)
    labels = rng.integers(0, model.output_shape[-1], BATCH).astype(np.int32)
    made = {"x": x, "labels": labels, "y": model(x, training=False).numpy()}
    made |= one_step(model, x, labels)
    samples = np.concatenate([x, rng.standard_normal((30, *shape)).astype(np.float32)])
    for kind in kinds(name):
        data = converted(model, kind, samples)
        (FOLDER / f"{name}_{kind}.tflite").write_bytes(data)
        made[f"x/{kind}"], made[f"y/{kind}"] = interpreted(data, x)
    signature = [tf.TensorSpec((None, *shape), tf.float32, name="x")]
    function = tf.function(lambda x: model(x, training=False))
    proto, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=OPSET)
    (FOLDER / f"{name}.onnx").write_bytes(proto.SerializeToString(deterministic=True))
    np.savez_compressed(FOLDER / f"{name}.npz", **made)


def constant(*shape: int) -> Any:
    """Numbers that are the same in every run."""
    return tf.constant(np.random.default_rng(shape).standard_normal(shape), tf.float32)


#: single operators: shape of a sample (None: the batch is open), function
IMAGE, ROWS = (4, 6, 3), (5, 4)
OPS: dict[str, tuple[tuple[int, ...], bool, Callable[[Any], Any]]] = {
    "abs neg": (ROWS, False, lambda x: -tf.abs(x)),
    "average pool same": (IMAGE, False, lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME")),
    "batch matmul": (ROWS, False, lambda x: tf.matmul(x, x, transpose_b=True)),
    "batch matmul weight": (ROWS, False, lambda x: tf.matmul(x, constant(4, 3))),
    "broadcast": (ROWS, False, lambda x: x[:, :1] + tf.broadcast_to(x[:, 1:2], (1, 7, 4))),
    "cast": (ROWS, False, lambda x: tf.where(x > 0, x, 2 * x)),
    "concat relu": (IMAGE, False, lambda x: tf.nn.relu(tf.concat([x, x * x], 3))),
    "conv dilated": (
        (7, 8, 2),
        False,
        lambda x: tf.nn.conv2d(x, constant(3, 2, 2, 4), 1, "SAME", dilations=(2, 1)),
    ),
    "conv groups": ((5, 5, 4), False, lambda x: tf.nn.conv2d(x, constant(3, 3, 2, 6), 2, "SAME")),
    "conv relu1": (
        IMAGE,
        False,
        lambda x: tf.clip_by_value(tf.nn.conv2d(x, constant(1, 2, 3, 2), 1, "VALID"), -1, 1),
    ),
    "conv transposed": (
        IMAGE,
        False,
        lambda x: tf.nn.conv2d_transpose(x, constant(3, 2, 5, 3), (1, 8, 12, 5), 2, "SAME"),
    ),
    "conv transposed valid": (
        IMAGE,
        False,
        lambda x: tf.nn.conv2d_transpose(x, constant(3, 3, 2, 3), (1, 9, 13, 2), 2, "VALID"),
    ),
    "depth to space": ((2, 3, 8), False, lambda x: tf.nn.depth_to_space(x, 2)),
    "divide": (ROWS, False, lambda x: constant(4) / (tf.abs(x) + 1)),
    "elu": (ROWS, False, tf.nn.elu),
    "exp log": (ROWS, False, lambda x: tf.math.log(tf.exp(x) + 1)),
    "flatten open": (IMAGE, True, lambda x: tf.reshape(x, (-1, 72)) @ constant(72, 2)),
    "gather": (ROWS, False, lambda x: tf.gather(x, [2, 0, 3], axis=2)),
    "gelu": (ROWS, False, tf.nn.gelu),
    "gelu tanh": (ROWS, False, lambda x: tf.nn.gelu(x, approximate=True)),
    "greater": (ROWS, False, lambda x: tf.where(x >= constant(4), x, constant(5, 4))),
    "hard swish": (ROWS, False, lambda x: x * tf.nn.relu6(x + 3) * (1 / 6)),
    "less": (ROWS, False, lambda x: tf.where(x < 0.1, x, tf.ones_like(x))),
    "log softmax": (ROWS, False, tf.nn.log_softmax),
    "maximum minimum": (ROWS, False, lambda x: tf.minimum(tf.maximum(x, constant(4)), 0.5)),
    "mean all": (IMAGE, False, lambda x: tf.reduce_mean(x, (1, 2, 3), keepdims=True)),
    "mean samples": (ROWS, False, lambda x: x - tf.reduce_mean(x, 0, keepdims=True) / 2),
    "pack unpack": (ROWS, False, lambda x: tf.stack(tf.unstack(x, axis=2)[::-1], axis=1)),
    "pad value": (ROWS, False, lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1]], constant_values=3)),
    "power": (ROWS, False, lambda x: tf.pow(tf.abs(x) + 0.5, constant(4))),
    "prelu": (IMAGE, False, lambda x: tf.nn.relu(x) - constant(3) * tf.nn.relu(-x)),
    "relu6 alone": (ROWS, False, lambda x: tf.nn.relu6(4 * x)),
    "reshape open": (ROWS, True, lambda x: tf.reshape(x, (tf.shape(x)[0], 2, 10)) + 1),
    "resize": (IMAGE, False, lambda x: tf.image.resize(x, (8, 9), "nearest")),
    "rsqrt": (ROWS, False, lambda x: tf.math.rsqrt(tf.square(x) + 1)),
    "reduce": (
        IMAGE,
        False,
        lambda x: tf.reduce_max(x, 3) + tf.reduce_min(x, 3) * tf.reduce_sum(x, 3),
    ),
    "slice": (ROWS, False, lambda x: tf.slice(x, (0, 1, 0), (1, 3, -1))),
    "softmax": (ROWS, False, lambda x: tf.nn.softmax(x) * 2),
    "space to depth": (IMAGE, False, lambda x: tf.nn.space_to_depth(x, 2)),
    "split": (ROWS, False, lambda x: tf.concat(tf.split(x, 2, 2)[::-1], 1)),
    "split sizes": (ROWS, False, lambda x: tf.concat(tf.split(x, [1, 3, 1], 1)[::-1], 2 - 1)),
    "sqrt": (ROWS, False, lambda x: tf.sqrt(tf.abs(x))),
    "squared difference": (ROWS, False, lambda x: tf.math.squared_difference(x, constant(4))),
    "squeeze": ((1, 4), False, lambda x: tf.expand_dims(tf.squeeze(x, 1), 2) * 3),
    "strided slice": (ROWS, False, lambda x: x[:, 1:5:2, 3] + x[:, :2, -1]),
    "tile": (ROWS, False, lambda x: tf.tile(x, (1, 2, 3))),
    "transpose": (IMAGE, False, lambda x: tf.transpose(x, (0, 3, 1, 2)) + constant(6)),
}


def write_ops() -> None:
    """ops.npz: the .tflite of each operator, three samples, and the interpreter's outputs."""
    made = {}
    for name, (shape, is_open, function) in OPS.items():
        spec = tf.TensorSpec((None if is_open else 1, *shape), tf.float32, name="x")
        concrete = tf.function(function).get_concrete_function(spec)
        data = tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()
        seed = sum(map(ord, name))
        x = np.random.default_rng(seed).standard_normal((BATCH, *shape)).astype(np.float32)
        parts = (np.frombuffer(data, np.uint8), *interpreted(data, x))
        made |= {f"{name}/{key}": part for key, part in zip(FIELDS, parts, strict=True)}
    np.savez_compressed(FOLDER / "ops.npz", **made)
    print(f"ops.npz {(FOLDER / 'ops.npz').stat().st_size}, {len(OPS)} operators")


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or [*MODELS, "ops"]:
        if name == "ops":
            write_ops()
            continue
        write(name, MODELS[name])
        sizes = {p.name: p.stat().st_size for p in sorted(FOLDER.glob(f"{name}[._]*"))}
        print(", ".join(f"{n} {size}" for n, size in sizes.items()))


if __name__ == "__main__":
    main()
