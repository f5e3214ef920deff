"""report.html: every name, the plan's own sums, nothing fetched, nothing of a name executed."""

import html.parser
import itertools
import random
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import models
import pytest

from poet_mcu import resources
from poet_mcu.errors import InputError
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.picture import plan_page, write_report
from poet_mcu.pipeline.plan import plan
from poet_mcu.pipeline.report import why
from poet_mcu.report import render_page, trace, write_atomic
from poet_mcu.report.numbers import comparison, wear_notes, wear_table
from poet_mcu.report.page import Page, Section, Table
from poet_mcu.report.trace import Kind, Lane
from poet_mcu.schedule import (
    Op,
    Problem,
    Tensor,
    free_early,
    keep_all,
    page_all,
    recompute_all,
    simulate,
)
from poet_mcu.units import format_bytes, format_si

DIGITS = resources.root() / "examples" / "digits" / "digits_cnn.onnx"
BOARD = "qemu-m7-sd"
HOSTILE = (
    "<script>alert(1)</script>",
    "a\"b'c",
    "x]]>y",
    "&amp; --> <!--",
    "{{ 7 * 7 }}",
    "\x07\x1b[31m\u202egnp",
    "</svg></title>",
)


class Reader(html.parser.HTMLParser):
    """All text, all tags with attributes."""

    def __init__(self, text):
        super().__init__()
        self.words, self.tags = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "\n".join(self.words)


def svgs(text):
    found = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    return [ET.fromstring(one) for one in found]  # noqa: S314 - our own output


def titles(element):
    return [found.text for found in element.iter("title")]


def section(text, name):
    return re.search(rf'<section id="{name}">(.*?)</section>', text, re.DOTALL)[1]


@pytest.fixture(scope="module")
def digits():
    return plan(Options(DIGITS, BOARD, ram_bytes=54 * 1024, batch=16))


@pytest.fixture(scope="module")
def digits_html(digits):
    return render_page(plan_page(digits))


@pytest.fixture(scope="module")
def residual(tmp_path_factory):
    path = tmp_path_factory.mktemp("residual") / "deep.onnx"
    models.save(models.residual(4, 6, 12), path)
    return plan(Options(path, BOARD, ram_bytes=44 * 1024))


def random_problem(seed):
    """A random DAG of forward and backward ops, some in place."""
    rng = random.Random(seed)
    count = rng.randint(2, 9)
    tensors = [Tensor(0, "given", 600, True, 0.1, 0.2, 0.3, 0.4, at_start=True)]
    ops = []
    for k in range(1, count + 1):
        nbytes = rng.choice((512, 600, 1024))
        costs = [rng.random() for _ in range(4)]
        tensors.append(Tensor(k, f"t{k}", nbytes, rng.random() < 0.8, *costs, at_end=k == count))
        inputs = tuple(sorted(rng.sample(range(k), min(k, rng.randint(1, 2)))))
        pairs = ((k, inputs[0]),) if rng.random() < 0.4 else ()
        cost = rng.random()
        backward = k > count // 2
        ops.append(
            Op(k, f"op {k}", inputs, (k,), cost, 2 * cost, rng.choice((0, 64)), not backward,
               backward, pairs)
        )  # fmt: skip
    return Problem("random", tuple(tensors), tuple(ops), 10**6)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("make", [keep_all, free_early, page_all, recompute_all])
def test_trace_agrees_with_the_simulation(seed, make):
    problem = random_problem(seed)
    schedule = make(problem)
    metrics = simulate(problem, schedule)
    traced = trace(problem, schedule)
    close = pytest.approx
    assert sum(e.total_j for e in traced.energies) == close(metrics.energy_j)
    assert sum(e.compute_j + e.recompute_j for e in traced.energies) == close(metrics.compute_j)
    assert sum(e.read_j + e.write_j for e in traced.energies) == close(metrics.sd_j)
    assert traced.end_s == close(metrics.time_s)
    stalls = [s.end_s - s.start_s for s in traced.spans if s.kind is Kind.STALL]
    assert sum(stalls) == close(metrics.stall_s)
    used = [m.values_bytes + m.workspace_bytes for m in traced.moments]
    assert max(used) == metrics.peak_bytes
    assert used.index(metrics.peak_bytes) == metrics.peak_action
    found = [event.state.value for events in traced.events.values() for event in events]
    assert found.count("O") == metrics.page_outs
    assert found.count("I") == metrics.page_ins
    assert found.count("C") == len(problem.ops)
    assert found.count("R") == metrics.recomputes


