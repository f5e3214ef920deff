"""``poet-mcu calibrate`` on an emulated board: the file it writes predicts a training step."""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from fake_board import USB, FakeBoard, as_hardware

from poet_mcu import resources
from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.board.tables import KERNEL_FAMILIES, OPTIONAL_FAMILIES
from poet_mcu.cost import page_in_price, page_out_price

DIGITS = resources.root() / "examples" / "digits" / "digits_cnn.onnx"
#: four prices a family stand for layers of every shape: seen 0.93 for the step
STEP = 1.25
#: a transfer is what was timed, and the CPU between two of its parts: seen 1.00
TRANSFER = 1.03


@pytest.mark.qemu
def test_a_calibrated_board_predicts_the_step_of_the_digits_network(
    run: Any, tmp_path: Path
) -> None:
    mine, out = tmp_path / "mine.toml", tmp_path / "out"
    words = ("--emulate", "--samples", 2, "-o", mine, "--json")
    told = run("calibrate", "--board", "qemu-m7-sd", *words)
    assert told.code == 0, told.err
    assert set(told.json["families"]) == {*KERNEL_FAMILIES, *OPTIONAL_FAMILIES}
    board, log = load_board(mine), json.loads((tmp_path / "mine.log.json").read_text())
    assert board.name == "mine"
    assert len(log["kernels"]) == told.json["calls"] > 200
    assert len(log["card"]["read"]["512"]) == 2
    check_transfers(board, log["card"])
    sources = [board.storage.source, *(row.source for row in board.cost.values())]
    assert all("log mine.log.json, SHA-256" in source for source in sources)
    assert not any(row.estimated for row in board.cost.values())
    words = ("--batch", 16, "--ram", "54K", "--lr", 0.1, "-o", out)
    told = run("build", DIGITS, "--board", mine, *words)
    assert told.code == 0, told.err
    assert "one training step by operator" in told.out
    facts = run("validate", out, "--emulate", "--json").json
    assert facts["ok"]
    ratio = facts["measured_step_s"] / facts["predicted_step_s"]
    assert 1 / STEP < ratio < STEP
    rows = {row["op"]: row for row in facts["operators"]}
    for way in ("page_in", "page_out"):
        assert rows[way]["runs"] == facts["page_ins" if way == "page_in" else "page_outs"] / 3
        assert 1 / TRANSFER < rows[way]["ratio"] < TRANSFER
    assert sum(row["measured_s"] for row in rows.values()) == pytest.approx(
        facts["measured_step_s"], rel=0.01
    )


def check_transfers(board: Board, card: dict[str, dict[str, list[float]]]) -> None:
    """The tables are the log's medians and tails by size, and what a transfer is priced by."""
    tables = (board.storage.read_times, board.storage.write_times)
    prices = (page_in_price, page_out_price)
    for way, table, price in zip(("read", "write"), tables, prices, strict=True):
        assert table.transfer_bytes == tuple(sorted(int(size) for size in card[way]))
        columns = (table.median_s, table.p99_s, table.worst_s)
        for size, *row in zip(table.transfer_bytes, *columns, strict=True):
            seconds = card[way][str(size)]
            assert row == pytest.approx([median(seconds), max(seconds), max(seconds)], rel=1e-3)
            assert price(size, board).seconds == row[0]
        assert "2 transfers of each size" in table.source
        assert not table.estimated


def test_a_real_card_is_not_overwritten_unasked(run: Any, built: Path, tmp_path: Path) -> None:
    folder = as_hardware(built, tmp_path / "b", openocd=["-f", "x.cfg"], console_usb=[USB])
    board, out = folder / "board.json", tmp_path / "mine.toml"
    told = run("calibrate", "--board", board, "--port", "/dev/ttyACM0", "-o", out)
    assert told.code == 2
    assert "fake-board: --erase-card: expected your consent, got none" in told.err
    told = run("calibrate", "--board", board, "--emulate", "-o", tmp_path / "mine.json")
    assert told.code == 2
    assert "mine.json: expected a file that ends in .toml for -o, got another" in told.err


@pytest.mark.qemu
@pytest.mark.slow
def test_a_board_on_a_port_is_timed_in_each_part_of_its_ram(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An emulated core that says it is hardware: its parts are equally fast, and so found to be."""
    fake = FakeBoard(tmp_path / "fake")
    fake.tool("openocd")
    monkeypatch.setenv("PATH", f"{fake.bin}{os.pathsep}{os.environ['PATH']}")
    path = fake.file(openocd=["-f", "board/fake.cfg"], console_usb=[USB])
    tree = json.loads(path.read_text())
    tree["memory"]["sram"]["parts"] = [
        {"name": name, "origin": origin, "size_bytes": 32768, "bytes_per_cycle": 4,
         "cached": False, "dma": True, "source": "a test: half of the machine's RAM"}
        for name, origin in (("low", 0x2000_0000), ("high", 0x2000_8000))
    ]  # fmt: skip
    path.write_text(json.dumps(tree))
    mine = tmp_path / "mine.toml"
    words = ("--port", fake.url, "--erase-card", "--samples", 1, "-o", mine, "--json")
    told = run("calibrate", "--board", path, *words)
    fake.end()
    assert told.code == 0, told.err
    board, log = load_board(mine), json.loads((tmp_path / "mine.log.json").read_text())
    assert set(log["parts"]) == {"low", "high"}
    assert all(set(cases) < set(log["kernels"]) for cases in log["parts"].values())
    for part in board.sram.parts:
        assert set(part.cost) >= set(KERNEL_FAMILIES)
        for family, row in part.cost.items():
            assert f"Operands in {part.name}." in row.source, family
            assert not row.estimated
