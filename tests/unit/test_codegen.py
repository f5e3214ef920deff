"""How C is spelt: literals, lines, names that come from strangers, and the same bytes each time."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import models
import numpy as np
import plans
import pytest

from poet_mcu import resources
from poet_mcu.codegen.model_view import ABI_VERSION
from poet_mcu.codegen.render import render
from poet_mcu.codegen.spelling import COLUMNS, c_float, c_rows, wrapped
from poet_mcu.errors import InternalError
from poet_mcu.pipeline.stepplan import PAGE_STATE_BYTES

EDGES = [0.0, -0.0, 1.0, -1.0, 1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 16777216.0]


def bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def read_by_c(literals: list[str], folder: Path) -> np.ndarray:
    source = folder / "floats.c"
    source.write_text(f"const float values[] = {{{', '.join(literals)}}};\n")
    library = folder / "floats.so"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wdouble-promotion", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, str(source), "-o", str(library)], check=True)
    array = (ctypes.c_float * len(literals)).in_dll(ctypes.CDLL(str(library)), "values")
    return np.frombuffer(array, np.float32).copy()


def test_float_literals_round_trip_through_the_compiler(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([np.float32(EDGES), patterns[np.isfinite(patterns)]])
    back = read_by_c([c_float(v) for v in values.tolist()], tmp_path)
    assert np.array_equal(back.view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize("value", EDGES)
def test_float_literals_are_floats(value: float) -> None:
    assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?f", c_float(value))
    assert "." in c_float(value) or "e" in c_float(value)


def test_rows_hold_every_element_in_memory_order() -> None:
    array = np.arange(19, dtype=np.int32).reshape(1, 19)
    rows = c_rows(array)
    assert " ".join(rows).replace(",", "").split() == [str(i) for i in range(19)]
    assert len(rows) == 4


def test_rows_spell_each_float_as_a_single_one_is_spelt() -> None:
    whole = np.float32([1, -3, 1e6, 2**23 - 0.5, 999_999_936, 1e9, 2**30, 1e10, 3e38, 0.1])
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([np.float32(EDGES), whole, patterns[np.isfinite(patterns)]])
    words = " ".join(c_rows(values)).replace(",", "").split()
    assert words == [c_float(v) for v in values.tolist()]


def test_wrapped_lines_fit_and_keep_everything() -> None:
    items = [f"argument_number_{i}" for i in range(20)]
    text = wrapped("function(", items, ");")
    assert all(len(line) <= COLUMNS for line in text.splitlines())
    assert re.sub(r"\s+", " ", text) == f"function({', '.join(items)});"
    assert wrapped("f(", [], ");") == "f("  # no call is without arguments


def test_a_missing_name_in_a_template_is_our_bug() -> None:
    with pytest.raises(InternalError, match=r"templates/poet_weights\.c\.j2.*'v' is undefined"):
        render("poet_weights.c.j2")


def test_the_contract_version_is_the_headers() -> None:
    header = (resources.root() / "firmware/include/poet/model.h").read_text()
    assert f"#define POET_ABI_VERSION {ABI_VERSION}\n" in header


def test_the_size_of_a_page_state_is_the_headers(tmp_path: Path) -> None:
    source = tmp_path / "size.c"
    source.write_text(
        '#include "poet/page.h"\n'
        f'_Static_assert(sizeof(poet_page_state) == {PAGE_STATE_BYTES}, "page state");\n'
    )
    include = resources.root() / "firmware/include"
    subprocess.run(["cc", "-std=c11", f"-I{include}", "-fsyntax-only", str(source)], check=True)


def test_templates_hold_no_arithmetic() -> None:
    for template in sorted((resources.root() / "templates").glob("*.j2")):
        for code in re.findall(r"{{(.*?)}}|^\s*%%(.*)$", template.read_text(), re.MULTILINE):
            expression = re.sub(r'"[^"]*"', "", "".join(code))
            assert not re.search(r"[+*/]|\s-\s", expression), f"{template.name}: {expression}"
        assert len(template.read_text().splitlines()) <= 150


_RENDER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from poet_mcu.pipeline.build import _code_input, _with_build_id
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import plan
made = plan(Options(Path({model!r}), "qemu-m7-sd", ram_bytes={ram}))
code, texts = _with_build_id(_code_input(made, made.prepared.board), made.prepared.board)
sys.stdout.write("\\0".join(f"{{k}}\\n{{v}}" for k, v in sorted(texts.items())))
"""


def test_the_same_input_gives_the_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    path = models.save(models.residual(2), tmp_path / "m.onnx")
    made = plans.prepared(models.residual(2), tmp_path)
    plan = plans.step_plan(made, squeeze=0.2)
    ram = plan.ram_bytes + 3200
    script = _RENDER.format(tests=str(Path(__file__).parent.parent), model=str(path), ram=ram)
    texts = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("0", "4711")
    ]
    assert texts[0] == texts[1]
    assert b"poet_generated_train_step" in texts[0]
    assert str(tmp_path).encode() not in texts[0]
    assert b"\r" not in texts[0]
    assert not re.search(rb"\b20\d\d-\d\d-\d\d\b", texts[0])