@pytest.mark.parametrize("seed", range(20))
def test_no_lane_does_two_things_at_once_where_transfers_block(seed):
    problem = random_problem(seed)
    spans = trace(problem, page_all(problem)).spans
    for lane in Lane:
        mine = sorted((s for s in spans if s.lane is lane), key=lambda s: (s.start_s, s.end_s))
        for before, after in itertools.pairwise(mine):
            assert before.end_s <= after.start_s + 1e-12


@pytest.mark.parametrize("which", ["digits", "residual"])
def test_every_op_and_value_is_in_the_schedule(which, request):
    made = request.getfixturevalue(which)
    text = render_page(plan_page(made))
    shown = "\n".join(t for svg in svgs(section(text, "schedule")) for t in titles(svg))
    problem = made.train.problem
    for stage, op in enumerate(problem.ops, 1):
        assert f"stage {stage}: {op.name}, reads " in shown
    for tensor in problem.tensors:
        assert f"{tensor.name}, {tensor.nbytes} bytes" in shown
    assert shown.count(": paged out, action ") == made.facts["page_outs"]
    assert shown.count(": paged in, action ") == made.facts["page_ins"]
    assert shown.count(": recomputed, action ") == made.facts["recomputes"]
    computed = sum(len(op.outputs) for op in problem.ops)
    assert shown.count(": computed, action ") == computed


def test_the_residual_plan_pages_and_recomputes(residual):
    assert residual.facts["page_outs"] > 0
    assert residual.facts["recomputes"] > 0


@pytest.mark.parametrize(
    ("joules", "words"), [(2.0, "costs 1 J more"), (1.0, "costs the same"), (0.5, "500 mJ less")]
)
def test_each_means_alone_is_compared_with_the_plan(joules, words):
    alone = {"peak_bytes": 1, "energy_j": joules}
    facts = {"page_ins": 1, "page_outs": 1, "recomputes": 0, "energy_j": 1.0}
    told = why(facts | {"baselines": {"paging_only": alone, "remat_only": alone}})
    assert told.count(words) == 2


def test_numbers_are_the_facts(digits, digits_html):
    numbers = Reader(section(digits_html, "numbers")).text
    for entry in (digits.facts, *digits.facts["baselines"].values()):
        if entry["peak_bytes"] is None:
            continue
        assert format_bytes(entry["peak_bytes"]) in numbers
        for key in ("energy_j", "compute_j", "sd_j"):
            assert format_si(entry[key], "J") in numbers
        for key in ("time_s", "stall_s"):
            assert format_si(entry[key], "s") in numbers
    head = Reader(digits_html).text
    assert format_si(digits.facts["energy_j"], "J") in head
    assert "digits_cnn.onnx on qemu-m7-sd" in head


def test_a_new_baseline_is_shown_and_what_does_not_fit_is_said(digits):
    entry = digits.facts["baselines"]["page_all"] | {"status": "infeasible"}
    facts = digits.facts | {"baselines": {"some_day": entry}}
    table = comparison(facts)
    assert table.rows[0][0] == "some day \u2717"
    assert table.rows[0][5] == f"{(entry['energy_j'] / facts['energy_j'] - 1) * 100:+.1f} %"
    assert table.faint == {0}
    assert table.strong == 1
    assert table.rows[1][5] == "0 %"
    nothing = dict.fromkeys(entry) | {"status": "infeasible"}
    table = comparison(digits.facts | {"baselines": {"remat_only": nothing}})
    assert table.rows[0] == ("best with recompute only \u2717", *["-"] * 12)


