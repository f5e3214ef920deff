"""Every operator and attribute combination that has a golden vector, by file and name.

A new operator: a row in one of the files beside this one (or a file of its own, listed below),
then ``python tools/make_golden.py``. tests/host/test_golden.py names what is still missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from golden_cases import (
    activations,
    arithmetic,
    forms,
    layout,
    losses,
    masks,
    norms,
    optimizers,
    products,
    recurrent_cells,
    windows,
)
from golden_cases.case import Case

GROUPS: Mapping[str, Mapping[str, Case]] = MappingProxyType(
    {
        "activations": activations.CASES,
        "arithmetic": arithmetic.CASES,
        "forms": forms.CASES,
        "layout": layout.CASES,
        "losses": losses.CASES,
        "masks": masks.CASES,
        "norms": norms.CASES,
        "optimizers": optimizers.CASES,
        "products": products.CASES,
        "recurrent": recurrent_cells.CASES,
        "windows": windows.CASES,
    }
)
