"""The drawing code by itself: numbers, axes, scales, the eight-layer figure, curves."""

import importlib.util
import re
import time
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from poet_mcu import resources
from poet_mcu.ir.schedule import ActionKind
from poet_mcu.report import Curve, Panel, Point, pareto_figure, schedule_figure, trace
from poet_mcu.report.axis import byte_ticks, bytes_label, index_ticks, scaled, ticks
from poet_mcu.report.grid import columns_of, runs
from poet_mcu.report.svg import Svg, number, shorten, shown
from poet_mcu.report.timeline import busy_s, timeline_figure
from poet_mcu.report.trace import Kind, Lane, Span, State
from poet_mcu.schedule import (
    Op,
    Problem,
    SolveStatus,
    Tensor,
    free_early,
    page_all,
    recompute_all,
    simulate,
    solve,
)

NAMESPACE = "{http://www.w3.org/2000/svg}"
ROOT = resources.root()


def parsed(svg):
    return ET.fromstring(svg.standalone())  # noqa: S314 - our own output


def titles(root):
    return [e.text for e in root.iter(f"{NAMESPACE}title")]


@pytest.fixture(scope="module")
def example():
    path = ROOT / "tools" / "draw_figure2.py"
    spec = importlib.util.spec_from_file_location("draw_figure2", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def solved(example):
    problem = example.eight_layers()
    return problem, solve(problem)


def test_the_eight_layer_optimum_recomputes_2_and_3_and_pages_5_and_6(solved):
    problem, solution = solved
    assert solution.status is SolveStatus.OPTIMAL
    events = trace(problem, solution.schedule).events
    found = {
        state: sorted({t for (_, t), some in events.items() for e in some if e.state is state})
        for state in State
    }
    assert found[State.RECOMPUTED] == [2, 3]
    assert found[State.PAGED_OUT] == found[State.PAGED_IN] == [5, 6]
    overhead_j = simulate(problem, solution.schedule).energy_j - problem.base_j
    assert overhead_j == pytest.approx(2 * 1e-3 + 2 * 2 * 5 * 0.9e-3)
    kept = tuple(replace(t, pageable=False) for t in problem.tensors)
    once = tuple(replace(op, recomputable=False) for op in problem.ops)
    for other in (replace(problem, tensors=kept), replace(problem, ops=once)):
        objective = solve(other).objective_j
        assert objective is None or objective > solution.objective_j * (1 + 1e-6)


def test_beside_compute_the_write_of_6_runs_while_layer_7_does(example):
    problem = replace(example.eight_layers(), overlap=True, wait_w=0.1)
    solution = solve(problem)
    assert solution.status is SolveStatus.OPTIMAL
    actions = [(a.kind, a.subject) for a in solution.schedule.actions]
    begun, done = actions.index((ActionKind.PAGE_OUT, 6)), actions.index((ActionKind.WAIT, 6))
    assert begun < actions.index((ActionKind.COMPUTE, 7)) < done
    assert {a.subject for a in solution.schedule.actions if a.recompute} == {2, 3}
    paged = {t for kind, t in actions if kind is ActionKind.PAGE_IN}
    assert paged == {5, 6}
    assert simulate(problem, solution.schedule).stall_s < 2 * 2 * 5 * 0.9e-3 / 2


def test_the_picture_in_docs_is_the_one_drawn(example, solved):
    problem, solution = solved
    drawn = schedule_figure(problem, solution.schedule, example.TITLE).standalone()
    assert (ROOT / "docs" / "figure2.svg").read_text(encoding="utf-8") == drawn


def test_the_picture_says_what_happens_to_each_layer(solved):
    problem, solution = solved
    root = parsed(schedule_figure(problem, solution.schedule, "eight"))
    shown_titles = titles(root)
    for name in ("out 2", "out 3"):
        assert any(t.startswith(f"{name}, ") and ": recomputed," in t for t in shown_titles)
    for name in ("out 5", "out 6"):
        assert any(t.startswith(f"{name}, ") and ": paged out," in t for t in shown_titles)
        assert any(t.startswith(f"{name}: on the card only, stages ") for t in shown_titles)
    words = [e.text for e in root.iter(f"{NAMESPACE}text")]
    for word in ("computed", "recomputed", "held in RAM", "paged out", "paged in"):
        assert word in words


def chain(length):
    """Forward ops, then backward ops that read what the forward ones made."""
    half = length // 2
    tensors = [Tensor(k, f"value {k}", 512, True, 0.1, 0.1, 0.1, 0.1, at_end=k == length)
               for k in range(1, length + 1)]  # fmt: skip
    ops = []
    for k in range(1, length + 1):
        inputs = (k - 1,) if k > 1 else ()
        if k > half:
            inputs = tuple(sorted({k - 1, max(1, length - k)}))
        ops.append(Op(k, f"operator {k}", inputs, (k,), 1.0, 1.0, 0, k <= half, k > half))
    return Problem("chain", tuple(tensors), tuple(ops), 10**9)


@pytest.mark.parametrize("length", [10, 40, 200])
@pytest.mark.parametrize("make", [free_early, page_all, recompute_all])
def test_the_schedule_is_drawn_for_10_to_200_ops(length, make):
    problem = chain(length)
    began = time.monotonic()
    svg = schedule_figure(problem, make(problem), "chain")
    root = parsed(svg)
    assert time.monotonic() - began < 20
    words = {e.text for e in root.iter(f"{NAMESPACE}text")} | {
        (e.tail or "") for e in root.iter(f"{NAMESPACE}title")
    }
    for k in range(1, length + 1):
        assert f"operator {k}" in words
        assert f"value {k}" in words
    assert svg.width < 200 * 16 + 600
    assert svg.height < 200 * 16 + 600
    for rect in root.iter(f"{NAMESPACE}rect"):
        assert float(rect.get("width")) > 0
        assert float(rect.get("height")) > 0


def test_columns_come_in_the_order_of_making():
    problem = chain(6)
    given = Tensor(99, "given", 512, True, 0.1, 0.1, 0.1, 0.1, at_start=True)
    mixed = replace(problem, tensors=(*reversed(problem.tensors), given))
    assert [t.id for t in columns_of(mixed)] == [99, 1, 2, 3, 4, 5, 6]


def test_runs_are_stretches():
    assert list(runs((1, 2, 3, 7, 9, 10))) == [(1, 3), (7, 7), (9, 10)]
    assert list(runs(())) == []


def test_spans_are_drawn_where_they_lie_also_beside_each_other():
    spans = (
        Span(Lane.CPU, Kind.COMPUTE, 0.0, 4.0, "op", 0),
        Span(Lane.BUS, Kind.WRITE, 1.0, 3.0, "value", 1),
    )
    root = parsed(timeline_figure(spans, 8.0))
    box = {
        e[0].text.split(",")[0]: (float(e.get("x")), float(e.get("width")), float(e.get("y")))
        for e in root.iter(f"{NAMESPACE}rect")
        if len(e)
    }
    op, write = box["action 0: compute op"], box["action 1: write value"]
    assert write[1] == pytest.approx(op[1] / 2, abs=0.1)
    assert write[0] - op[0] == pytest.approx(op[1] / 4, abs=0.1)
    assert write[2] > op[2]
    assert "deadline 8 s" in [e.text for e in root.iter(f"{NAMESPACE}text")]
    assert busy_s(spans, Kind.WRITE) == 2.0


def test_a_deadline_far_away_does_not_shrink_the_picture():
    spans = (Span(Lane.CPU, Kind.COMPUTE, 0.0, 1.0, "op", 0),)
    words = [e.text for e in parsed(timeline_figure(spans, 100.0)).iter(f"{NAMESPACE}text")]
    assert not any("deadline" in word for word in words if word)


def test_an_empty_timeline_is_a_picture_too():
    assert parsed(timeline_figure((), None)).get("viewBox")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("two\nlines\there", "two lines here"),
        ("\x00", "<U+0000>"),
        ("a\u202eb", "a<U+202E>b"),
        ("\ud800", "<U+D800>"),
        ("\ufffe", "<U+FFFE>"),
        ("größe/ü", "größe/ü"),
    ],
)
def test_names_are_shown_as_they_are(text, expected):
    assert shown(text) == expected
    svg = Svg(10, 10, text)
    svg.text(0, 0, text, title=text)
    svg.rect(0, 0, 1, 1, "held", text)
    root = parsed(svg)
    assert root.get("aria-label") == expected
    assert expected in titles(root)


