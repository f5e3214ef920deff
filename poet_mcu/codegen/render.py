"""The Jinja environment and the one way to render a template."""

from __future__ import annotations

import jinja2

from poet_mcu import resources
from poet_mcu.errors import InternalError


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.root() / "templates"),
        undefined=jinja2.StrictUndefined,
        line_statement_prefix="%%",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - C, not HTML; strings come through cnames
    )


def render(template: str, **context: object) -> str:
    """The text of a template under ``templates/``; a missing name is our bug."""
    try:
        return _environment().get_template(template).render(**context)
    except jinja2.TemplateError as error:
        line = getattr(error, "lineno", None)
        where = f"{template}:{line}" if line else template
        raise InternalError(f"templates/{where}: {error}") from error
