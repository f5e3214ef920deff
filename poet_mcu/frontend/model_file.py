"""Reads a model file: is it one, is it whole, is it of a version we know."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnx.checker
import onnx.inliner
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from poet_mcu.errors import ModelError
from poet_mcu.frontend.external import load_external
from poet_mcu.frontend.problems import node_label, node_op
from poet_mcu.frontend.tflite_file import MAGIC
from poet_mcu.frontend.tflite_import import BATCH_KEY, onnx_of_tflite

OLDEST_OPSET = 7
MAX_BYTES = 2**31
ONNX_DOMAINS = ("", "ai.onnx")

# First bytes of files that people give by mistake: (offset, bytes, what it is, what to do).
_FOREIGN = (
    (0, b"PK\x03\x04", "a zip archive (PyTorch or Keras)", "export it to ONNX first"),
    (0, b"\x89HDF", "an HDF5 file (Keras)", "convert it with tf2onnx first"),
    (4, b"ORTM", "an ONNX Runtime .ort file", "give the .onnx file it was made from"),
    (0, b"version https://git-lfs", "a Git LFS pointer", "run 'git lfs pull' first"),
)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A checked model; external data is loaded and local functions are inlined.

    ``sha256`` covers the file and its external data. ``batch`` is what a symbolic batch stands for
    where nobody says more, None where that must be said. ``notes`` are sentences for the user.
    """

    path: Path
    proto: onnx.ModelProto
    opset: int
    sha256: str
    batch: int | None = None
    notes: tuple[str, ...] = ()


def read_model(path: Path) -> ModelFile:
    """The model in ``path``, ONNX or TensorFlow Lite, as ONNX.

    Raises ModelError when it is not a whole, valid model.
    """
    data = _read_bytes(path)
    notes: tuple[str, ...] = ()
    if data[4:8] == MAGIC:
        proto, notes = onnx_of_tflite(path, data)
    else:
        proto = _parse(path, data)
    _check_text(path, proto)
    opset = _check_versions(path, proto)
    digest = hashlib.sha256(data)
    for blob in load_external(path, proto):
        digest.update(blob)
    proto = _inline(path, proto)
    _run_checker(path, proto)
    return ModelFile(path, proto, opset, digest.hexdigest(), _own_batch(proto), notes)


def _own_batch(proto: onnx.ModelProto) -> int | None:
    """The batch of the file that the model was converted from."""
    for item in proto.metadata_props:
        if item.key == BATCH_KEY and item.value.isdecimal() and int(item.value):
            return int(item.value)
    return None


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise ModelError(f"{path}: expected an ONNX file, got a directory; name the .onnx file")
    if not path.is_file():
        raise ModelError(f"{path}: expected an ONNX file, got no such file; check the path")
    try:
        if path.stat().st_size >= MAX_BYTES:
            raise ModelError(f"{path}: expected less than 2 GiB, got {path.stat().st_size} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: expected a readable file, got: {error.strerror}") from error
    if not data:
        raise ModelError(f"{path}: expected an ONNX file, got an empty file; export it again")
    return data


def _parse(path: Path, data: bytes) -> onnx.ModelProto:
    for offset, magic, what, hint in _FOREIGN:
        if data[offset : offset + len(magic)] == magic:
            raise ModelError(f"{path}: expected an ONNX file, got {what}; {hint}")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(f"{path}: expected an ONNX file, got {_describe(data)}") from error
    if not proto.HasField("graph") or not proto.ir_version:
        raise ModelError(
            f"{path}: expected an ONNX model, got another protobuf (no graph or no IR version); "
            "export the model again"
        )
    return proto


def _describe(data: bytes) -> str:
    head = data[:64]
    if all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in head):
        start = head[:20].decode("ascii")
        return f"text that begins with {start!r}; give the binary .onnx file"
    return "a damaged or truncated file; copy or export it again"


def _check_versions(path: Path, proto: onnx.ModelProto) -> int:
    """The opset of ONNX's own domain."""
    if proto.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"{path}: ir_version: expected at most {onnx.IR_VERSION}, got {proto.ir_version}; "
            "upgrade the onnx package or export with an older one"
        )
    versions = [o.version for o in proto.opset_import if o.domain in ONNX_DOMAINS]
    if len(versions) != 1:
        raise ModelError(
            f"{path}: opset_import: expected one opset of domain 'ai.onnx', got {len(versions)}; "
            "export the model again"
        )
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= versions[0] <= newest:
        where = "model"
        if proto.graph.node:
            first = proto.graph.node[0]
            where = f"{node_label(0, first)} ({node_op(first)})"
        raise ModelError(
            f"{path}: {where}: expected opset {OLDEST_OPSET}..{newest}, got {versions[0]}; "
            "export with another opset or use onnx.version_converter"
        )
    return int(versions[0])


def _inline(path: Path, proto: onnx.ModelProto) -> onnx.ModelProto:
    """Local functions (the PyTorch dynamo exporter writes them) become plain nodes."""
    if not proto.functions:
        return proto
    try:
        return onnx.inliner.inline_local_functions(proto)
    except (onnx.checker.ValidationError, RuntimeError, ValueError, TypeError) as error:
        raise ModelError(
            f"{path}: functions: expected local functions that can be inlined, "
            f"got: {first_line(error)}"
        ) from error


def _run_checker(path: Path, proto: onnx.ModelProto) -> None:
    try:
        onnx.checker.check_model(proto)
    except (
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        RuntimeError,
        ValueError,
        TypeError,
    ) as error:
        raise ModelError(
            f"{path}: expected a valid model, got: {first_line(error)}; export the model again"
        ) from error


def _check_text(path: Path, message: Any) -> None:
    """Look at every string once: damaged ones come out of protobuf as bytes, at first use."""
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_MESSAGE, field.TYPE_STRING):
            continue
        single = isinstance(value, str | bytes) or hasattr(value, "ListFields")
        for item in (value,) if single else value:
            if field.type == field.TYPE_MESSAGE:
                _check_text(path, item)
            elif field.type == field.TYPE_STRING:
                _check_string(path, field.name, item)


def _check_string(path: Path, field: str, text: str | bytes) -> None:
    if isinstance(text, bytes):
        raise ModelError(
            f"{path}: {field}: expected text in UTF-8, got {text[:20]!r}; export the model again"
        )
    if "\0" in text and field != "doc_string":
        raise ModelError(f"{path}: {field}: expected a name without NUL, got {text!r}; rename it")


def first_line(error: Exception) -> str:
    """The first line of a library's message; those of onnx go on with a dump of the node."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
