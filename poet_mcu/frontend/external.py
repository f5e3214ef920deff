"""Tensors whose bytes lie in files beside the model, read with care: names come from the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx

from poet_mcu.errors import ModelError

_MAX_BYTES = 2**31


def load_external(path: Path, proto: onnx.ModelProto) -> list[bytes]:
    """Move all external data into ``proto``; the blobs read, in order.

    Raises ModelError when a location leaves the model's folder or a file is missing or short.
    """
    blobs = []
    total = 0
    for tensor in _tensors(proto):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        blob = _read(path, tensor, _MAX_BYTES - total)
        total += len(blob)
        tensor.raw_data = blob
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
        blobs.append(blob)
    return blobs


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from proto.graph.initializer
    nodes = [*proto.graph.node, *(n for f in proto.functions for n in f.node)]
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _read(path: Path, tensor: onnx.TensorProto, limit_bytes: int) -> bytes:
    where = f"{path}: tensor '{tensor.name}'"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    target = _resolve(path, where, entries.get("location", ""))
    try:
        offset = int(entries.get("offset", "0"))
        size_bytes = target.stat().st_size
        length = int(entries.get("length", str(size_bytes - offset)))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{where}: expected offset and length of readable external data, got: {error}; "
            "export the model again"
        ) from error
    if offset < 0 or length < 0 or offset + length > size_bytes:
        raise ModelError(
            f"{where}: expected {length} bytes at {offset} in '{target.name}', got a file of "
            f"{size_bytes} bytes; copy it again beside the model"
        )
    if length > limit_bytes:
        raise ModelError(f"{where}: expected less than 2 GiB of data in all, got {length} more")
    try:
        with target.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except OSError as error:
        raise ModelError(f"{where}: expected readable data, got: {error.strerror}") from error


def _resolve(path: Path, where: str, location: str) -> Path:
    """The file ``location`` names, which must lie in the model's folder, also through links."""
    folder = path.parent.resolve()
    parts = (*PurePosixPath(location).parts, *PureWindowsPath(location).parts)
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).drive
    if not location or "\0" in location or absolute or ".." in parts:
        raise ModelError(
            f"{where}: expected external data beside the model, got '{location}'; "
            "export with a plain file name as location"
        )
    target = (folder / location).resolve()
    if not target.is_relative_to(folder):
        raise ModelError(
            f"{where}: expected external data beside the model, got '{location}', a link that "
            "leaves the folder; copy the file there"
        )
    if not target.is_file():
        raise ModelError(
            f"{where}: expected external data in '{location}', got no such file; "
            "copy it beside the model"
        )
    return target
