"""Everything a user can do on the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import pytest

BOARD = "qemu-m7-sd"
PLAN_KEYS = {
    "status", "objective", "lower_bound", "gap", "solve_s", "ram_bytes", "peak_bytes",
    "keep_all_peak_bytes", "minimum_peak_bytes", "energy_j", "compute_j", "sd_j", "time_s",
    "stall_s", "deadline_s", "sd_read_bytes", "sd_write_bytes", "recomputes", "page_ins",
    "page_outs", "baselines",
}  # fmt: skip
PER_PLAN = PLAN_KEYS - {"keep_all_peak_bytes", "minimum_peak_bytes", "baselines"}


def data(path: Path, samples: int = 8) -> Path:
    rng = np.random.default_rng(0)
    x = rng.random((samples, 2, 8, 8)).astype(np.float32)
    np.savez(path, x=x, y=np.arange(samples) % 3)
    return path


def test_check_of_a_good_model(run: Any, model: Path) -> None:
    found = run("check", model)
    assert (found.code, "every operator is supported" in found.out) == (0, True)
    assert run("check", model, "--json").json == {"model": "cnn.onnx", "ok": True, "problems": []}


def test_plan_json_has_the_promised_keys_and_nothing_else_on_stdout(run: Any, model: Path) -> None:
    found = run("plan", model, "--board", BOARD, "--batch", 4, "--json")
    assert found.code == 0
    facts = found.json
    assert set(facts) >= PLAN_KEYS
    names = {"keep_all", "page_all", "remat_only", "paging_only"}
    assert set(facts["baselines"]) >= names
    for entry in facts["baselines"].values():
        assert set(entry) >= PER_PLAN
    assert facts["status"] == "optimal"
    assert facts["lower_bound"] <= facts["energy_j"] * (1 + 1e-9)
    assert facts["minimum_peak_bytes"] <= facts["peak_bytes"] <= facts["ram_bytes"]
    assert facts["peak_bytes"] <= facts["keep_all_peak_bytes"]


def test_plan_for_people(run: Any, model: Path) -> None:
    found = run("plan", model, "--board", BOARD, "--batch", 4)
    assert found.code == 0
    for words in ("keep every activation", "this plan (optimal)", "smallest RAM that works"):
        assert words in found.out


def test_a_report_in_html(run: Any, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert run("plan", model, "--board", BOARD, "--batch", 4, "--report", page).code == 0
    text = page.read_text()
    assert "<svg" in text
    assert "cnn.onnx" in text


def test_a_sweep_goes_on_where_it_stopped(run: Any, model: Path, tmp_path: Path) -> None:
    words = ("sweep", model, "--board", BOARD, "--batch", 4, "--ram", "16K:48K", "--points", 3)
    first = run(*words, "-o", tmp_path / "s", "--jobs", 1, "--json")
    assert first.code == 0
    names = {path.name for path in (tmp_path / "s").iterdir()}
    assert names >= {"points.jsonl", "sweep.csv", "sweep.json", "sweep.svg", "sweep.html"}
    before = (tmp_path / "s" / "points.jsonl").read_text()
    again = run(*words, "-o", tmp_path / "s", "--jobs", 1)
    assert again.code == 0
    assert (tmp_path / "s" / "points.jsonl").read_text() == before
    assert "48.0 KiB" in again.out


def test_switches_really_change_the_plan(run: Any, model: Path) -> None:
    common = ("plan", model, "--board", BOARD, "--batch", 16, "--json")
    least = run(*common).json["minimum_peak_bytes"]
    assert run(*common, "--ram", least).json["peak_bytes"] <= least
    some = least * 12 // 11  # closer to the least, many plans have no packing
    tight = run(*common, "--ram", some).json
    assert tight["peak_bytes"] <= some
    assert tight["page_ins"] > 0
    assert run(*common, "--ram", least, "--no-paging").code == 3
    roomy = run(*common, "--no-paging", "--no-remat").json
    assert (roomy["page_ins"], roomy["page_outs"], roomy["recomputes"]) == (0, 0, 0)
    by_hand = run(*common, "--strategy", "page-all").json
    assert by_hand["energy_j"] >= tight["energy_j"] > roomy["energy_j"]
    late = run(*common, "--ram", some, "--deadline", f"{roomy['time_s'] * 0.99}s")
    assert late.code == 3
    in_time = run(*common, "--ram", some, "--deadline", f"{tight['time_s'] * 1.01}s")
    assert in_time.json["deadline_s"] == pytest.approx(tight["time_s"] * 1.01)


def test_both_solvers_agree(run: Any, model: Path) -> None:
    common = ("plan", model, "--board", BOARD, "--batch", 8, "--json")
    least = run(*common).json["minimum_peak_bytes"]
    energies = [
        run(*common, "--ram", least + 512, "--solver", solver).json["energy_j"]
        for solver in ("highs", "cbc")
    ]
    assert energies[0] == pytest.approx(energies[1], rel=1e-9)


def test_a_build_is_self_contained(built: Path) -> None:
    names = {path.name for path in built.iterdir()}
    assert names >= {
        "plan.json", "manifest.json", "src", "firmware", "linker.ld", "Makefile", "card.img",
        "firmware.elf", "firmware.bin", "firmware.hex", "model.onnx",
    }  # fmt: skip
    assert [p for p in built.parent.iterdir() if p != built] == []  # no leftovers beside it
    manifest = json.loads((built / "manifest.json").read_text())
    assert set(manifest["files"]) == {
        str(p.relative_to(built))
        for p in built.rglob("*")
        if p.is_file() and p.name != "manifest.json"
    }
    plan = json.loads((built / "plan.json").read_text())
    assert plan["interpreter_peak_bytes"] == plan["peak_bytes"]
    assert plan["elf_ram_bytes"] <= plan["ram_bytes"]


def test_building_again_gives_the_same_files(run: Any, model: Path, built: Path) -> None:
    before = json.loads((built / "manifest.json").read_text())
    other = built.parent.parent / "elsewhere" / "build"
    assert run("build", model, "--board", BOARD, "--batch", 2, "-o", other).code == 0
    after = json.loads((other / "manifest.json").read_text())
    assert after["build_id"] == before["build_id"]
    ignored = {"plan.json"}  # holds the seconds of the solver
    for name, entry in before["files"].items():
        assert name in ignored or after["files"][name] == entry, name
    shutil.rmtree(other.parent)


def test_make_in_the_folder_builds_the_same_firmware(built: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built, copy)
    (copy / "firmware.bin").unlink()
    (copy / "firmware.elf").unlink()
    subprocess.run(["make", "-s", "-C", str(copy), "-j2"], check=True)
    assert (copy / "firmware.bin").read_bytes() == (built / "firmware.bin").read_bytes()


@pytest.mark.qemu
@pytest.mark.parametrize("serial", ["pty", "socket"])
def test_validate_on_both_serial_lines(run: Any, built: Path, serial: str, tmp_path: Path) -> None:
    dump = tmp_path / "out.npz"
    found = run(
        "validate", built, "--emulate", "--steps", 2, "--serial", serial, "--json",
        "--data", data(tmp_path / "d.npz"), "--dump", dump,
    )  # fmt: skip
    assert found.code == 0
    facts = found.json
    assert (facts["ok"], facts["bit_identical_to_host"]) == (True, True)
    assert 0 < facts["macs_per_step"] < facts["instructions_per_step"]
    with np.load(dump) as stored:
        assert stored["loss"].shape == (2,)
        names = {t.name for t in onnx.load(built / "model.onnx").graph.initializer}
        assert set(stored) == names | {"loss"}
        assert stored["conv1.weight"].shape == (4, 2, 3, 3)


@pytest.mark.qemu
def test_train_and_save(run: Any, built: Path, tmp_path: Path) -> None:
    saved = tmp_path / "trained.onnx"
    found = run(
        "train", built, "--emulate", "--data", data(tmp_path / "d.npz"), "--epochs", 6,
        "--test", data(tmp_path / "t.npz", 5), "--lr", 0.1, "--save", saved, "--json",
    )  # fmt: skip
    assert found.code == 0
    facts = found.json
    assert facts["steps"] == 24
    assert facts["loss_last_epoch"] < facts["loss_first"]
    with np.load(tmp_path / "t.npz") as stored:
        logits = models.run_onnx(saved, stored["x"])
        assert facts["accuracy_after"] == pytest.approx((logits.argmax(1) == stored["y"]).mean())


def test_boards_and_doctor(run: Any) -> None:
    assert "qemu-lm3s6965evb" in run("boards").out
    assert run("boards", BOARD, "--json").json["name"] == BOARD
    tools = {t["tool"] for t in run("doctor", "--json").json["tools"]}
    assert any("gcc" in tool for tool in tools)
    assert any("qemu" in tool for tool in tools)
    assert "arm-none-eabi-gcc" in run("doctor").out


def test_version_and_help(run: Any) -> None:
    assert run("--version").out.strip()
    assert "build" in run("--help").out


def test_the_module_runs_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "poet_mcu", "--version"], capture_output=True, check=True
    )
    assert done.stdout.strip()


@pytest.mark.qemu
def test_a_board_file_of_ones_own_is_not_needed_after_the_build(run, model, tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "qemu-m7-sd"\nname = "mine"\n', encoding="utf-8")
    out = tmp_path / "out"
    assert run("build", model, "--board", mine, "--batch", 2, "-o", out).code == 0
    mine.unlink()
    done = run("validate", out, "--emulate", "--steps", 1, "--json")
    assert done.code == 0
    assert json.loads((out / "board.json").read_text(encoding="utf-8"))["name"] == "mine"


def test_a_damaged_board_in_a_build_is_named(run, built, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(built, folder)
    for text in ("", "[1]", '{"name": 3}'):
        (folder / "board.json").write_text(text, encoding="utf-8")
        refused = run("validate", folder, "--emulate")
        assert refused.code == 2
        assert "board.json" in refused.err
