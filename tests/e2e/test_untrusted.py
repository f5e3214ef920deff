"""Files from strangers through the command line: told by name, nothing half-written.

docs/security.md says what is trusted. The exit code is that of bad input (2), or 0 where a harmless
reading exists; ``run`` fails at a traceback, and 70 (our own bug) is never accepted.
"""

from __future__ import annotations

import io
import json
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import pytest
from models import node, weights
from onnx import helper, numpy_helper

BOARD = "qemu-m7-sd"
DEEP = 100_000


@pytest.fixture(scope="module")
def host_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from poet_mcu.cli import main  # noqa: PLC0415 - as the command line has it

    folder = tmp_path_factory.mktemp("hb")
    path = models.save(models.mlp("N"), folder / "mlp.onnx")
    assert main(["build", str(path), "--board", "host", "--batch", "2", "-o", f"{folder}/b"]) == 0
    return folder / "b"


def refused(found: Any, path: Path, *words: str) -> None:
    """Bad input, named by its file."""
    assert found.code == 2, found.err
    assert path.name in found.err, found.err
    for word in words:
        assert word in found.err, found.err


# ---- models ----


def proto(nodes: list[Any], x: list[int], tensors: dict[str, Any] | None = None) -> bytes:
    """Bytes of a model that nobody has checked; its output has symbolic dimensions."""
    stored = [numpy_helper.from_array(np.asarray(a), name) for name, a in (tensors or {}).items()]
    y = models.info("y", ["u"] * len(x))
    graph = helper.make_graph(nodes, "g", [models.info("x", x)], [y], stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def nested(depth: int) -> bytes:
    """Graphs in attributes of nodes in graphs."""

    def field(tag: int, body: bytes) -> bytes:
        size, out = len(body), b""
        while size > 127:
            out, size = out + bytes([size & 127 | 128]), size >> 7
        return bytes([tag << 3 | 2]) + out + bytes([size]) + body

    inner = b""
    for _ in range(depth):
        inner = field(1, field(5, field(6, inner)))
    return b"\x08\x08" + field(7, inner) + field(8, b"\x10\x11")


def external(location: str) -> bytes:
    made = onnx.ModelProto()
    made.ParseFromString(proto([node("MatMul", "x w", "y")], [2, 4], {"w": weights(4, 3)}))
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return bytes(made.SerializeToString())


I64 = np.int64
HUGE = np.asarray([200_000, 200_000], I64)
CONV = {"w": weights(1, 1, 3, 3)}
MODELS: dict[str, bytes] = {
    "no protobuf": b"\x08\x08\x3a\xff\xff\xff\xff\x7f",
    "nested beyond all limits": nested(5000),
    "nested within them": nested(20),
    "a cycle": proto(
        [node("Add", "x b", "a"), node("Relu", "a", "b"), node("MatMul", "b w", "y")],
        [2, 4], {"w": weights(4, 3)},
    ),
    "an input from nowhere": proto([node("Add", "x nowhere", "y")], [2, 4]),
    "one name twice": proto([node("Relu", "x", "y"), node("Neg", "x", "y")], [2, 4]),
    "a huge input": proto([node("Relu", "x", "y")], [2**40, 2**40]),
    "sizes that overflow 64 bits": proto([node("Relu", "x", "y")], [2**31, 2**31, 2, 2]),
    "a negative dimension": proto([node("Relu", "x", "y")], [2, -4]),
    "a constant of 40 GB": proto(
        [node("ConstantOfShape", "s", "c"), node("Add", "x c", "y")], [1, 4], {"s": HUGE}
    ),
    "an expansion": proto([node("Expand", "x s", "y")], [1, 4], {"s": HUGE * 100}),
    "tiles": proto(
        [node("Tile", "k s", "c"), node("Add", "x c", "y")], [1, 4], {"k": weights(1, 4), "s": HUGE}
    ),
    "a padding": proto(
        [node("Pad", "x s", "y")], [1, 4], {"s": np.asarray([0, 2**40, 0, 2**40], I64)}
    ),
    "a range": proto(
        [node("Range", "a b d", "c"), node("Add", "x c", "y")], [1, 4],
        {"a": np.float32(0), "b": np.float32(1e12), "d": np.float32(1)},
    ),
    "an enlargement": proto(
        [node("Resize", "x - f", "y")], [1, 1, 4, 4], {"f": np.float32([1, 1, 1e9, 1e9])}
    ),
    "an interpolation": proto(
        [node("Resize", "x - f", "y", mode="linear")], [1, 1, 8000, 4],
        {"f": np.float32([1, 1, 4, 1])},
    ),
    "a huge kernel": proto(
        [node("MaxPool", "x", "y", kernel_shape=[2**31 - 1] * 2)], [1, 1, 4, 4]
    ),
    "huge strides": proto([node("Conv", "x w", "y", strides=[2**62] * 2)], [1, 1, 4, 4], CONV),
    "no groups": proto([node("Conv", "x w", "y", group=0)], [1, 1, 4, 4], CONV),
    "weights that are no numbers": proto(
        [node("MatMul", "x w", "y")], [2, 4], {"w": np.full((4, 3), np.nan, np.float32)}
    ),
    "infinite weights": proto(
        [node("MatMul", "x w", "y")], [2, 4], {"w": np.full((4, 3), np.inf, np.float32)}
    ),
    "data of another folder": external("../../etc/passwd"),
    "data by an absolute path": external("/etc/passwd"),
    "data in a device": external("/dev/zero"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
def test_models(run: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "stranger.onnx"
    path.write_bytes(MODELS[kind])
    out = tmp_path / "out"
    words = ("--board", BOARD, "--loss", "mse", "-o", out)
    refused(run("build", path, *words), path)
    assert [p.name for p in tmp_path.iterdir()] == ["stranger.onnx"]
    assert run("check", path).code == 2 or "enlarge" not in kind


NAMES = {
    "a comment's end": "w */ #error x /*",
    "a string's end": 'w"; int x = 1; //',
    "a template": "{{ 7 * 7 }} {% raw %} {# x #} %% for i in x",
    "line breaks": "w\n#error x\r\n%% endfor\n",
    "a backslash at the end": "w \\",
    "a trigraph": "w ??/ ??)",
    "a path": "../../../../tmp/w",
    "a format": "%s%s%n $(id) `id`",
    "right to left": "w\u202e\u2066 x",
    "as long as the line carries": "w" * 400,
}


def test_names_never_leave_their_strings_and_comments(run: Any, tmp_path: Path) -> None:
    """The firmware compiles with every warning an error, and the names come back unharmed."""
    made = models.mlp(2, (6, 5, 5, 5, 5, 4))
    old = [tensor.name for tensor in made.graph.initializer]
    new = dict(zip(old, NAMES.values(), strict=True))
    for tensor in made.graph.initializer:
        tensor.name = new[tensor.name]
    for number, item in enumerate(made.graph.node):
        item.input[:] = [new.get(i, i) for i in item.input]
        item.name = f"{number} {list(NAMES.values())[number]}"
    made.graph.name = NAMES["a comment's end"]
    path = models.save(made, tmp_path / "names.onnx")
    built = run("build", path, "--board", "host", "-o", tmp_path / "out")
    assert built.code == 0, built.err
    assert "7 * 7 }}" in (tmp_path / "out" / "src" / "poet_model.c").read_text()
    dump = tmp_path / "d.npz"
    found = run("validate", tmp_path / "out", "--emulate", "--steps", 1, "--dump", dump)
    assert found.code == 0, found.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.npz", "names.onnx", "out"]


def test_tflite_files(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "stranger.tflite"
    rng = np.random.default_rng(0)
    for size in (8, 9, 64, 4000):
        path.write_bytes(b"\x10\0\0\0TFL3" + rng.bytes(size - 8))
        refused(run("check", path), path)
        refused(run("build", path, "--board", BOARD, "-o", tmp_path / "out"), path)
    path.write_bytes(b"\xff\xff\xff\xffTFL3" + b"\xff" * 100)
    refused(run("check", path), path)
    assert [p.name for p in tmp_path.iterdir()] == ["stranger.tflite"]


# ---- board files ----

BOARDS = {
    "no TOML": "= 1",
    "not UTF-8": b"\xff\xfe\x00",
    "deep tables": "a" + ".a" * DEEP + " = 1",
    "deep lists": "a = " + "[" * DEEP,
    "numbers beyond 64 bits": 'extends = "qemu-m7-sd"\n[runtime]\nstack_bytes = ' + "9" * 400,
    "itself": 'extends = "stranger"',
    "another folder": 'extends = "../../../etc/stranger"',
    "an absolute path": 'extends = "/etc/stranger"',
    "a port outside the folder": 'extends = "qemu-m7-sd"\nname = "x"\nport = "../../../tmp"',
    "a name with a path": 'extends = "qemu-m7-sd"\nname = "../x"',
    "a compiler's option": (
        'extends = "qemu-m7-sd"\nname = "x"\n[core]\ncpu = "cortex-m7 -o /tmp/x"\nsource = "x"'
    ),
    "an emulator's option": (
        'extends = "qemu-m7-sd"\nname = "x"\n[emulator]\nmachine = "lm3s6965evb,dumpdtb=/tmp/x"\n'
        'source = "x"'
    ),
}


@pytest.mark.parametrize("kind", BOARDS)
def test_board_files(run: Any, model: Path, tmp_path: Path, kind: str) -> None:
    path, content = tmp_path / "stranger.toml", BOARDS[kind]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    words = ("--board", path, "--batch", 2, "-o", tmp_path / "out")
    refused(run("build", model, *words), path)
    assert [p.name for p in tmp_path.iterdir()] == ["stranger.toml"]


# ---- data ----


class Bad:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (open, ("pickle-ran", "w"))


def npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def archive(**members: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return made.getvalue()


def shape(text: str) -> str:
    return f"{{'descr': '<f4', 'fortran_order': False, 'shape': {text}, }}"


DATA: dict[str, Callable[[], bytes]] = {
    "a pickle": lambda: pickle.dumps(Bad()),
    "pickled arrays": lambda: archive(
        x=npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps([Bad()])),
        y=npy(shape("(1,)"), bytes(4)),
    ),
    "a shape of 4 TB": lambda: archive(x=npy(shape("(1000000000000,)")), y=b""),
    "a shape beyond 64 bits": lambda: archive(x=npy(shape(f"({10**30}, 6)")), y=b""),
    "a negative shape": lambda: archive(x=npy(shape("(-1, 6)")), y=b""),
    "a header that is code": lambda: archive(x=npy("__import__('os').abort()"), y=b""),
    "a deep header": lambda: archive(x=npy("(" * 100), y=b""),
    "a bomb": lambda: archive(x=npy(shape("(2, 6)"), bytes(2**26)), y=npy(shape("(2,)"), b"")),
    "no members": archive,
}


@pytest.mark.parametrize("kind", DATA)
def test_data(
    run: Any, host_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "stranger.npz"
    path.write_bytes(DATA[kind]())
    save = tmp_path / "trained.onnx"
    for verb in (("train", "--save", save), ("validate", "--dump", save)):
        refused(run(verb[0], host_build, "--data", path, "--emulate", *verb[1:]), path)
    assert [p.name for p in tmp_path.iterdir()] == ["stranger.npz"]


# ---- JSON: problems, sweeps, builds ----


def op(**changes: Any) -> dict[str, Any]:
    made = {
        "name": "a", "backward": False, "inputs": [], "output_bytes": 4, "compute_s": 1.0,
        "compute_j": 1.0, "page_in_s": 1.0, "page_out_s": 1.0, "page_in_j": 1.0, "page_out_j": 1.0,
    }  # fmt: skip
    return made | changes


def zoo(*nodes: dict[str, Any], **changes: Any) -> str:
    made = {"model": "m", "platform": "p", "forward_bytes": 8, "base_j": 1.0, "base_s": 1.0}
    return json.dumps(made | {"nodes": list(nodes)} | changes)


PROBLEMS = {
    "no JSON": "{",
    "deep": "[" * DEEP,
    "deep objects": '{"nodes":' * DEEP,
    "a number of 5000 digits": '{"nodes": ' + "9" * 5000 + "}",
    "nodes that are none": zoo(nodes=7),
    "an input from nowhere": zoo(op(inputs=[5])),
    "itself as input": zoo(op(inputs=[0])),
    "a later input": zoo(op(inputs=[1]), op()),
    "negative bytes": zoo(op(output_bytes=-4)),
    "bytes as text": zoo(op(output_bytes="4")),
    "no number of seconds": zoo(op(compute_s=float("nan"))),
    "endless seconds": zoo(op(compute_s=float("inf"))),
    "negative joules": zoo(op(compute_j=-1.0)),
    "another format": '{"format": "x"}',
    "an empty problem": '{"format": "poet-mcu problem 1", "problem": {}}',
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_problem_files(run: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "stranger.json"
    path.write_text(PROBLEMS[kind])
    refused(run("plan", "--problem", path, "--ram", "1.0"), path)


POINTS = ["{", "[]", "7", '{"key": 1}', '{"key": "x", "row": 7}', "[" * DEEP, "\x00", '"\\ud800"']


def test_points_of_a_sweep_that_somebody_changed(run: Any, model: Path, tmp_path: Path) -> None:
    """Lines that are none of ours are done again; the results are those of an honest folder."""
    words = ("sweep", model, "--board", BOARD, "--batch", 2, "--jobs", 1, "--ram", "20K", "--json")
    honest = run(*words, "-o", tmp_path / "a")
    assert honest.code == 0, honest.err
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    points = tmp_path / "b" / "points.jsonl"
    points.write_text("\n".join([*POINTS, points.read_text()[:-9]]))
    again = run(*words, "-o", tmp_path / "b")
    assert again.code == 0, again.err
    key = "energy_j"
    assert [r[key] for r in again.json["rows"]] == [r[key] for r in honest.json["rows"]]


def changed(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


BUILDS: dict[str, Callable[[Path], object]] = {
    "manifest: deep": lambda b: (b / "manifest.json").write_text("[" * DEEP),
    "manifest: a list": lambda b: (b / "manifest.json").write_text("[]"),
    "manifest: an id of text": lambda b: changed(b / "manifest.json", build_id="xyz"),
    "manifest: a short id": lambda b: changed(b / "manifest.json", build_id="00"),
    "manifest: an id of numbers": lambda b: changed(b / "manifest.json", build_id=7),
    "manifest: no options": lambda b: changed(b / "manifest.json", options=7),
    "manifest: unknown options": lambda b: changed(b / "manifest.json", options={"model": "/x"}),
    "manifest: wrong options": lambda b: changed(b / "manifest.json", options={"lr": "fast"}),
    "plan: no JSON": lambda b: (b / "plan.json").write_text("{"),
    "plan: a list": lambda b: (b / "plan.json").write_text("[]"),
    "plan: empty": lambda b: (b / "plan.json").write_text("{}"),
    "board: no JSON": lambda b: (b / "board.json").write_text("{"),
    "board: deep": lambda b: (b / "board.json").write_text("[" * DEEP),
    "board: another kind": lambda b: changed(b / "board.json", kind="x"),
    "board: a port elsewhere": lambda b: changed(b / "board.json", port="../x"),
    "model: damaged": lambda b: (b / "model.onnx").write_bytes(b"\x08\x08\x3a\xff"),
    "card: a folder": lambda b: ((b / "card.img").unlink(), (b / "card.img").mkdir()),
}


@pytest.mark.parametrize("kind", BUILDS)
def test_build_folders(run: Any, host_build: Path, tmp_path: Path, kind: str) -> None:
    """``validate``, ``train`` and ``card`` believe no file of a build folder."""
    folder = tmp_path / "stranger"
    shutil.copytree(host_build, folder)
    BUILDS[kind](folder)
    data = tmp_path / "d.npz"
    np.savez(data, x=np.zeros((4, 6), np.float32), y=np.zeros(4, np.int32))
    save = tmp_path / "trained.onnx"
    found = run("train", folder, "--data", data, "--emulate", "--save", save)
    assert found.code == 2, found.err
    refused(run("validate", folder, "--emulate", "--steps", 1), folder)
    if kind.startswith(("manifest: an id", "plan")):
        refused(run("card", "info", host_build / "card.img", "--build", folder), folder)
    assert not save.exists()
