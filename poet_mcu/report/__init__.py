"""Pictures and pages of plans: SVG by our own small writer, one self-contained HTML file."""

from poet_mcu.report.compose import ReportInput, report_page
from poet_mcu.report.grid import schedule_figure
from poet_mcu.report.memory import Levels
from poet_mcu.report.page import Page, Section, Table, render_page, write_atomic
from poet_mcu.report.pareto import Curve, Panel, Point, pareto_figure
from poet_mcu.report.trace import Trace, trace

__all__ = [
    "Curve",
    "Levels",
    "Page",
    "Panel",
    "Point",
    "ReportInput",
    "Section",
    "Table",
    "Trace",
    "pareto_figure",
    "render_page",
    "report_page",
    "schedule_figure",
    "trace",
    "write_atomic",
]
