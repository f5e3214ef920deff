"""Fuzz target: bytes as one of the other files that people hand over.

The first byte says which: a board (TOML or JSON), a problem of the planner, the manifest or the
plan of a build folder, the image of a card. A refusal is a PoetError that is no InternalError.
"""

from __future__ import annotations

import functools
import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import models
from onnx import ModelProto

from poet_mcu import resources
from poet_mcu.board.load import board_text, list_boards, load_board
from poet_mcu.codegen.bundle import BOARD_FILE, MANIFEST, card_header
from poet_mcu.errors import InternalError, PoetError
from poet_mcu.ir.placement import CheckpointSlots
from poet_mcu.link.card_image import read_card
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import budget_for
from poet_mcu.pipeline.prepare import prepare
from poet_mcu.pipeline.problem_file import (
    ProblemOptions,
    export_problem,
    poet_semantics,
    read_problem,
)
from poet_mcu.pipeline.stepplan import BASELINES
from poet_mcu.pipeline.target import open_folder
from poet_mcu.schedule import Problem, fits, largest_working_set, simulate
from poet_mcu.schedule.pricing import make_problem
from poet_mcu.toolchain.flags import compile_flags, host_twin, link_flags

KINDS = ("toml", "json", "problem", "manifest", "plan", "image")
_JSON = ("json", "problem", "manifest", "plan")
BOARD = "qemu-m7-sd"
_SECTOR = 512


def one_input(data: bytes, folder: Path) -> str:
    """Read ``data``: 'read', or 'refused'."""
    kind = KINDS[data[0] % len(KINDS)] if data else "toml"
    try:
        _READERS[kind](data[1:], folder)
    except InternalError:
        raise
    except PoetError:
        return "refused"
    return "read"


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _board(data: bytes, folder: Path, suffix: str) -> None:
    board = load_board(_written(folder / f"fuzzed.{suffix}", data))
    for each in (board, host_twin(board)):
        compile_flags(each)
        link_flags(each)
    path = _written(folder / "again.json", board_text(board).encode())
    if load_board(path) != board:
        raise AssertionError("a board is not what its own text gives")


def _problem(data: bytes, folder: Path) -> None:
    path = _written(folder / "problem.json", data)
    problem = read_problem(ProblemOptions(path))
    if len(problem.ops) > 60 or len(problem.tensors) > 120:
        return
    largest_working_set(problem)
    for make in BASELINES.values():
        fits(problem, simulate(problem, make(problem)))
    poet_semantics(problem)
    export_problem(problem, folder / "again.json")
    if repr(read_problem(ProblemOptions(folder / "again.json"))) != repr(problem):  # nan != nan
        raise AssertionError("a problem is not what its own export gives")


def _build_folder(folder: Path, name: str, data: bytes) -> None:
    whole = {MANIFEST: _manifest(), "plan.json": b"{}", BOARD_FILE: _board_json()}
    for file, usual in {**whole, name: data}.items():
        _written(folder / file, usual)
    _written(folder / "model.onnx", _model().SerializeToString())
    found = open_folder(folder)
    if len(found.build_id) != 16:
        raise AssertionError("a build id is 16 bytes")
    found.prepared()


def _image(data: bytes, folder: Path) -> None:
    image = read_card(_written(folder / "card.img", data))
    for slot in image.slots:
        if slot.state == "whole" and len(image.data(slot)) != slot.data_blocks * _SECTOR:
            raise AssertionError("a whole slot has all of its blocks")
    newest = image.newest
    if newest is not None and newest.state != "whole":
        raise AssertionError("the newest checkpoint is a whole one")


_READERS: dict[str, Callable[[bytes, Path], None]] = {
    "toml": lambda data, folder: _board(data, folder, "toml"),
    "json": lambda data, folder: _board(data, folder, "json"),
    "problem": _problem,
    "manifest": lambda data, folder: _build_folder(folder, MANIFEST, data),
    "plan": lambda data, folder: _build_folder(folder, "plan.json", data),
    "image": _image,
}


# --- mutation by structure --------------------------------------------------------------------

_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 16, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.5, 1e308, 1e-308,
    float("inf"), float("nan"), "", "x", "../../x", "\N{SNOWMAN}", [], {}, [1], ["x"], [[0, 0]],
)  # fmt: skip
_TOML = (
    "0", "-1", "1", "2", "1e308", "inf", "nan", "true", '""', '"x"', "[]", "{}", '["x"]', "0x10",
    "1_000", "9223372036854775807", "99999999999999999999", "1979-05-27", '"../x"', '["host"]',
)  # fmt: skip


def mutate(
    data: bytes, most_bytes: int, seed: int, by_bytes: Callable[[bytes, int], bytes]
) -> bytes:
    """Another file of the same kind near ``data``; now and then, and where it is none, bytes."""
    rng = random.Random(seed)
    kind = KINDS[data[0] % len(KINDS)] if data else "toml"
    made = b""
    if rng.random() > 0.15:
        try:
            made = data[:1] + _MUTATORS[kind](data[1:], rng)
        except (ValueError, RecursionError, OverflowError):
            made = b""
    return made if 0 < len(made) <= most_bytes else by_bytes(data, most_bytes)


def _containers(tree: Any) -> list[Any]:
    found, todo = [], [tree]
    while todo:
        each = todo.pop()
        if isinstance(each, dict | list) and each:
            found.append(each)
            todo += list(each.values() if isinstance(each, dict) else each)
    return found


