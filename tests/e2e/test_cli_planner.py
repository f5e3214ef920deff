"""Switches of the planner on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

BOARD = "qemu-m7-sd"
LINEAR = Path(__file__).resolve().parents[1] / "unit" / "test_schedule_linear.json"


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    """POET's linear model on its m4, as a zoo file."""
    path = tmp_path / "linear-m4.json"
    path.write_text(json.dumps(json.loads(LINEAR.read_text())["m4"]), encoding="utf-8")
    return path


def test_problem_file_reaches_the_golden_optimum(run: Any, linear: Path) -> None:
    found = run("plan", "--problem", linear, "--ram", 0.5, "--json")
    assert found.code == 0
    assert found.json["energy_j"] == pytest.approx(0.000460715593, rel=1e-6)
    assert found.json["lower_bound"] == pytest.approx(0.000460715593, rel=1e-6)
    assert found.json["ram_bytes"] == 3388
    assert found.json["baselines"]["sqrt_checkpoints"]["recomputes"] > 0


def test_problem_file_takes_bytes_and_a_deadline(run: Any, linear: Path) -> None:
    plan = ("plan", "--problem", linear, "--json")
    assert run(*plan, "--ram", "4K").json["ram_bytes"] == 4096
    base_s = run(*plan, "--ram", "1.0", "--deadline", "2x").json["deadline_s"] / 2
    assert run(*plan, "--deadline", f"{base_s * 1.25}s").json["deadline_s"] == base_s * 1.25
    none = run(*plan, "--ram", 0.1)
    assert (none.code, none.json["status"]) == (3, "infeasible")
    assert none.json["largest_working_set_bytes"] > none.json["ram_bytes"]


def test_semantics_of_poet_leave_transfers_out_of_the_deadline(run: Any, linear: Path) -> None:
    plan = ("plan", "--problem", linear, "--ram", 0.5, "--no-remat", "--deadline", "1x", "--json")
    assert run(*plan).code == 3  # blocking transfers take time
    poet = run(*plan, "--semantics", "poet")
    assert poet.code == 0
    assert poet.json["page_ins"] > 0
    assert poet.json["time_s"] == pytest.approx(poet.json["deadline_s"])


def test_exported_problem_has_the_same_plan(run: Any, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "problem.json"
    wide = run("plan", model, "--board", BOARD, "--batch", 16, "--json").json
    ram = wide["minimum_peak_bytes"] + 1024
    plan = run(
        "plan", model, "--board", BOARD, "--batch", 16, "--ram", ram, "--json",
        "--export-problem", file,
    ).json  # fmt: skip
    again = run("plan", "--problem", file, "--json").json
    assert again["energy_j"] == pytest.approx(plan["energy_j"], rel=1e-12)
    assert again["page_ins"] == plan["page_ins"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--problem", "FILE", "--board", BOARD), "--problem: expected no MODEL"),
        (("--board", BOARD), "expected MODEL and --board, or --problem FILE, got no MODEL"),
        (("--problem", "FILE", "--semantics", "dtr"), "--semantics: expected own or poet"),
        (("--problem", "FILE", "--solver", "cplex"), "--solver: expected one of highs, cbc"),
        (("--problem", "absent.json"), "expected a JSON file"),
    ],
)
def test_wrong_use_of_problem_files(
    run: Any, linear: Path, words: tuple[str, ...], message: str
) -> None:
    found = run("plan", *(linear if word == "FILE" else word for word in words))
    assert found.code == 2
    assert message in found.err


@pytest.mark.parametrize("text", ['{"format": "other"}', "[1]", '{"nodes": [{}]}', "{"])
def test_broken_problem_files(run: Any, tmp_path: Path, text: str) -> None:
    file = tmp_path / "p.json"
    file.write_text(text, encoding="utf-8")
    found = run("plan", "--problem", file)
    assert found.code == 2
    assert str(file) in found.err.replace(" ", "") or "p.json" in found.err


