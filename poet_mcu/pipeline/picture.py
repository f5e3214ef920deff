"""``plan --report``: the plan as one HTML file."""

from __future__ import annotations

from pathlib import Path

from poet_mcu.cost import moved_bytes
from poet_mcu.ir.schedule import ActionKind
from poet_mcu.pipeline.plan import Plan
from poet_mcu.pipeline.report import why
from poet_mcu.report import Levels, Page, ReportInput, render_page, report_page, write_atomic


def plan_page(plan: Plan) -> Page:
    """The report of the training step."""
    board, step = plan.prepared.board, plan.train
    sizes = {t.id: t.nbytes for t in step.problem.tensors}
    written = sum(
        moved_bytes(sizes[action.subject], board)
        for action in step.schedule.actions
        if action.kind is ActionKind.PAGE_OUT
    )
    levels = Levels(plan.budget.runtime_bytes, step.home_bytes, plan.budget.ram_bytes)
    return report_page(
        ReportInput(
            facts=plan.facts,
            options=plan.prepared.options.summary(),
            why=why(plan.facts),
            graph=step.graph,
            problem=step.problem,
            schedule=step.schedule,
            placement=step.placement,
            levels=levels,
            written_bytes=written,
            driver=board.storage.driver,
        )
    )


def write_report(plan: Plan, path: Path) -> None:
    """Write ``plan`` as one self-contained HTML file, atomically.

    Raises InputError when ``path`` cannot be written.
    """
    write_atomic(path, render_page(plan_page(plan)))