def _new_value(old: Any, found: list[Any], rng: random.Random) -> Any:
    if isinstance(old, int | float) and not isinstance(old, bool) and rng.random() < 0.5:
        return rng.choice((old + 1, old - 1, -old, old * 2, old * 1024, old % 1000))
    return rng.choice((*_VALUES, rng.choice(found)))


def _mutate_json(data: bytes, rng: random.Random) -> bytes:
    tree = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        found = _containers(tree)
        if not found:
            return json.dumps(rng.choice(_VALUES)).encode()
        where = rng.choice(found)
        key = rng.choice(list(where)) if isinstance(where, dict) else rng.randrange(len(where))
        what = rng.random()
        copy = json.loads(json.dumps(_new_value(where[key], found, rng)))
        if what < 0.15:
            del where[key]
        elif what < 0.25 and isinstance(where, list):
            where.insert(key, copy)
        elif what < 0.25:
            where[rng.choice(("x", "extends", "id", str(key) + "_s"))] = copy
        else:
            where[key] = copy
    return json.dumps(tree, separators=(",", ":")).encode()


def _mutate_toml(data: bytes, rng: random.Random) -> bytes:
    lines = data.decode(errors="replace").splitlines() or [""]
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        key, equals, _ = lines[at].partition("=")
        what = rng.random()
        if what < 0.15:
            del lines[at]
        elif what < 0.3:
            lines.insert(at, lines[other])
        elif equals and what < 0.8:
            lines[at] = f"{key}= {rng.choice(_TOML)}"
        elif equals:
            lines[at] = (
                rng.choice(("x", "source", key + "x", "a.b")) + " =" + lines[at][len(key) + 1 :]
            )
        else:
            lines[at] = rng.choice((lines[other], "[x]", "[[x]]", "[memory.x]", "[cost.x]"))
        lines = lines or [""]
    return "\n".join(lines).encode()


def _mutate_image(data: bytes, rng: random.Random) -> bytes:
    """Fields of the region's header or of a slot's, whose checksum is then made right."""
    image = bytearray(data.ljust(8 * _SECTOR, b"\0"))
    block = rng.choice((0, 0, 2, 4, rng.randrange(len(image) // _SECTOR))) * _SECTOR
    size = 48 if image[block : block + 13] == b"POET-MCU CARD" else 112
    at = rng.randrange(16, size - 3)
    numbers = (0, 1, 2, 4, 8, 2**31, 2**32 - 1, rng.randrange(16))
    struct.pack_into("<I", image, block + at, rng.choice(numbers))
    if rng.random() < 0.9:
        crc = zlib.crc32(image[block : block + size])
        struct.pack_into("<I", image, block + size, crc)
    return bytes(image)


_MUTATORS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "toml": _mutate_toml,
    "image": _mutate_image,
    **dict.fromkeys(_JSON, _mutate_json),
}


# --- seeds ------------------------------------------------------------------------------------


def _model() -> ModelProto:
    return models.mlp("N", (3, 4, 2))


@functools.cache
def _board_json() -> bytes:
    return board_text(load_board(BOARD)).encode()


def _manifest() -> bytes:
    options = {"loss": "mse", "optimizer": "momentum", "lr": 0.01, "batch": 1, "train": ["*"]}
    return json.dumps({"build_id": "00" * 16, "options": options}).encode()


def _problem_json(folder: Path) -> bytes:
    path = models.save(_model(), folder / "m.onnx")
    made = prepare(Options(path, BOARD, batch=1))
    problem: Problem = make_problem(made.train, made.board, budget_for(made).arena_bytes)
    export_problem(problem, folder / "problem.json")
    return json.dumps(json.loads((folder / "problem.json").read_bytes())).encode()


def _zoo_json() -> bytes:
    node = {
        "backward": False,
        "inputs": [],
        "output_bytes": 64,
        "compute_s": 1e-3,
        "compute_j": 1e-4,
    }
    costs = {f"page_{way}_{unit}": 1e-4 for way in ("in", "out") for unit in "sj"}
    nodes = [{"name": f"n{k}", **node, **costs, "inputs": [k - 1] if k else []} for k in range(4)]
    head = {"model": "m", "platform": "p", "forward_bytes": 256, "base_j": 4e-4, "base_s": 4e-3}
    return json.dumps({**head, "nodes": nodes}).encode()


def _card_image() -> bytes:
    """A header, two slots of two blocks, one of them with a checkpoint."""
    build = bytes(range(16))
    image = bytearray(card_header(build, 8, CheckpointSlots(2, 2, ())))
    image += bytes(7 * _SECTOR)
    data = bytes(_SECTOR)
    body = struct.pack(
        "<16sI16s32s5If16sI", b"POET-MCU CHECKPT", 1, build, bytes(32), 0, 2, 5, 1, 9, 0.5,
        bytes(16), zlib.crc32(data, 5),
    )  # fmt: skip
    body += struct.pack("<I", zlib.crc32(body))
    image[2 * _SECTOR : 2 * _SECTOR + len(body)] = body
    return bytes(image)


def seeds(most_bytes: int, folder: Path) -> Iterator[bytes]:
    """A whole file of each kind, and every board."""
    found: list[tuple[str, bytes]] = [
        ("problem", _problem_json(folder)),
        ("problem", _zoo_json()),
        ("manifest", _manifest()),
        ("plan", b"{}"),
        ("image", _card_image()),
        ("json", json.dumps(json.loads(_board_json()), separators=(",", ":")).encode()),
    ]
    boards = sorted(resources.boards().rglob("*.toml"))
    found += [("toml", path.read_bytes()) for path in boards]
    assert len(found) > len(list_boards())
    for kind, data in found:
        if len(data) < most_bytes:
            yield bytes([KINDS.index(kind)]) + data
