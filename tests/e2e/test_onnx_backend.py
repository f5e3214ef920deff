"""ONNX's own backend tests: every case passes through the generated C or is on the list."""

from __future__ import annotations

from dataclasses import replace

import onnx_backend
import pytest

#: cases of operators of the plan; what a change of onnx may not silently take away
LEAST = 600


@pytest.mark.parametrize("name", sorted(onnx_backend.cases()))
def test_case(name: str) -> None:
    found = onnx_backend.outcome(onnx_backend.cases()[name])
    if name in onnx_backend.refused():
        # The list only shrinks: a case that passes now must leave it.
        how = f"{found.what}: take '{name}' off tests/data/onnx_refused.txt {found.why}"
        assert found.what == "refused", how
        assert "expected" in found.why
    else:
        assert found.what == "passed", found.why


def test_the_list_names_cases_only() -> None:
    assert set(onnx_backend.refused()) <= set(onnx_backend.cases())
    assert len(onnx_backend.cases()) >= LEAST


def test_a_wrong_result_is_seen() -> None:
    case = onnx_backend.cases()["node/relu"]
    assert onnx_backend.outcome(case) == onnx_backend.Outcome("passed", whole=True)
    wrong = replace(case, y=[case.y[0] + 1])
    assert onnx_backend.outcome(wrong).what == "wrong"
