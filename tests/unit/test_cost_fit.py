"""Fitted prices: known prices come back, none is negative, the table is a board's table."""

import json
import sys
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poet_mcu import resources
from poet_mcu.bench import fit
from poet_mcu.bench.recurrent import every_case
from poet_mcu.bench.select import common_names
from poet_mcu.board.tables import KERNEL_FAMILIES, OPTIONAL_FAMILIES, CostRow

sys.path.insert(0, str(resources.root() / "tools"))
import fit_costs

PRICES = {"mac": 2.5, "element": 12.0, "transcendental": 80.0, "call": 400.0}


def made_up_counts():
    """Counts of cores on which every family has exactly PRICES."""
    counts = {}
    for case in every_case():
        cost = case.cost
        counts[case.name] = (
            PRICES["mac"] * cost.macs
            + PRICES["element"] * cost.elements
            + PRICES["transcendental"] * cost.transcendental
            + PRICES["call"]
        )
    return counts


def test_prices_of_made_up_counts_come_back():
    table = fit.family_table(made_up_counts(), every_case(), common_names())
    assert list(table) == [*KERNEL_FAMILIES, *OPTIONAL_FAMILIES]
    for family, fitted in table.items():
        # The optional families have no price of a call, which the made-up counts have.
        exact = 0.05 if family in OPTIONAL_FAMILIES else 1e-3
        assert max(fitted.every) == pytest.approx(1, abs=exact), family
        assert 1 <= max(fitted.common) <= max(fitted.every)
    conv, loss = table["conv_fwd"].prices, table["loss"].prices
    assert conv == pytest.approx([2.5, 12.0, 0.0, 400.0], rel=1e-3)
    assert loss == pytest.approx([0.0, 12.0, 80.0, 400.0], rel=1e-3)


def test_written_tables_are_valid_and_complete(tmp_path):
    counts = tmp_path / "counts.json"
    rows = {name: {"instructions": count} for name, count in made_up_counts().items()}
    counts.write_text(json.dumps(dict.fromkeys(fit_costs.TABLES, rows)))
    assert fit_costs.main(["--counts", str(counts), "--out", str(tmp_path)]) == 0
    shipped = {path.stem for path in (resources.boards() / "cost").glob("*.toml")} - {"host"}
    shipped = {name for name in shipped if not name.endswith("_silicon")}  # estimate_costs.py
    assert {path.stem for path in tmp_path.glob("*.toml")} == shipped
    for path in tmp_path.glob("*.toml"):
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["cost"]
        assert set(rows) == {*KERNEL_FAMILIES, *OPTIONAL_FAMILIES}
        for row in rows.values():
            assert CostRow.model_validate(row).estimated is False


def test_missing_counts_are_said(tmp_path, capsys):
    assert fit_costs.main(["--counts", str(tmp_path / "no.json")]) == 2
    assert "no.json: expected counts, got No such file" in capsys.readouterr().err


@given(st.lists(st.tuples(*[st.integers(1, 10**6)] * 4), min_size=1, max_size=8))
def test_prices_are_never_negative(cases):
    rows = np.array([(a, b, 0, 1) for a, b, _, _ in cases], float)
    counts = np.array([c for _, _, c, _ in cases], float)
    prices = fit.fit(rows, counts)
    assert (prices >= 0).all()
    assert prices[2] == 0
    assert (rows @ prices > 0).all()