def test_the_peak_is_named(digits, digits_html):
    ram = svgs(section(digits_html, "ram"))[0]
    action = digits.train.metrics.peak_action
    peak = digits.facts["peak_bytes"]
    assert f"peak: {peak} bytes at action {action}" in titles(ram)
    words = [t.text for t in ram.iter("text") if t.text]
    name = digits.facts["peak_at"]
    assert f"peak {format_bytes(peak)}, action {action}: {name}" in words
    assert f"budget {format_bytes(54 * 1024)}" in words
    totals = [int(m[1]) for t in titles(ram) if (m := re.match(r"action \d+: .*?: (\d+) bytes", t))]
    assert len(totals) == len(digits.train.schedule.actions)
    assert max(totals) == peak


def test_the_timeline_adds_up(digits, digits_html):
    lanes = svgs(section(digits_html, "time"))[0]
    shown = titles(lanes)
    for what, count in (("read", "page_ins"), ("write", "page_outs")):
        assert len({t for t in shown if f": {what} " in t}) == digits.facts[count]
    waits = digits.facts["page_ins"] + digits.facts["page_outs"]
    assert len({t for t in shown if ": waits for " in t}) == waits
    text = Reader(section(digits_html, "time")).text
    assert f"A step takes {format_si(digits.facts['time_s'], 's')}" in text
    assert f"{format_si(digits.facts['stall_s'], 's')} of waiting" in text


def test_energy_has_a_bar_for_every_op(digits, digits_html):
    bars = svgs(section(digits_html, "energy"))[0]
    shown = titles(bars)
    for op in digits.train.problem.ops:
        assert f"{op.name}: compute, {format_si(op.compute_j, 'J')}" in shown
    # relative widths are relative energies
    widths = {r[0].text: float(r.get("width")) for r in bars.iter("rect") if len(r) and r[0].text}
    dear = max(digits.train.problem.ops, key=lambda op: op.compute_j)
    reads = [w for t, w in widths.items() if "card reads" in t]
    assert len(reads) == digits.facts["page_ins"]
    read_j = sum(t.page_in_j for t in digits.train.problem.tensors if t.at_start and t.id == 0)
    ratio = reads[0] / widths[f"{dear.name}: compute, {format_si(dear.compute_j, 'J')}"]
    assert ratio == pytest.approx(read_j / dear.compute_j, rel=0.01)


def test_arena_has_a_rectangle_for_every_slot(digits, digits_html):
    shown = titles(svgs(section(digits_html, "arena"))[0])
    graph = digits.train.graph
    for slot in digits.train.placement.slots:
        value = graph.values[slot.value]
        title = (
            f"{value.name} ({value.role.value}): {slot.nbytes} bytes at "
            f"[{slot.offset}, {slot.offset + slot.nbytes}), actions {slot.first} to {slot.last - 1}"
        )
        assert title in shown
    assert len({t for t in shown if t.startswith("workspace")}) == len(
        digits.train.placement.scratch
    )


def test_wear_is_an_estimate_from_whole_blocks(digits, digits_html):
    text = Reader(section(digits_html, "wear")).text
    assert "4.0 KiB (4096 bytes)" in text
    assert f"{10**12 // 4096:,}" in text
    assert "about 29,300,000,000" in text
    assert "estimate, not a promise" in text
    assert "Micron i300" in text
    table = wear_table(1000, 900, 2.0)
    years = 120 * 10**9 * 2.0 / (365.25 * 86400)
    assert table.rows[-1][1] == f"about {years:.3g} years"


def test_a_plan_that_writes_nothing_has_no_end(digits):
    assert len(wear_table(0, 0, 1.0).rows) == 2
    assert wear_notes(0, "sd_spi")[0] == "This plan writes nothing to the card."
    assert "no card wears" in wear_notes(512, "semihosting")[-1]


