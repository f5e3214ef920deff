"""Fuzz target: bytes as a model file, through the front end to a plan that the interpreter checks.

A refusal is a PoetError that is no InternalError; everything else is a finding.
"""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import models
import onnx
import onnx_cases
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

from poet_mcu.errors import InternalError, PoetError
from poet_mcu.frontend import walk
from poet_mcu.frontend.handlers import HANDLERS
from poet_mcu.frontend.onnx_import import check_model
from poet_mcu.ir.graph import Graph
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import budget_for
from poet_mcu.pipeline.prepare import prepare
from poet_mcu.pipeline.selfcheck import check_program
from poet_mcu.pipeline.stepplan import StepSettings, plan_step

#: planned and interpreted below this, so that an input costs milliseconds
MOST_BYTES = 65_536
MOST_NODES = 80
BOARD = "qemu-m7-sd"
_LOSSES = ("mse", "cross-entropy", "mse", "bce", "huber")
_STRATEGIES = ("free-early", "page-all", "recompute-all", "keep-all")  # no solver: it takes seconds


def one_input(data: bytes, folder: Path) -> str:
    """Run ``data`` as far as it goes: 'refused', 'prepared' or 'planned'.

    Without onnx's inference, which is a process of its own with limits, and takes half a second.
    """
    with mock.patch.object(walk, "inferred_shapes", return_value={}):
        return _run(data, folder)


