"""A small SVG writer: shapes with a class and a hover title, always well-formed, text escaped."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from poet_mcu.report.style import DEFS, STYLE

Corners = Sequence[tuple[float, float]]


def shown(text: str) -> str:
    """``text`` as one line that every reader shows as it is.

    Characters that XML 1.0 (section 2.2) forbids, other controls and bidirectional marks become
    ``<U+XXXX>``: names come from strangers' files.
    """
    line = " ".join(text.split())
    return "".join(c if _plain(c) else f"<U+{ord(c):04X}>" for c in line)


def _plain(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``shown(text)``: the ends of long names tell them apart."""
    line = shown(text)
    if len(line) <= limit:
        return line
    head = (limit - 1) // 2
    return f"{line[:head]}…{line[len(line) - (limit - 1 - head) :]}"


def number(value: float) -> str:
    """A coordinate: two decimals at most, no ``-0``."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _escape(text: str) -> str:
    return html.escape(shown(text), quote=True)


class Svg:
    """A picture of ``width`` x ``height`` user units; ``label`` is what a screen reader says."""

    def __init__(self, width: float, height: float, label: str) -> None:
        self.width = width
        self.height = height
        self.label = label
        self._parts: list[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, css: str, title: str | None = None
    ) -> None:
        """A rectangle; one that would be thinner than a hair is drawn as a hair."""
        sizes = f'width="{number(max(width, 0.3))}" height="{number(max(height, 0.3))}"'
        self._shape("rect", f'x="{number(x)}" y="{number(y)}" {sizes}', css, title)

    def circle(self, x: float, y: float, radius: float, css: str, title: str | None = None) -> None:
        """A disc."""
        where = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
        self._shape("circle", where, css, title)

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
        """A straight line."""
        ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
        self._shape("line", ends, css, None)

    def polyline(self, points: Corners, css: str, title: str | None = None) -> None:
        """A line through ``points``."""
        self._shape("polyline", f'points="{_points(points)}"', css, title)

    def polygon(self, points: Corners, css: str, title: str | None = None) -> None:
        """A filled outline."""
        self._shape("polygon", f'points="{_points(points)}"', css, title)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        css: str = "",
        *,
        anchor: str = "start",
        size: float | None = None,
        turn: float = 0.0,
        title: str | None = None,
    ) -> None:
        """A line of text; ``turn`` rotates it about its anchor, in degrees."""
        where = f'x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"'
        if size is not None:
            where += f' font-size="{number(size)}"'
        if turn:
            where += f' transform="rotate({number(turn)} {number(x)} {number(y)})"'
        name = f"<title>{_escape(title)}</title>" if title else ""
        self._parts.append(f"<text {where}{_class(css)}>{name}{_escape(text)}</text>")

    @contextmanager
    def shifted(self, x: float, y: float) -> Iterator[None]:
        """What is drawn inside is moved by (x, y)."""
        self._parts.append(f'<g transform="translate({number(x)} {number(y)})">')
        yield
        self._parts.append("</g>")

    def inline(self, css: str = "") -> str:
        """The picture for the inside of an HTML page that brings style and patterns itself."""
        return f"<svg{_class(css)} {self._head()}>{''.join(self._parts)}</svg>"

    def standalone(self) -> str:
        """The picture as a file of its own, on its own background."""
        back = f'<rect class="back" width="{number(self.width)}" height="{number(self.height)}"/>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {self._head()}>'
            f"<style>{STYLE}</style>{DEFS}{back}{''.join(self._parts)}</svg>\n"
        )

    def _head(self) -> str:
        width, height = number(self.width), number(self.height)
        return (
            f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'aria-label="{_escape(self.label)}"'
        )

    def _shape(self, tag: str, where: str, css: str, title: str | None) -> None:
        if title:
            self._parts.append(
                f"<{tag} {where}{_class(css)}><title>{_escape(title)}</title></{tag}>"
            )
        else:
            self._parts.append(f"<{tag} {where}{_class(css)}/>")


def _class(css: str) -> str:
    return f' class="{_escape(css)}"' if css else ""


def _points(points: Corners) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in points)