def test_a_bare_cdata_end_and_quotes_survive():
    svg = Svg(10, 10, "q")
    svg.rect(0, 0, 1, 1, 'a" onload="x', "]]> \" ' <b>")
    root = parsed(svg)
    assert "]]> \" ' <b>" in titles(root)
    assert all("onload" not in e.attrib for e in root.iter())


def test_shorten_keeps_both_ends():
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 7) == "abc…ijk"
    assert len(shorten("x" * 99, 30)) == 30


def test_numbers_are_short():
    assert [number(v) for v in (1.0, 0.126, -0.001, 100, 1e-9)] == ["1", "0.13", "0", "100", "0"]


def test_axes():
    assert ticks(10) == [0, 2, 4, 6, 8, 10]
    assert ticks(0) == [0]
    assert ticks(0.07)[-1] <= 0.07
    assert byte_ticks(50 * 1024) == [0, 16384, 32768, 49152]
    assert byte_ticks(0) == [0]
    assert index_ticks(50) == [0, 5, 10, 15, 20, 25, 30, 35, 40, 45]
    assert index_ticks(1) == [0, 1]
    assert [bytes_label(n) for n in (0, 512, 49152, 3 << 19)] == ["0", "512", "48K", "1.5M"]
    assert scaled(0.02) == (1e-3, "m")
    assert scaled(5.0) == (1.0, "")