def test_wear_limit(run: Any, model: Path) -> None:
    common = ("plan", model, "--board", BOARD, "--batch", 16, "--json")
    least = run(*common).json["minimum_peak_bytes"] + 1024
    free = run(*common, "--ram", least).json
    assert free["sd_write_bytes"] > 0
    found = run(*common, "--ram", least, "--max-write-bytes-per-step", free["sd_write_bytes"])
    assert found.json["max_write_bytes_per_step"] == free["sd_write_bytes"]
    assert found.json["energy_j"] == pytest.approx(free["energy_j"])
    none = run(*common, "--ram", least, "--max-write-bytes-per-step", 0)
    assert none.code == 3
    assert "--max-write-bytes-per-step" in none.err


def test_deadline_of_a_whole_training(run: Any, model: Path) -> None:
    common = ("plan", model, "--board", BOARD, "--batch", 8, "--json")
    training = ("--epochs", 3, "--samples", 100, "--deadline", "2h")
    facts = run(*common, *training).json
    assert facts["training_steps"] == 3 * 13  # the last batch of an epoch is smaller
    assert facts["deadline_s"] == pytest.approx(7200 / 39)
    assert facts["training_deadline_s"] == 7200
    late = run(*common, "--epochs", 3, "--samples", 100, "--deadline", "1us")
    assert late.code == 3
    assert "for all 39 steps" in late.err
    assert run(*common, "--epochs", 3, "--deadline", "2h").code == 2
    assert run(*common, "--epochs", 3, "--samples", 100).code == 2


def test_parameters_on_the_card_train_where_they_do_not_fit_beside_the_work(
    run: Any, tmp_path: Path
) -> None:
    digits = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_cnn.onnx"
    common = (digits, "--board", "qemu-lm3s6965evb", "--batch", 16)
    ram = "48K"
    roomy = run("plan", *common, "--json").json
    assert roomy["largest_working_set_bytes"] > 48 * 1024  # parameters and runtime included
    assert run("plan", *common, "--ram", ram).code == 3
    folder = tmp_path / "built"
    tight = (*common, "--ram", ram, "--home-parameters")
    assert run("plan", *tight, "auto", "--json").json["home_parameters"] == "card"
    built = run("build", *tight, "card", "-o", folder, "--json")
    assert built.code == 0
    assert built.json["home_parameters"] == "card"
    assert built.json["card_home_bytes"] > 7000
    found = run("validate", folder, "--emulate", "--steps", 2, "--json")
    assert found.code == 0
    assert found.json["bit_identical_to_host"] is True
    assert found.json["sd_write_bytes"] == 2 * built.json["sd_write_bytes"]
    assert found.json["sd_read_bytes"] == 2 * built.json["sd_read_bytes"]
    assert built.json["interpreter_peak_bytes"] == built.json["peak_bytes"] <= 48 * 1024


def test_homes_on_the_card_need_the_card(run: Any, model: Path) -> None:
    plan = ("plan", model, "--board", BOARD)
    found = run(*plan, "--home-parameters", "card", "--no-paging")
    assert (found.code, "--home-parameters" in found.err) == (2, True)
    assert run(*plan, "--home-parameters", "attic").code == 2


def test_orders(run: Any, model: Path) -> None:
    common = ("plan", model, "--board", BOARD, "--batch", 16, "--json")
    least = run(*common).json["minimum_peak_bytes"] + 1024
    given = run(*common, "--ram", least).json
    assert given["order"] == "given"
    best = run(*common, "--ram", least, "--order", "auto").json
    assert best["energy_j"] <= given["energy_j"] * (1 + 1e-9)
    assert best["order"] in ("given", "updates-early", "depth-first", "memory-greedy")
    named = run(*common, "--ram", least, "--order", best["order"]).json
    assert named["energy_j"] == pytest.approx(best["energy_j"])
    assert run(*common, "--order", "random").code == 2


def test_the_table_has_every_baseline_and_what_the_card_costs(run: Any, model: Path) -> None:
    common = ("plan", model, "--board", BOARD, "--batch", 16)
    least = run(*common, "--json").json["minimum_peak_bytes"]
    lines = run(*common, "--ram", least).out.splitlines()
    heading = next(line for line in lines if line.split()[:2] == ["plan", "fits"])
    for word in ("peak", "energy", "for SD", "time", "waiting", "SD read", "SD written"):
        assert word in heading
    rows = {line[:25].strip() for line in lines}
    assert {
        "keep every activation", "free early, in place", "page everything", "recompute everything",
        "square-root checkpoints", "best with paging only", "best with recompute only",
    } <= rows  # fmt: skip