def test_the_file_is_self_contained(digits_html):
    reader = Reader(digits_html)
    for tag, attributes in reader.tags:
        assert tag not in ("script", "link", "img", "iframe", "object", "image", "use", "base")
        assert "src" not in attributes
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("href", "xlink:href"):
                assert value.startswith("#")
    assert "http:" not in digits_html
    assert "https:" not in digits_html
    assert "@import" not in digits_html
    assert set(re.findall(r"url\((.)", digits_html)) == {"#"}
    targets = {a["id"] for _, a in reader.tags if "id" in a}
    for pattern in re.findall(r"url\(#([^)]*)\)", digits_html):
        assert pattern in targets
    assert len(targets) == len([a for _, a in reader.tags if "id" in a]), "ids are unique"


def test_every_picture_is_well_formed(digits_html):
    pictures = svgs(digits_html)
    assert len(pictures) == digits_html.count("<svg ") >= 10
    for picture in pictures[1:]:
        assert picture.get("aria-label")
        assert picture.get("viewBox")


def hostile(problem, name):
    return replace(
        problem,
        tensors=tuple(replace(t, name=f"{name}{t.id}") for t in problem.tensors),
        ops=tuple(replace(op, name=f"{name}{op.id}") for op in problem.ops),
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(digits, name):
    step = digits.train
    graph = replace(
        step.graph, values=tuple(replace(v, name=f"{name}{v.id}") for v in step.graph.values)
    )
    facts = digits.facts | {"model": name, "peak_at": name, "board": name}
    step = replace(step, graph=graph, problem=hostile(step.problem, name))
    text = render_page(plan_page(replace(digits, train=step, facts=facts)))
    reader = Reader(text)
    plain = Reader(render_page(plan_page(digits)))
    assert [t for t, _ in reader.tags] == [t for t, _ in plain.tags]
    for picture in svgs(text):
        assert picture.tag == "svg"
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", text)
    if name.isprintable():
        assert f"{name}{digits.train.problem.ops[3].id}, reads" in reader.text
        assert name in reader.text
    else:
        assert "<U+001B>[31m<U+202E>gnp" in reader.text


def test_long_names_are_cut_in_the_picture_and_whole_in_the_title(digits):
    long = "/features/block.0/" + "x" * 300
    step = replace(digits.train, problem=hostile(digits.train.problem, long))
    text = section(render_page(plan_page(replace(digits, train=step))), "schedule")
    assert f"{long}3, reads" in Reader(text).text
    widest = max(len(t) for svg in svgs(text) for e in svg.iter("text") for t in [e.text or ""])
    assert widest <= 60


def test_the_same_plan_gives_the_same_bytes_without_paths(digits, digits_html, tmp_path):
    path = tmp_path / "report.html"
    write_report(digits, path)
    assert path.read_bytes().decode() == digits_html
    assert str(resources.root()) not in digits_html
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_deadline_is_drawn(tmp_path):
    path = models.save(models.mlp(2), tmp_path / "m.onnx")
    free = plan(Options(path, BOARD))
    deadline_s = 2 * free.facts["time_s"]
    made = plan(Options(path, BOARD, deadline_s=deadline_s))
    words = Reader(section(render_page(plan_page(made)), "time")).text
    assert f"deadline {format_si(deadline_s, 's')}" in words


def test_writing_into_nowhere_says_so(digits, tmp_path):
    with pytest.raises(InputError, match="expected a file that can be written"):
        write_report(digits, tmp_path / "missing" / "report.html")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.html"
    write_atomic(path, "old")

    def fail(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match="No space left on device"):
        write_atomic(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]


def test_tables_and_notes_are_escaped():
    table = Table(("a", "b"), (("<b>1</b>", "2"),), faint=frozenset({0}))
    page = Page(
        "<i>t</i>", "s", (("c", "<u>"),), (Section("x", "X", "<p>", table, notes=("<q>",)),)
    )
    reader = Reader(render_page(page))
    assert not {"b", "i", "u", "q"} & {tag for tag, _ in reader.tags}
    for word in ("<b>1</b>", "<i>t</i>", "<u>", "<p>", "<q>"):
        assert word in reader.text
