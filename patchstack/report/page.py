"""Create HTML pages without scripts.

A page contains tables, and plots that are drawn from Vega-Lite specifications.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchstack.causes import PackageMissing
from patchstack.installed import install_hint
from patchstack.report.text import printable

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot: a Vega-Lite specification, its title and its caption."""

    title: str
    caption: str
    spec: dict[str, object]


def require_pages() -> None:
    """Raise `MissingError` if jinja2 is not installed. Call this before a long computation."""
    if importlib.util.find_spec("jinja2") is None:
        raise PackageMissing("pages need the package jinja2, which is not installed", hint=install_hint("plots"))


def render_page(
    *, title: str, about: Sequence[str], sections: Sequence[object], plots: Sequence[Plot], notes: Sequence[str]
) -> str:
    """Return a page as HTML. Every value is escaped.

    Plots are SVG images without scripts. A section has the attributes `title`, `table` (with `titles` and `rows`) and
    `lines`. Raises `MissingError` if jinja2 is not installed, or if there are plots and the group `[plots]` is not
    installed.
    """
    require_pages()
    drawn = [{"title": one.title, "caption": one.caption, "svg": drawing(one.spec, title=one.title)} for one in plots]
    return fill("page.html", title=title, about=about, sections=sections, plots=drawn, notes=notes)


def drawing(spec: dict[str, object], *, title: str) -> Markup:
    """Return a plot as SVG that is marked as safe HTML.

    Raises `MissingError` if the optional group `[plots]` is not installed.
    """
    from markupsafe import Markup

    from patchstack.report.plots import svg_of

    return Markup(svg_of(spec, title=title))  # noqa: S704  (ours)


def fill(template: str, **values: object) -> str:
    """Fill a template of this package with escaped values, and return the text. Call `require_pages` first."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_plain, loader=None
    )
    text = (Path(__file__).parent / template).read_text(encoding="utf-8")
    return environment.from_string(text).render(**values)


def _plain(value: object) -> object:
    """Escape control characters if the value is a string. Other values are returned unchanged."""
    return printable(value) if type(value) is str else value
