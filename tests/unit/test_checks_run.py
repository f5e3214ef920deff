"""A build runs every check of every level, for both steps; what the whole plan must hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import models
import plans
import pytest

from poet_mcu import toolchain
from poet_mcu.errors import CheckFailed, InternalError
from poet_mcu.pipeline import build, plan, prepare, stepplan
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.plan import check_homes
from poet_mcu.schedule import planner

#: check -> who calls it
CHECKS = {
    "verify_graph": prepare,
    "verify_schedule": stepplan,
    "verify_placement": stepplan,
    "verify_program": stepplan,
    "verify_card": plan,
    "check_homes": plan,
    "check_budget": planner,
    "check_program": build,
    "check_elf": toolchain,
}


def test_a_build_runs_every_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: dict[str, list[Any]] = {}

    def spy(where: object, name: str) -> None:
        check: Callable[..., Any] = getattr(where, name)

        def noted(*arguments: Any, **named: Any) -> Any:
            called.setdefault(name, []).append(arguments[0])
            return check(*arguments, **named)

        monkeypatch.setattr(where, name, noted)

    for name, where in CHECKS.items():
        spy(where, name)
    options = Options(models.save(models.mlp(2, (8, 6, 3)), tmp_path / "m.onnx"), plans.BOARD)
    made = build.build(options, tmp_path / "out").plan
    assert set(called) == set(CHECKS)
    steps = [made.train, made.evaluation]
    assert called["check_program"] == steps
    assert called["check_homes"] == [made.train]
    assert len(called["verify_graph"]) == 2
    # A smaller plan may have been looked for besides.
    for name in ("verify_schedule", "verify_placement", "verify_program"):
        assert all(step.graph in called[name] for step in steps), name
    assert all(step.problem in called["check_budget"] for step in steps)


def test_a_program_beyond_the_budget_is_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The linked program is measured against the budget once more."""
    measured = toolchain.check_elf

    def larger(*arguments: Any) -> toolchain.Sizes:
        sizes = measured(*arguments)
        return replace(sizes, bss=sizes.bss + 1_000_000)

    monkeypatch.setattr(toolchain, "check_elf", larger)
    options = Options(models.save(models.mlp(2, (8, 6, 3)), tmp_path / "m.onnx"), plans.BOARD)
    with pytest.raises(CheckFailed, match="RAM"):
        build.build(options, tmp_path / "out")


def test_parameters_that_move_between_the_steps_are_seen(tmp_path: Path) -> None:
    options = Options(models.save(models.mlp(2, (8, 6, 3)), tmp_path / "m.onnx"), plans.BOARD)
    made = plan.plan(options)
    check_homes(made.train, made.evaluation)
    program = made.evaluation.program
    for kept in (v.id for v in made.evaluation.graph.home_ram()):
        homes = tuple(
            replace(home, offset=home.offset + 8) if home.value == kept else home
            for home in program.homes
        )
        moved = replace(made.evaluation, program=replace(program, homes=homes))
        with pytest.raises(InternalError, match="expected parameters and state at"):
            check_homes(made.train, moved)
