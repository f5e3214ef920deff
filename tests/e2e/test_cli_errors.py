"""Every way a command can fail: exit code, words, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import models
import onnx
import pytest

from poet_mcu.cli import main

BOARD = "qemu-m7-sd"


def expect(found: Any, code: int, *words: str) -> None:
    assert found.code == code, found.err
    for word in words:
        assert word in found.err, found.err


def test_missing_model(run: Any, tmp_path: Path) -> None:
    found = run("plan", tmp_path / "none.onnx", "--board", BOARD)
    expect(found, 2, "none.onnx", "no such file")


@pytest.mark.parametrize("content", [b"", b"hello, this is text\n", b"\x89PNG\r\n\x1a\n" * 10])
def test_not_onnx(run: Any, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    for verb in (("plan", path, "--board", BOARD), ("check", path)):
        expect(run(*verb), 2, "m.onnx", "ONNX")


def test_truncated_onnx(run: Any, model: Path, tmp_path: Path) -> None:
    whole = model.read_bytes()
    path = tmp_path / "cut.onnx"
    for size in range(1, len(whole), max(1, len(whole) // 23)):
        path.write_bytes(whole[:size])
        expect(run("check", path), 2, "cut.onnx")


def test_unsupported_nodes_are_listed_all_at_once(run: Any, tmp_path: Path) -> None:
    nodes = [
        models.node("Sin", "x", "a", "first"),
        models.node("Relu", "a", "b"),
        models.node("Cos", "b", "y", "second"),
    ]
    path = models.save(models.model(nodes, [1, 4], y=[1, 4]), tmp_path / "odd.onnx")
    found = run("check", path, "--json")
    assert {p["node"] for p in found.json["problems"]} == {
        "node 0 'first'",
        "node 2 'second'",
    }
    expect(found, 2, "node 0 'first' (Sin): ", "node 2 'second' (Cos): ")


def test_unknown_board_names_the_nearest(run: Any, model: Path) -> None:
    found = run("plan", model, "--board", "qemu-m7-ds", "--batch", 2)
    expect(found, 2, "qemu-m7-ds", "did you mean", "qemu-m7-sd")


def test_missing_batch(run: Any, model: Path) -> None:
    expect(run("plan", model, "--board", BOARD), 2, "--batch")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--loss", "mae"),
            "--loss: expected one of cross-entropy, bce, mse, l1, huber, none, got 'mae'",
        ),
        (("--optimizer", "sdg"), "did you mean 'sgd'?"),
        (("--strategy", "magic"), "--strategy: expected one of optimal"),
        (("--solver", "gurobi"), "--solver: expected one of highs, cbc"),
        (("--ram", "much"), "--ram: expected a size such as 192K"),
        (("--ram", "0"), "--ram: expected a number above 0"),
        (("--deadline", "soon"), "--deadline: expected a time such as 2s"),
        (("--lr", "-1"), "--lr: expected a number above 0"),
        (("--lr", "nan"), "--lr: expected a number above 0"),
        (("--batch", "0"), "--batch: expected a number above 0"),
        (("--train", "conv1.wieght"), "did you mean 'conv1.weight'"),
        (("--freeze", "nothing*"), "--freeze"),
    ],
)
def test_bad_options(run: Any, model: Path, words: tuple[str, ...], message: str) -> None:
    found = run("plan", model, "--board", BOARD, "--batch", 2, *words)
    expect(found, 2, message)


def test_impossible_budget_says_what_works(run: Any, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("build", model, "--board", BOARD, "--batch", 16, "--ram", "8K", "-o", out)
    told = ("within 8192 bytes", "the smallest RAM that works is", "set by '", "raise --ram")
    expect(run(*words), 3, *told)
    assert not out.exists()
    assert list(tmp_path.iterdir()) == []
    facts = run(*words, "--json").json
    assert facts["exit_code"] == 3
    least = facts["minimum_peak_bytes"]
    plan = ("plan", model, "--board", BOARD, "--batch", 16, "--json", "--ram")
    assert run(*plan, least).code == 0
    assert facts["minimum_peak_proven_bytes"] <= least
    assert run(*plan, facts["minimum_peak_proven_bytes"] - 8).code == 3


def test_each_change_that_helps_is_named_and_helps(run: Any) -> None:
    """The digits within 50 KiB: a smaller batch, parameters on the card or frozen layers do it."""
    digits = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_cnn.onnx"
    words = ("plan", digits, "--board", "qemu-m7-sd", "--ram", "50K")
    found = run(*words, "--batch", 16, "--json").json
    assert set(found["remedies"]) == {"--home-parameters card", "--batch 8", "--train-last 1"}
    for change, needed in found["remedies"].items():
        assert f"{change} needs {needed} bytes" in found["error"]
        option, value = change.split()
        given = {"--batch": 16, option: value}
        changed = [word for pair in given.items() for word in pair]
        assert run(*words[:-1], needed, *changed, "--json").json["peak_bytes"] <= needed


@pytest.mark.parametrize("ram", ["1", "2K", "4K"])
def test_less_than_the_runtime_needs(run: Any, model: Path, ram: str) -> None:
    found = run("plan", model, "--board", BOARD, "--batch", 2, "--ram", ram)
    expect(found, 3, "the smallest RAM that works is")


def test_impossible_deadline_says_what_works(run: Any, model: Path) -> None:
    words = ("plan", model, "--board", BOARD, "--batch", 16, "--json")
    fast = run(*words, "--deadline", "1us")
    expect(fast, 3, "the shortest deadline that works")
    shortest = fast.json["shortest_deadline_s"]
    assert run(*words, "--deadline", f"{shortest * 1.000001}s").code == 0
    assert run(*words, "--deadline", f"{shortest * 0.999}s").code == 3


def test_more_ram_than_the_board_has(run: Any, model: Path) -> None:
    found = run("plan", model, "--board", BOARD, "--batch", 2, "--ram", "1M")
    expect(found, 3, "memory.sram", "at most 65536")


def test_output_folder_of_somebody_else(run: Any, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "photos"
    out.mkdir()
    (out / "cat.jpg").write_bytes(b"cat")
    found = run("build", model, "--board", BOARD, "--batch", 2, "-o", out)
    expect(found, 2, "expected a new folder or an earlier build")
    assert [p.name for p in out.iterdir()] == ["cat.jpg"]


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH with nothing on it."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    return empty


@pytest.mark.usefixtures("no_tools")
def test_no_compiler(run: Any, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run("build", model, "--board", BOARD, "--batch", 2, "-o", out)
    expect(found, 4, "arm-none-eabi-gcc", "gcc-arm-none-eabi")
    assert not out.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty"]


@pytest.mark.usefixtures("no_tools")
def test_no_qemu(run: Any, built: Path) -> None:
    expect(run("validate", built, "--emulate"), 4, "qemu-system-arm", "apt-get install")


def test_card_image_missing(run: Any, built: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built, copy)
    (copy / "card.img").unlink()
    expect(run("validate", copy, "--emulate"), 2, "card.img", "build again")


def test_not_a_build_folder(run: Any, tmp_path: Path) -> None:
    expect(run("validate", tmp_path, "--emulate"), 2, "expected a folder made by 'poet-mcu build'")
    (tmp_path / "manifest.json").write_text("{")
    expect(run("validate", tmp_path, "--emulate"), 2, "damaged")


def test_port_or_emulate(run: Any, built: Path) -> None:
    expect(run("validate", built), 2, "expected one of the two, got both or none")
    expect(run("validate", built, "--emulate", "--port", "x"), 2, "expected one of the two")


@pytest.mark.qemu
def test_wrong_build_on_the_board(run: Any, built: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["build_id"] = "00" * 16
    (copy / "manifest.json").write_text(json.dumps(manifest))
    expect(run("validate", copy, "--emulate"), 5, "build id: expected 0000", "flash the firmware")


def test_serial_silence(run: Any, built: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        quiet: list[socket.socket] = []
        thread = threading.Thread(target=lambda: quiet.append(server.accept()[0]), daemon=True)
        thread.start()
        port = server.getsockname()[1]
        expect(run("validate", built, "--port", f"socket://127.0.0.1:{port}"), 5, "socket://")
        for connection in quiet:
            connection.close()


def test_no_such_port(run: Any, built: Path) -> None:
    expect(run("validate", built, "--port", "/dev/ttyNOPE"), 5, "/dev/ttyNOPE")


def test_the_board_is_found_out_when_it_computes_something_else(
    run: Any, built: Path, model: Path, tmp_path: Path
) -> None:
    """One bit of one start value differs between board and host; the tensor is named."""
    copy = tmp_path / "copy"
    shutil.copytree(built, copy)
    (stored,) = [t for t in onnx.load(model).graph.initializer if t.name == "conv2.weight"]
    right = onnx.numpy_helper.to_array(stored)
    wrong = right.view("u4").copy()
    wrong.flat[-1] ^= 1
    twin = copy / "host" / "firmware"
    program = twin.read_bytes()
    assert program.count(right.tobytes()) == 1
    twin.write_bytes(program.replace(right.tobytes(), wrong.tobytes()))
    told = run("validate", copy, "--emulate", "--steps", 1)
    assert told.code == 1
    assert re.search(r"weight 'conv2.weight': \d+ bytes differ between board and host", told.err)


def test_the_board_is_found_out_when_it_moves_other_bytes(
    run: Any, built: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built, copy)
    plan = json.loads((copy / "plan.json").read_text())
    plan["sd_read_bytes"] += 512
    (copy / "plan.json").write_text(json.dumps(plan))
    expect(run("validate", copy, "--emulate", "--steps", 1), 1, "sd_read_bytes: planned 512")


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["check", str(tmp_path / "none.onnx"), "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_no_command_and_wrong_option(run: Any) -> None:
    assert run("frobnicate").code == 2
    assert run("plan", "--nonsense").code == 2


def test_environment_is_not_needed(model: Path, tmp_path: Path) -> None:
    """No HOME, no locale: the tool still works (continuous integration, containers)."""
    done = subprocess.run(
        [sys.executable, "-m", "poet_mcu", "plan", str(model), "--board", BOARD, "--batch", "2"],
        env={"PATH": os.environ["PATH"]},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
