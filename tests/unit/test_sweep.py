"""The sweep: budgets, resuming, monotone rows, and files that agree."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import replace

import models
import pytest

from poet_mcu.errors import InputError, InternalError, ModelError
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.parallel import run_all
from poet_mcu.pipeline.plan import plan
from poet_mcu.pipeline.sweep import POINTS_FILE, budgets, flat, never_worse, parse_ram, sweep

BOARD = "qemu-m7-sd"
RAM = (12 * 1024, 40 * 1024, 6)


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "deep.onnx"
    models.save(models.residual(4, 3, 12), path)
    return Options(path, BOARD, time_limit_s=20.0)


@pytest.fixture(scope="module")
def done(options, tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "out"
    heard = []
    return sweep(options, RAM, out, 2, heard.append), out, heard


class Stop(Exception):
    pass


def stop_after(count):
    left = [count]

    def progress(_):
        left[0] -= 1
        if left[0] == 0:
            raise Stop

    return progress


# --- budgets ----------------------------------------------------------------------------------


def test_a_range_is_inclusive_and_even():
    assert budgets((32768, 65536, 5), 8) == [32768, 40960, 49152, 57344, 65536]
    found = budgets((32 * 1024, 256 * 1024, 12), 8)
    assert (found[0], found[-1], len(found)) == (32 * 1024, 256 * 1024, 12)
    assert all(size % 8 == 0 for size in found)
    steps = [b - a for a, b in zip(found, found[1:], strict=False)]  # noqa: RUF007 - plainer
    assert max(steps) - min(steps) <= 8


def test_budgets_are_rounded_down_sorted_and_single():
    assert budgets([1001, 900, 1003], 32) == [896, 992]
    assert budgets([3], 8) == [8]
    assert budgets((64, 64, 1), 8) == [64]
    assert budgets((64, 80, 9), 8) == [64, 72, 80]


@pytest.mark.parametrize(
    ("ram", "words"),
    [
        ((64, 32, 4), "expected FIRST:LAST with 0 < FIRST <= LAST, got 64:32"),
        ((0, 32, 4), "expected FIRST:LAST with 0 < FIRST"),
        ((32, 64, 1), "--points: expected at least 2 for a range, got 1"),
        ([], "expected sizes above 0, got none"),
        ([64, 0], "expected sizes above 0"),
    ],
)
def test_impossible_ranges_are_refused(ram, words):
    with pytest.raises(InputError, match=words):
        budgets(ram, 8)


def test_ram_is_parsed():
    assert parse_ram("32K:256K", 12) == (32768, 262144, 12)
    assert parse_ram("32K,48K", 12) == [32768, 49152]
    assert parse_ram("64K", 12) == [65536]
    for text in ("1K:2K:3K", "a:b", "", "32K:"):
        with pytest.raises(InputError, match="--ram: expected"):
            parse_ram(text, 3)


def test_more_than_the_board_has_is_refused(options, tmp_path):
    with pytest.raises(InputError, match=r"memory\.sram: expected --ram of at most"):
        sweep(options, [1 << 24], tmp_path / "out")
    with pytest.raises(InputError, match="--jobs: expected at least 1"):
        sweep(options, RAM, tmp_path / "out", 0)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_named(options, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="expected a folder that can be made"):
        sweep(options, RAM, tmp_path / "file" / "out")


# --- rows -------------------------------------------------------------------------------------


def test_every_budget_has_a_row_and_energy_never_rises(done):
    found, _, heard = done
    assert [row["ram_bytes"] for row in found.rows] == budgets(RAM, 8)
    good = [row for row in found.rows if row["energy_j"] is not None]
    assert len(good) >= 3
    assert {row["status"] for row in found.rows} >= {"infeasible", "optimal"}
    energies = [row["energy_j"] for row in good]
    assert energies == sorted(energies, reverse=True)
    assert energies[0] > energies[-1]
    for row in good:
        assert row["peak_bytes"] <= row["plan_ram_bytes"] <= row["ram_bytes"]
        assert row["lower_bound"] <= row["energy_j"] * (1 + 1e-9)
    assert [p.done for p in heard] == list(range(1, 8))
    assert {p.total for p in heard} == {7}
    assert sum(p.row is None for p in heard) == 1
    assert not any(p.resumed for p in heard)


def test_infeasible_budgets_lie_below_the_least_that_works(done):
    found, _, _ = done
    least = found.facts["minimum_peak_bytes"]
    for row in found.rows:
        if row["status"] == "infeasible":
            assert row["ram_bytes"] < least
        if row["ram_bytes"] >= least:
            assert row["energy_j"] is not None


def test_a_row_is_the_plan_of_that_budget(done, options):
    found, _, _ = done
    row = next(row for row in found.rows if row["energy_j"] is not None)
    facts = plan(replace(options, ram_bytes=row["ram_bytes"])).facts
    for key in ("energy_j", "time_s", "peak_bytes", "sd_read_bytes", "recomputes", "status"):
        assert row[key] == facts[key], key
    for name, entry in facts["baselines"].items():
        assert row["baselines"][name]["energy_j"] == entry["energy_j"], name
        assert row["baselines"][name]["status"] == entry["status"], name
    assert found.facts["minimum_peak_bytes"] == facts["minimum_peak_bytes"]


def test_plans_are_never_worse_than_those_with_less_ram():
    keys = ("energy_j", "objective", "peak_bytes", "time_s", "lower_bound", "plan_ram_bytes")
    keys += ("compute_j", "sd_j", "stall_s", "sd_read_bytes", "sd_write_bytes", "arena_bytes")
    keys += ("wait_j", "recomputes", "page_ins", "page_outs", "status", "gap", "overhead_gap")

    def row(ram, energy, bound):
        made = dict.fromkeys(keys, 0) | {"ram_bytes": ram, "plan_ram_bytes": ram}
        return made | {"energy_j": energy, "lower_bound": bound, "status": "optimal", "gap": 0.0}

    lost = row(300, None, None) | {"status": "unknown", "plan_ram_bytes": None}
    out = never_worse([row(200, 6.0, 4.5), row(100, 5.0, 5.0), lost, row(400, 4.0, 4.0)])
    assert [r["ram_bytes"] for r in out] == [100, 200, 300, 400]
    assert [r["energy_j"] for r in out] == [5.0, 5.0, 5.0, 4.0]
    assert [r["plan_ram_bytes"] for r in out] == [100, 100, 100, 400]
    assert [r["status"] for r in out] == ["optimal", "feasible", "feasible", "optimal"]
    assert out[1]["gap"] == pytest.approx(0.1)
    assert out[2]["lower_bound"] is None


def test_nothing_is_invented_below_the_first_plan():
    empty = {"ram_bytes": 8, "energy_j": None, "status": "infeasible"}
    assert never_worse([empty]) == [empty]


# --- files ------------------------------------------------------------------------------------


def test_csv_and_json_agree(done):
    found, out, _ = done
    facts = json.loads((out / "sweep.json").read_text())
    assert facts["rows"] == found.rows
    with (out / "sweep.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(facts["rows"])
    for cells, row in zip(table, facts["rows"], strict=True):
        expected = flat(row)
        assert list(cells) == list(expected)
        for key, value in expected.items():
            assert cells[key] == ("" if value is None else str(value)), key
    assert "paging_only_energy_j" in table[0]
    assert {p.name for p in out.iterdir()} == {
        POINTS_FILE, "sweep.csv", "sweep.json", "sweep.svg", "sweep.html",
    }  # fmt: skip


def test_the_picture_shows_every_budget(done):
    found, out, _ = done
    text = (out / "sweep.svg").read_text(encoding="utf-8")
    root = ET.fromstring(text)  # noqa: S314 - our own output
    titles = [e.text for e in root.iter("{http://www.w3.org/2000/svg}title")]
    for row in found.rows:
        if row["energy_j"] is None:
            assert titles.count(f"budget {row['ram_bytes']} bytes: no plan found") == 2
        else:
            start = f"this plan: {row['ram_bytes']} bytes, "
            assert sum(t.startswith(start) for t in titles) == 2
    for name in ("keep every activation", "page everything", "paging only"):
        assert any(t.startswith(f"{name}: ") for t in titles), name
    page = (out / "sweep.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "http:" not in page
    assert page.count("<tr") == len(found.rows) + 1


# --- resuming ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_stopped_run_goes_on_where_it_was(options, done, tmp_path, jobs):
    out = tmp_path / "out"
    began = time.monotonic()
    with pytest.raises(Stop):
        sweep(options, RAM, out, jobs, stop_after(3))
    assert time.monotonic() - began < 60
    lines = (out / POINTS_FILE).read_text().splitlines()
    assert len(lines) == 3
    assert all(set(json.loads(line)) == {"key", "result"} for line in lines)
    assert not (out / "sweep.json").exists()
    heard = []
    found = sweep(options, RAM, out, jobs, heard.append)
    assert [p.resumed for p in heard] == [True] * 3 + [False] * 4
    assert len((out / POINTS_FILE).read_text().splitlines()) == 7
    timeless = [{k: v for k, v in row.items() if k not in ("solve_s", "baselines")}
                for row in (*found.rows, *done[0].rows)]  # fmt: skip
    assert timeless[:6] == timeless[6:]


def test_a_finished_sweep_solves_nothing_again(options, done):
    _, out, _ = done
    before = (out / POINTS_FILE).read_bytes()
    heard = []
    again = sweep(options, RAM, out, 2, heard.append)
    assert again.rows == done[0].rows
    assert all(p.resumed for p in heard)
    assert (out / POINTS_FILE).read_bytes() == before


@pytest.mark.parametrize(
    "rest", [b'{"key": "abc", "resu', b"\xff\xfe\n", b"[]\n", b'{"key": 1, "result": {}}\n', b"\n"]
)
def test_half_a_line_is_dropped(options, done, tmp_path, rest):
    out = tmp_path / "out"
    out.mkdir()
    whole = (done[1] / POINTS_FILE).read_bytes()
    (out / POINTS_FILE).write_bytes(whole + rest)
    heard = []
    found = sweep(options, RAM, out, 1, heard.append)
    assert all(p.resumed for p in heard)
    assert found.rows == done[0].rows
    assert (out / POINTS_FILE).read_bytes() == whole


def test_other_options_are_other_points(options, done, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / POINTS_FILE).write_bytes((done[1] / POINTS_FILE).read_bytes())
    one = [40 * 1024]
    moved = tmp_path / "renamed.onnx"
    moved.write_bytes(options.model.read_bytes())
    heard = []
    sweep(replace(options, model=moved), one, out, 1, heard.append)
    assert [p.resumed for p in heard] == [True, True]
    for other in (
        replace(options, remat=False),
        replace(options, time_limit_s=21.0),
        replace(options, model=models.save(models.residual(4, 2, 12), tmp_path / "other.onnx")),
    ):
        heard.clear()
        sweep(other, one, out, 1, heard.append)
        assert [p.resumed for p in heard] == [False, False]


def test_a_bad_model_is_refused_before_anything_runs(tmp_path):
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(ModelError):
        sweep(Options(path, BOARD), RAM, tmp_path / "out", 2)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_killed_run_leaves_a_file_that_goes_on(options, done, tmp_path):
    out, script = tmp_path / "out", tmp_path / "run.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\n"
        "from poet_mcu.pipeline.options import Options\n"
        "from poet_mcu.pipeline.sweep import sweep\n"
        "if __name__ == '__main__':\n"
        f"    options = Options(Path(sys.argv[1]), {BOARD!r}, time_limit_s=20.0)\n"
        f"    sweep(options, {RAM!r}, Path(sys.argv[2]), 2)\n"
    )
    command = [sys.executable, str(script), str(options.model), str(out)]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    running = subprocess.Popen(command, env=variables, start_new_session=True)
    points = out / POINTS_FILE
    until = time.monotonic() + 120
    while time.monotonic() < until and running.poll() is None:
        if points.is_file() and points.read_bytes().count(b"\n") >= 2:
            break
        time.sleep(0.02)
    running.kill()
    running.wait()
    whole = points.read_bytes().count(b"\n")
    assert whole >= 2
    heard = []
    found = sweep(options, RAM, out, 1, heard.append)
    assert sum(p.resumed for p in heard) == whole
    assert [row["energy_j"] for row in found.rows] == [row["energy_j"] for row in done[0].rows]


# --- workers ----------------------------------------------------------------------------------


def work(task):
    kind, value = task
    if kind == "input error":
        raise InputError(value)
    if kind == "bug":
        raise ZeroDivisionError(value)
    if kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "sleep":
        time.sleep(value)
    return value, os.getpid()


@pytest.mark.parametrize("jobs", [1, 3])
def test_all_tasks_are_done_once(jobs):
    tasks = [("value", k) for k in range(7)]
    found = dict(run_all(work, tasks, jobs))
    assert {index: value for index, (value, _) in found.items()} == {k: k for k in range(7)}
    processes = {process for _, process in found.values()}
    assert (processes == {os.getpid()}) == (jobs == 1)


def test_errors_of_workers_keep_their_class():
    with pytest.raises(InputError, match=r"^no such thing$"):
        list(run_all(work, [("input error", "no such thing"), ("value", 1)], 2))
    with pytest.raises(InternalError, match="ZeroDivisionError: zero"):
        list(run_all(work, [("bug", "zero"), ("value", 1)], 2))


def test_a_worker_that_dies_is_an_error_not_a_hang():
    with pytest.raises(InternalError, match="got the end of the process"):
        list(run_all(work, [("die", 0), ("value", 1)], 2))


def test_stopping_does_not_wait_for_the_others():
    running = run_all(work, [("value", 1), ("sleep", 120)], 2)
    assert next(running)[0] == 0
    began = time.monotonic()
    running.close()
    assert time.monotonic() - began < 4.5  # asked to end, not killed after its patience
