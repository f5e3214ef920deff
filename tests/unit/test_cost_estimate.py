"""tools/estimate_costs.py: issue rules on blocks made by hand, the log's blocks, shipped tables."""

import sys
import tomllib

import pytest

from poet_mcu import resources
from poet_mcu.board.tables import KERNEL_FAMILIES, CostRow

sys.path.insert(0, str(resources.root() / "tools"))
import estimate_costs as estimate


def block(*lines):
    return [estimate.parse(*line.split(maxsplit=1)) for line in lines]


PRODUCT = block(
    "vldr d0, [r0]", "vldr d1, [r1]", "vfma.f32 s4, s0, s2", "vfma.f32 s5, s1, s2",
    "vfma.f32 s6, s0, s3", "vfma.f32 s7, s1, s3", "subs r2, #1", "bne #0x10",
)  # fmt: skip
MOVES = block("ldm.w r0!, {r3, r4, r5, r6}", "vstmia r1!, {s0, s1}", "vldmia r2!, {d0, d1}")
ROOT = block("vsqrt.f32 s0, s0", "str r0, [r1]", "adds r0, #1")


@pytest.mark.parametrize(
    ("instructions", "taken", "rules", "cycles"),
    [
        # 8 instructions in 4 pairs; 4 FPU operations; 2 double words: 4, and the branch
        (PRODUCT, True, estimate.cortex_m7, 5),
        (PRODUCT, False, estimate.cortex_m4f, 2 * 3 + 4 * 3 + 2),
        (PRODUCT, True, estimate.cortex_m4f, 2 * 3 + 4 * 3 + 2 + 2),
        (PRODUCT, True, estimate.cortex_m33, 2 * 3 + 4 + 2 + 1),
        # 4, 2 and 4 words, two a cycle and nothing beside them
        (MOVES, False, estimate.cortex_m7, 2 + 1 + 2),
        (MOVES, False, estimate.cortex_m4f, 5 + 3 + 5),
        (ROOT, False, estimate.cortex_m7, 1.5 + 15),
        (ROOT, False, estimate.cortex_m4f, 14 + 2 + 1),
        (ROOT[1:], True, estimate.cortex_m0plus, 2 + 1 + 1),
    ],
)
def test_issue_rules(instructions, taken, rules, cycles):
    assert rules(instructions, taken) == cycles


def test_blocks_of_a_log():
    log = """
IN: one
0x00000100:  ed90 0a00  vldr     s0, [r0]
0x00000104:  bd08       pop      {r3, pc}

Trace 0: 0x7f00 [00800400/00000100/00000110/ff0] one
IN:
0x00000200:  4770       bx       lr

Trace 0: 0x7f80 [00800400/00000200/00000110/ff0]
Trace 0: 0x7f00 [00800400/00000100/00000110/ff0] one
"""
    found = list(estimate.executed(iter(log.splitlines())))
    assert [(start, end, len(code)) for start, end, code in found] == [
        (0x100, 0x106, 2), (0x200, 0x202, 1), (0x100, 0x106, 2),
    ]  # fmt: skip
    assert [one.words for one in found[0][2]] == [1, 2]


@pytest.mark.parametrize("table", estimate.TABLES, ids=lambda one: one.name)
def test_a_table_is_complete_and_says_that_it_is_an_estimate(table):
    cases = estimate.common_cases()
    cycles = {case.name: 2 * case.work + 100 for case in cases}
    rows = tomllib.loads(estimate.render(table, cycles, cases, 1.5))["cost"]
    assert set(rows) >= set(KERNEL_FAMILIES)
    assert all(CostRow.model_validate(row).estimated for row in rows.values())
    assert rows["dense_fwd"]["cycles_per_mac"] == pytest.approx(1.5 * 2, rel=0.02)