def panel(**changes):
    points = tuple(Point(k * 1024, 1.0 / k, f"plan: {k}") for k in range(40, 50))
    single = (Point(90 * 1024, 0.9, "keep: x"), Point(60 * 1024, 0.5, "early: x"))
    curves = (Curve("plan", points), Curve("none", ()), Curve("free", single, joined=False))
    given = {"impossible": (36 * 1024,), "least_bytes": 38 * 1024, "budgets": (36 * 1024,)}
    return Panel("energy", "J", curves, **(given | changes))


def test_curves_marks_and_impossible_budgets_are_shown():
    root = parsed(pareto_figure("t", [panel(), panel(impossible=(), least_bytes=None)]))
    shown_titles = titles(root)
    for k in range(40, 50):
        assert shown_titles.count(f"plan: {k}") == 2
    assert "budget 36864 bytes: no plan found" in shown_titles
    assert f"no plan found below {38 * 1024} bytes" in shown_titles
    words = [e.text for e in root.iter(f"{NAMESPACE}text")]
    assert "none: no plan" in words
    assert "least that works: 38.0 KiB" in words
    line = next(root.iter(f"{NAMESPACE}polyline")).get("points").split()
    assert len(line) == 19  # a staircase
    ys = [float(corner.split(",")[1]) for corner in line]
    assert ys == sorted(ys)  # y grows downwards: energy falls


def test_a_wide_range_gets_a_logarithmic_axis():
    points = (Point(1024, 1000.0, "a: 1"), Point(2048, 10.0, "b: 1"), Point(3072, 0.1, "c: 1"))
    root = parsed(pareto_figure("t", [Panel("e", "J", (Curve("c", points),))]))
    ys = [float(e.get("cy")) for e in root.iter(f"{NAMESPACE}circle")
          if e.find(f"{NAMESPACE}title") is not None and ":" in e[0].text]  # fmt: skip
    assert ys[1] - ys[0] == pytest.approx(ys[2] - ys[1], abs=0.1)


def test_a_standalone_picture_needs_nothing_else():
    text = pareto_figure("t", [panel()]).standalone()
    assert re.findall(r"https?:[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert "prefers-color-scheme:dark" in text
    assert "<script" not in text