def _run(data: bytes, folder: Path) -> str:
    path = folder / "m.onnx"
    path.write_bytes(data)
    seed = zlib.crc32(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check_model(path)
            loss = _LOSSES[seed % len(_LOSSES)]
            options = Options(path, BOARD, batch=_batch(data), loss=loss)
            prepared = prepare(options)
            if not _small(prepared.train):
                return "prepared"
            for graph in (prepared.train, prepared.evaluation):
                settings = StepSettings("step", _STRATEGIES[seed // 8 % len(_STRATEGIES)])
                budget = budget_for(prepared)
                check_program(plan_step(graph, prepared.board, options, budget, settings))
        except InternalError:
            raise
        except PoetError:
            return "refused"
    return "planned"


def look(data: bytes) -> object:
    """What tells inputs apart that are both worth keeping: their operators."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return "bytes"
    return frozenset(node.op_type for node in model.graph.node if node.op_type in HANDLERS)


def _batch(data: bytes) -> int | None:
    """1 where the model leaves it open."""
    shapes = [i.type.tensor_type.shape for i in onnx.load_from_string(data).graph.input]
    return 1 if any(shape.dim and shape.dim[0].dim_param for shape in shapes) else None


def _small(graph: Graph) -> bool:
    nbytes = sum(value.type.nbytes for value in graph.values)
    return nbytes <= MOST_BYTES and len(graph.nodes) <= MOST_NODES


# --- mutation by structure --------------------------------------------------------------------

_INTS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    255,
    256,
    65_536,
    2**31 - 1,
    2**31,
    -(2**31),
    2**62,
    -(2**63),
    2**63 - 1,
)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))
_TEXTS = (
    "",
    "x",
    "y",
    "ai.onnx",
    "Relu",
    "Reshape",
    "Add",
    "Constant",
    "axis",
    "\N{SNOWMAN}",
    "../w",
)
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: 32,
    FieldDescriptor.CPPTYPE_INT64: 64,
    FieldDescriptor.CPPTYPE_UINT64: 0,
}


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for each in value if field.is_repeated else (value,):
                yield from _messages(each)


def _scalar(field: FieldDescriptor, old: Any, model: onnx.ModelProto, rng: random.Random) -> Any:
    """Another value for a field."""
    if field.cpp_type in _INTEGERS:
        bits = _INTEGERS[field.cpp_type]
        new = rng.choice((*_INTS, old + 1, old - 1, 2 * old, -old, rng.randrange(12)))
        if bits == 0:
            return new % 2**64
        return (new + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice([value.number for value in field.enum_type.values])
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice((*_FLOATS, old + 1, old / 2))
    if field.type == FieldDescriptor.TYPE_STRING:
        return rng.choice((*_TEXTS, *_names(model)))
    harmed = bytearray(old)
    if harmed:
        harmed[rng.randrange(len(harmed))] = rng.randrange(256)
    return bytes(harmed) if rng.random() < 0.7 else bytes(harmed[: rng.randrange(len(harmed) + 1)])


def _names(model: onnx.ModelProto) -> list[str]:
    graph = model.graph
    names = [n for node in graph.node for n in (*node.input, *node.output, node.op_type)]
    names += [t.name for t in graph.initializer]
    return names + [a.name for node in graph.node for a in node.attribute]


def _change_repeated(
    message: Any, field: FieldDescriptor, model: onnx.ModelProto, rng: random.Random
) -> None:
    items = getattr(message, field.name)
    kind, at = rng.choice(("drop", "twice", "swap", "change")), rng.randrange(len(items))
    other = rng.randrange(len(items))
    if kind == "drop":
        del items[at]
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        copy = type(items[at])()
        copy.CopyFrom(items[other])
        if kind == "twice":
            items.append(copy)
        else:
            items[at].CopyFrom(copy)
    elif kind == "twice":
        items.append(items[other])
    elif kind == "swap":
        items[at], items[other] = items[other], items[at]
    else:
        items[at] = _scalar(field, items[at], model, rng)


def _change(model: onnx.ModelProto, rng: random.Random) -> None:
    """One field of one message becomes something else of its type, or is absent."""
    message = rng.choice(list(_messages(model)))
    present = message.ListFields()
    if not present:
        return
    field, value = rng.choice(present)
    if field.is_repeated:
        _change_repeated(message, field, model, rng)
    elif rng.random() < 0.1:
        message.ClearField(field.name)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        donors = [m for m in _messages(model) if m.DESCRIPTOR is field.message_type]
        donor = type(value)()
        donor.CopyFrom(rng.choice(donors))
        value.CopyFrom(donor)
    else:
        setattr(message, field.name, _scalar(field, value, model, rng))


def mutate(
    data: bytes, most_bytes: int, seed: int, by_bytes: Callable[[bytes, int], bytes]
) -> bytes:
    """Another model near ``data``, or, now and then and where it is none, other bytes."""
    rng = random.Random(seed)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return by_bytes(data, most_bytes)
    if rng.random() < 0.1:
        return by_bytes(data, most_bytes)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        try:
            _change(model, rng)
        except (ValueError, TypeError, OverflowError):
            continue  # not a value that protobuf takes
    made: bytes = model.SerializeToString()
    return made if len(made) <= most_bytes else data


# --- seeds ------------------------------------------------------------------------------------


def _scaled(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` behind a product with weights, so that there is something to train."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    source = graph.input[-1]
    shape = [dim.dim_value for dim in source.type.tensor_type.shape.dim]
    graph.initializer.append(numpy_helper.from_array(models.weights(*shape), "scale_w"))
    first = helper.make_node("Mul", ["unscaled", "scale_w"], [source.name])
    nodes = [first, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    source.name = "unscaled"
    return made


def seeds(most_bytes: int, folder: Path) -> Iterator[bytes]:
    """Small models that the front end takes: networks of the tests, and onnx's own cases with one
    input given at run time and the others stored, which makes weights of them.
    """
    found = [models.mlp("N", (3, 4, 2)), models.mlp(2, (3, 4, 2)), models.cnn("N", 1, 8, 2, 2)]
    found += [models.cnn(1, 1, 8, 2, 2, softmax=True), models.residual("N", 2, 4)]
    for case in onnx_cases.cases().values():
        found += [onnx_cases.runnable(case, [name]).model for name in case.floats[:2]]
        if len(case.floats) == 1:
            found.append(_scaled(found[-1]))
    path = folder / "seed.onnx"
    for model in found:
        data = model.SerializeToString()
        path.write_bytes(data)
        try:
            if len(data) <= most_bytes and not check_model(path):
                yield data
        except PoetError:
            continue
