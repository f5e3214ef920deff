"""One self-contained HTML page: sections of text, tables and pictures; nothing is fetched."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from poet_mcu import resources
from poet_mcu.errors import InputError, InternalError
from poet_mcu.report.grid import Grid
from poet_mcu.report.style import DEFS, STYLE
from poet_mcu.report.svg import Svg, shown
from poet_mcu.version import __version__


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are text; the first column is aligned left. ``strong``: index of the row to stress.

    ``faint``: indices of rows that do not count (what does not fit).
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: int | None = None
    faint: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, sentences, and below them a table, a picture, a scrolling grid or several."""

    id: str
    heading: str
    text: str = ""
    table: Table | None = None
    figures: tuple[Svg, ...] = ()
    grid: Grid | None = None
    legend: Svg | None = None
    notes: tuple[str, ...] = ()
    scroll: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """``chips``: (label, value) pairs at the top."""

    title: str
    subtitle: str
    chips: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    footer: str = ""


def _inline(svg: Svg, css: str = "") -> Markup:
    return Markup(svg.inline(css))  # noqa: S704 - the writer escapes every text it is given


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.templates()),
        undefined=jinja2.StrictUndefined,
        line_statement_prefix="%%",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
    )
    environment.filters["svg"] = _inline
    environment.filters["shown"] = shown
    return environment


def render_page(page: Page) -> str:
    """The page as HTML. A template that does not fit the page is our bug."""
    style, defs = Markup(STYLE), Markup(DEFS)  # noqa: S704 - constants of ours
    try:
        template = _environment().get_template("report.html.j2")
        return template.render(page=page, style=style, defs=defs, version=__version__)
    except jinja2.TemplateError as error:
        raise InternalError(f"templates/report.html.j2: {error}") from error


def write_atomic(path: Path, text: str) -> None:
    """Write UTF-8 with LF; the file is the old one or the whole new one at any moment.

    Raises InputError when the folder does not exist or cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InputError(
            f"{path}: expected a file that can be written, got {error.strerror}; choose another"
        ) from error
    partial = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        partial.chmod(0o644)
        partial.replace(path)
    except OSError as error:
        raise InputError(
            f"{path}: expected a file that can be written, got {error.strerror}; choose another"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
